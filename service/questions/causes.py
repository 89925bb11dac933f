"""Why something is as it is: what each event follows from, causes, refusals, advice."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from eventstore.event import RecordedEvent
from eventstore.private import read_regular
from eventstore.store import Refusal
from lifecycle.plan.advice import advice
from lifecycle.rules.impact import acting_on
from lifecycle.state.status import BLOCKING, Status
from lifecycle.state.workflow import Stage, Workflow
from projections.files.progress_log import message
from projections.words.amendments import held
from service.consent.scripts import beside, scripts_of
from service.reading.log import WorkflowLog
from service.reading.stream_log import At
from service.root.disk import seen_from

#: Event type → the types, newest first, of what it follows from in the same stage or attempt.
_GROUNDS: dict[str, tuple[str, ...]] = {
    "stage.prepared": ("stage.readied", "stage.retried"),
    "attempt.started": ("stage.prepared", "attempt.observed"),
    "stage.launched": ("attempt.started",),
    "attempt.relaunched": ("attempt.started",),
    "attempt.observed": ("stage.launched", "attempt.started"),
    "stage.computed": ("attempt.observed", "stage.launched", "attempt.started"),
    "outputs.reused": ("stage.prepared",),
    "stage.completed": ("stage.computed", "outputs.reused"),
    "stage.failed": ("attempt.observed", "stage.computed", "outputs.reused", "stage.launched",
                     "attempt.started", "stage.prepared"),
    "stage.retried": ("stage.failed",),
    "amendment.approved": ("amendment.proposed",),
    "amendment.rejected": ("amendment.proposed",),
}  # fmt: skip
#: Event types that others follow from, whether or not they change a status.
_LINKS = frozenset({"amendment.proposed", "stage.blocked", *_GROUNDS, *chain(*_GROUNDS.values())})
_ROOTS = frozenset({"workflow.created", "workflow.imported"})
#: Steps of an attempt that went on: what they follow from says more than they do.
_STEPS = frozenset(
    {"stage.readied", "stage.prepared", "attempt.started", "stage.launched", "attempt.relaunched"}
    | {"stage.computed"}
)
#: What was done about an observed attempt where the observation says why it ended.
_TURNING = frozenset({"lost", "launch", "attach"})


@dataclass(frozen=True, slots=True)
class CauseLink:
    """One step of a chain of causes: an event, in a sentence. Times are UTC."""

    version: int
    type: str
    stage: str | None
    occurred_at: str
    recorded_at: str
    actor: str
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


class CauseGrounds:
    """What later events may follow from, as a history is gone through."""

    def __init__(self) -> None:
        self._links: dict[int, CauseLink] = {}
        self._causes: dict[int, set[int]] = {}
        self._steps: set[int] = set()
        self._newest: dict[tuple[str, str | None], int] = {}
        self._turns: dict[str, int] = {}
        self._status: dict[str, Status] = {}
        self._made: dict[str, str] = {}
        self._ids: dict[str, int] = {}
        self._command = ""
        self._root = 0

    def see(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event, with the state after it."""
        version = event.version
        if event.command_id != self._command:
            self._command, self._ids = event.command_id, {}
        self._ids[event.event_id] = version
        recorded = self._ids.get(event.causation_id or "")
        cause = recorded if recorded in self._links else self._ground(event)
        if not self._turn(event, state) and event.type not in _LINKS:
            return  # nothing follows from it
        if event.type in _ROOTS:
            self._root = version
        else:
            self._causes[version] = {cause} if cause is not None else set()
            self._causes[version] |= self._further(event, state)
        if event.type == "stage.prepared":
            self.renew(state.stages[event.data["stage"]])
        observed = event.type == "attempt.observed"
        if event.data.get("action") not in _TURNING if observed else event.type in _STEPS:
            self._steps.add(version)
        self._links[version] = _link(event, state)
        stage, attempt = event.data.get("stage"), event.data.get("attempt")
        for name in (stage, f"{stage}/{attempt}", event.data.get("amendment")):
            self._newest[event.type, name] = version

    def _ground(self, event: RecordedEvent) -> int | None:
        data = event.data
        named = data.get("superseded_by") or data.get("amendment")
        if named is not None and event.type.startswith("stage."):
            return self._newest.get(("amendment.approved", named))
        if event.type == "stage.blocked":
            return self._turns.get(data["dependency"])
        names: list[Any] = [f"{data.get('stage')}/{data['attempt']}"] if data.get("attempt") else []
        names = [data.get("amendment")] if event.type.startswith("amendment.") else names
        names = [f"{data['stage']}/{data['recovers']}"] if data.get("recovers") else names
        found = self._among(event.type, names)
        return found if found is not None else self._among(event.type, [data.get("stage")])

    def _among(self, type_: str, names: list[Any]) -> int | None:
        keys = [(ground, name) for ground in _GROUNDS.get(type_, ()) for name in names]
        return max((self._newest[key] for key in keys if key in self._newest), default=None)

    def _turn(self, event: RecordedEvent, state: Workflow) -> bool:
        """Note the stages that the event gave another status; whether there are any."""
        turned = False
        named = state.stages.get(event.data.get("stage") or "")
        for stage in [named] if named is not None else state.stages.values():
            if self._status.get(stage.id) is not stage.status:
                self._status[stage.id] = stage.status
                self._turns[stage.id] = event.version
                turned = True
        return turned

    def _further(self, event: RecordedEvent, state: Workflow) -> set[int]:
        """Return what a stage that became ready follows from beside the event that made it so."""
        stage = state.stages.get(event.data.get("stage") or "")
        if stage is None or event.type != "stage.readied":
            return set()
        found = self._completions(stage)
        stale = self._newest.get(("stage.invalidated", stage.id))
        before = self._newest.get(("stage.readied", stage.id), 0)
        return found | ({stale} if stale is not None and stale > before else set())

    def renew(self, stage: Stage) -> None:
        """Let a stage that begins, or may, follow from the completions that count now.

        It stays ready while what it depends on runs again, and is not made ready once more.
        """
        version = self._newest.get(("stage.readied", stage.id), 0)
        if version not in self._causes:
            return
        others = {v for v in self._causes[version] if self._links[v].stage not in stage.depends_on}
        self._causes[version] = others | self._completions(stage)

    def _completions(self, stage: Stage) -> set[int]:
        done = [id_ for id_ in stage.depends_on if self._status.get(id_) is Status.COMPLETED]
        return {self._turns[id_] for id_ in done}

    def chain(self, stage: str, told: set[int]) -> list[CauseLink]:
        """Return what led to a stage's status, from the newest event to the root.

        What is in ``told`` was said before and is left out; it takes in what is said now.
        """
        newest = self._turns.get(stage)
        if newest is None:
            return []
        found = {newest} if newest in self._steps or newest not in told else set()
        waiting = [newest, self._root] if self._root in self._links else [newest]
        while waiting:
            version = waiting.pop()
            if version in told:
                continue
            told.add(version)
            if version not in self._steps:
                found.add(version)
            waiting.extend(self._causes.get(version, ()))
        return [self._links[version] for version in sorted(found, reverse=True)]


def _link(event: RecordedEvent, state: Workflow) -> CauseLink:
    data, text = event.data, message(event, state)
    if not text and event.type == "attempt.started":
        text = f"{data['stage']}: {data['attempt']} started ({data['mode']})"
    text = text or f"{event.type} {data.get('stage') or ''}"
    return CauseLink(
        version=event.version,
        type=event.type,
        stage=event.data.get("stage"),
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        actor=str(event.actor),
        sentence=" ".join(text.split()),
    )


@dataclass(frozen=True, slots=True)
class Causes:
    """Why a stage stands where it stands.

    ``chain`` holds what led to the status, through every parent, from the newest event to the
    root; ``waits_for`` says the same of every stage that holds it back, through others too: each
    once, the nearest first, and of those equally near the ones that will not come by themselves.
    A link that stands further up is left out.
    """

    stage: str
    status: str
    sentence: str
    chain: list[CauseLink]
    waits_for: list[Causes]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def causes_of(log: WorkflowLog, *stages: str, at: At = None) -> list[Causes]:
    """Return the causes of the status of each of the stages; raises `UnknownStage`."""
    state = log.current(at)
    found = [state.stage(stage) for stage in stages]
    grounds = CauseGrounds()
    for event, after in log.steps(upto=at) if found else ():
        grounds.see(event, after)
    told: set[int] = set()
    return [_causes(state, stage, grounds, told) for stage in found]


def _causes(state: Workflow, stage: Stage, grounds: CauseGrounds, told: set[int]) -> Causes:
    """Return the causes of one stage without those in ``told``, which take theirs in."""
    found = []
    for one in (stage, *_holding(state, stage)):
        if one.status is Status.READY:
            grounds.renew(one)
        sentence = _sentence(one, _unmet(state, one), acting_on(state).get(one.id, []))
        found.append(Causes(one.id, one.status.value, sentence, grounds.chain(one.id, told), []))
    return replace(found[0], waits_for=found[1:])


def _holding(state: Workflow, stage: Stage) -> list[Stage]:
    """Return every stage that holds one back, however far: many ways may lead to each."""
    found = {stage.id: stage}
    waiting = deque([stage])
    while waiting:
        further = [one for one in _unmet(state, waiting.popleft()) if one.id not in found]
        found.update((one.id, one) for one in further)
        waiting.extend(further)
    return list(found.values())[1:]


def _unmet(state: Workflow, stage: Stage) -> list[Stage]:
    """Return what holds a stage back, those that will not come by themselves first."""
    if stage.status not in (Status.PENDING, Status.INVALIDATED, Status.READY):
        return []
    found = [state.stages[dependency] for dependency in state.unmet(stage)]
    return sorted(found, key=lambda one: one.status not in BLOCKING)


def _sentence(stage: Stage, unmet: list[Stage], acting: list[str]) -> str:
    text = f"{stage.id} ({stage.name}) is {stage.status.value}"
    if unmet:
        waits = ", ".join(f"{one.id}, which is {one.status.value}" for one in unmet)
        return f"{text}: it waits for {waits}"
    if stage.status is Status.READY and acting:
        return f"{text}, and {held(acting)}"
    if stage.status is Status.FAILED and stage.last_error:
        return f"{text}: {' '.join(stage.last_error.split())}"
    return text


def refusals_by(log: WorkflowLog, at: At = None) -> Iterator[Refusal]:
    """Yield the refusals up to a moment, in the order they were recorded.

    A refusal has no version: up to a version or a session are those before the next event.
    """
    end = _end(log, at)
    return (
        refusal for refusal in log.store.refusals(log.stream) if end is None or refusal.at <= end
    )


def _end(log: WorkflowLog, at: At) -> str | None:
    if at is None:
        return None
    moment = log.resolved(at)
    times = [time for time in (moment.so_by, moment.known_by) if time is not None]
    if moment.version is not None:
        following = next(log.store.read(log.stream, after=moment.version), None)
        times += [following.recorded_at] if following is not None else []
    return min(times, default=None)


#: Bytes of a script that are looked at.
_LONGEST = 1 << 20


def advice_of(root: Path, state: Workflow) -> list[str]:
    """Return what may be meant otherwise in a workflow's definition, a sentence each."""
    names = {*scripts_of(root, state)}
    for stage in state.stages.values():
        names |= {*beside(root, state, stage)}
    texts = []
    for name in sorted(names):
        with suppress(OSError):  # gone since it was listed
            texts.append(read_regular(root / name, _LONGEST).decode("utf-8", "replace"))
    found = advice(state, "\n".join(texts))
    return [*_without_machine(root, state.backend_profiles), *_unfit_points(root, state), *found]


def _unfit_points(root: Path, state: Workflow) -> Iterator[str]:
    """Yield what is wrong with the file of each map, if it is there already."""
    from hashlib import sha256

    from lifecycle.sweeps.definition import MAP, is_sweep
    from lifecycle.sweeps.points import points

    for stage in state.stages.values():
        given = stage.parameters[MAP] if is_sweep(stage.parameters) else {}
        if "file" not in given:
            continue
        try:
            content = read_regular(root / given["file"])
            found = sha256(content).hexdigest()
            if found != given["sha256"]:
                yield f"{stage.id}: {given['file']}: the map has another sha256, found {found}"
            else:
                points(given, content.decode("utf-8-sig"))
        except OSError:
            continue  # an input that is missing is told when the stage is dispatched
        except ValueError as error:
            yield f"{stage.id}.parameters.map: {error}"


def _without_machine(root: Path, profiles: Mapping[str, Any]) -> Iterator[str]:
    """Say of each backend profile that names no machine that is there; its file is not read."""
    for name, profile in profiles.items():
        given = profile.get("config_path")
        if given is None and not isinstance(profile.get("config"), Mapping):
            yield (
                f"{name}: a backend profile without config and config_path; no stage can be "
                "dispatched to it (`local` is there where no profile is given)"
            )
        elif isinstance(given, str) and given and not seen_from(root, given).exists():
            yield (
                f"{name}: the machine file {seen_from(root, given)} is missing; no stage can be "
                "dispatched to it yet"
            )
