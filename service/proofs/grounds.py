"""What a proof is to show: the event that recorded a thing, and the texts that it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lifecycle.rules.impact import definition_text
from lifecycle.state.workflow import PLAN
from service.errors import NotFound
from service.proofs.relation import ADOPTED, APPROVED, RESULTS

if TYPE_CHECKING:
    from eventstore.event import RecordedEvent
    from eventstore.store import EventStore
    from lifecycle.state.workflow import Workflow
    from service.reading.log import WorkflowLog

_PART = re.compile(
    r"(?P<stage>[^/]+)\.(?:outputs/(?P<file>.+)|metrics/(?P<task>.+)/(?P<metric>[^/]+))"
)
_VERSION = re.compile(r"v?([1-9][0-9]{0,18})", re.ASCII)
_COMPLETED = "completed"
#: A file that is longer is not put into a proof, not even whole.
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Grounds:
    """The version of the event that is proven, what is claimed of it, and what it rests on.

    ``texts`` are in the order in which they are left out where a proof would be too long: the
    last first.
    """

    version: int
    claim: dict[str, str] = field(default_factory=dict)
    texts: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class _Result:
    """The event that recorded what a stage found, and the definition that was in force then."""

    event: RecordedEvent
    definition: bytes

    @property
    def stage(self) -> str:
        return str(self.event.data["stage"])

    @property
    def rests_on(self) -> dict[str, Any]:
        return self.event.data.get("rests_on") or {}


@dataclass(slots=True)
class _Seen:
    """Where the events stand that a proof may show: by hash, and by what they are of."""

    versions: dict[str, int] = field(default_factory=dict)
    #: Of each stage its completion, and the adoptions since, each of some outputs: newest first.
    results: dict[str, list[_Result]] = field(default_factory=dict)
    proposals: dict[str, int] = field(default_factory=dict)

    def take(self, event: RecordedEvent, state: Workflow) -> None:
        if event.type in RESULTS:
            stage = event.data["stage"]
            before = self.results.get(stage, []) if event.type == ADOPTED else []
            text = definition_text(state.stage(stage))
            self.results[stage] = [_Result(event, text), *before]
        elif event.type in ("attempt.started", APPROVED):
            self.versions[event.hash] = event.version
        elif event.type == "amendment.proposed":
            self.proposals.setdefault(event.data["amendment"], event.version)


def grounds_of(log: WorkflowLog, what: str, upto: int) -> Grounds:
    """Return what proves ``what`` among the first ``upto`` events; raises `NotFound`.

    ``what`` is ``stage-3.outputs/FILE``, with ``#/POINTER`` for a value in it, an output's path,
    ``stage-3.metrics/TASK/NAME``, a stage, an amendment, or a version.
    """
    version = _VERSION.fullmatch(what)
    if version is not None:
        log.require(int(version[1]))
        return Grounds(int(version[1]))
    seen, state = _Seen(), None
    for event, state in log.steps(upto=upto):
        seen.take(event, state)
    if state is None:
        raise NotFound("the log holds no workflow, of which something could be proven")
    if what in seen.proposals or (what == PLAN and state.plan is not None):
        return _of_amendment(log, seen, state, what)
    return _of_result(log, seen, state, what)


def _of_amendment(log: WorkflowLog, seen: _Seen, state: Workflow, id_: str) -> Grounds:
    version = seen.versions.get(state.amendments[id_].approval)
    if version is None:
        return Grounds(1 if id_ == PLAN else seen.proposals[id_])
    return Grounds(version, texts=(_statement(log, version),))


def _of_result(log: WorkflowLog, seen: _Seen, state: Workflow, what: str) -> Grounds:
    result, claim = _named(seen, what)
    status = state.stage(result.stage).status
    if status != _COMPLETED:
        raise NotFound(
            f"{result.stage} is {status}: its result counts no longer. `wfctl prove "
            f"{result.event.version}` proves that it was recorded.",
            stage=result.stage,
            status=status,
        )
    texts = tuple(_texts(log, seen, state, result, claim)) if result.rests_on else ()
    return Grounds(result.event.version, claim, texts)


def _texts(
    log: WorkflowLog, seen: _Seen, state: Workflow, result: _Result, claim: dict[str, str]
) -> Iterator[bytes]:
    """Yield what a result rests on, the dearest last: the statement of the plan has every stage."""
    rests_on = result.rests_on
    yield from _content(log, state, result, claim)
    yield result.definition
    if rests_on.get("attempt") in seen.versions:
        yield text_at(log.store, log.stream, seen.versions[rests_on["attempt"]])
    agreed = [seen.versions[one] for one in rests_on["approvals"].values() if one in seen.versions]
    for version in agreed:
        yield text_at(log.store, log.stream, version)
    for version in reversed(agreed):
        yield _statement(log, version)


def _content(
    log: WorkflowLog, state: Workflow, result: _Result, claim: dict[str, str]
) -> Iterator[bytes]:
    named = _file_named(state, result, claim)
    root = log.approvals.root
    if named is None or root is None:
        return
    place = root / named["path"]
    if place.is_file() and place.stat().st_size <= _MOST_BYTES:
        content = place.read_bytes()
        if sha256(content).hexdigest() == named["sha256"]:
            yield content


def _file_named(state: Workflow, result: _Result, claim: dict[str, str]) -> dict[str, Any] | None:
    """Return path and digest of the file that a value is claimed in, None for another claim."""
    if "pointer" in claim:
        outputs = result.event.data["outputs"]
        return next(dict(one) for one in outputs if one["path"] == claim["output"])
    source = state.stage(result.stage).source if "metric" in claim else None
    return (source.tasks or {}).get("record") if source is not None else None


def text_at(store: EventStore, stream: str, version: int) -> bytes:
    """Return the text of an event as it was hashed."""
    raw = next(iter(store.raw(stream, after=version - 1, upto=version)))
    return raw.text.encode("utf-8", "surrogateescape")


def _statement(log: WorkflowLog, version: int) -> bytes:
    from service.consent.proof import agreed_to

    before = log.state(version - 1)
    if before is None:
        raise NotFound(f"version {version} is an approval of no workflow", version=version)
    event = next(iter(log.store.read(log.stream, after=version - 1)))
    return agreed_to(before, before.amendments[event.data["amendment"]], event)


def _named(seen: _Seen, what: str) -> tuple[_Result, dict[str, str]]:
    if what in seen.results:
        return seen.results[what][0], {}
    asked = _PART.fullmatch(what)
    if asked is not None and asked["task"] is not None:
        return _metric(seen, asked)
    path, sharp, pointer = (asked["file"] if asked is not None else what).partition("#")
    paths = (f"{asked['stage']}/{path}", path) if asked is not None else (path,)
    every = [one for results in seen.results.values() for one in results]
    for result in every:
        if asked is None or asked["stage"] == result.stage:
            known = {one["path"] for one in result.event.data["outputs"]}
            for one in paths:
                if one in known:
                    return result, {"output": one, **({"pointer": pointer} if sharp else {})}
    paths = tuple(dict.fromkeys(one["path"] for r in every for one in r.event.data["outputs"]))
    raise NotFound(
        f"expected an output of a completed stage ({', '.join(paths) or 'none yet'}), a stage, an "
        f"amendment or a version, found {what!r}",
        what=what,
    )


def _metric(seen: _Seen, asked: re.Match[str]) -> tuple[_Result, dict[str, str]]:
    result = next(iter(seen.results.get(asked["stage"], [])), None)
    if result is None or not result.rests_on.get("tasks"):
        raise NotFound(
            f"expected a completed stage of tasks with a record of them, found {asked['stage']}",
            stage=asked["stage"],
        )
    return result, {"task": asked["task"], "metric": asked["metric"]}
