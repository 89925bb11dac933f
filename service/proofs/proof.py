"""Proofs: what one shows, its form, and how it is made."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from eventstore.chain import inclusion_ranges, nodes
from lifecycle.rules.impact import definition_text
from lifecycle.state.workflow import PLAN
from lifecycle.words.rounds import folder_of
from service.errors import InvalidOption, NotFound
from service.proofs.checkpoint import Checkpoint, leaves, text_at
from service.proofs.note import CheckpointDenied, Note, UnreadableNote, decoded, read_note
from service.reading.log import WorkflowLog
from service.reading.rounds import round_named

if TYPE_CHECKING:
    from eventstore.event import RecordedEvent
    from lifecycle.state.workflow import Attempt, Workflow


ADOPTED, APPROVED = "results.adopted", "amendment.approved"
RESULTS = ("stage.completed", ADOPTED)
_PART = re.compile(
    r"(?P<stage>[^/]+)\.(?:outputs/(?P<file>.+)|metrics/(?:(?P<task>.+)/)?(?P<metric>[^/]+))"
)
_VERSION = re.compile(r"v?([1-9][0-9]{0,18})", re.ASCII)
#: A file that is longer is not put into a proof, not even whole.
_MOST_OF_FILE = 1_000_000
#: A proof is to be at most so long, to lie beside a figure. What does not fit is proven by digest.
MOST_BYTES = 2560


def prove(
    log: WorkflowLog, what: str, checkpoint: Checkpoint, note: Note, *, whole: bool = False
) -> Proof:
    """Return the proof of ``what`` under a checkpoint of the log.

    ``what`` is ``stage-3.outputs/FILE``, with ``#/POINTER`` for a value in it, an output's path,
    ``stage-3.metrics/NAME``, ``stage-3.metrics/TASK/NAME``, ``search@2.metrics/stage-3.NAME`` of a
    round that has ended, a stage, an amendment, or a version.
    Texts that would make it longer than `MOST_BYTES` are left out, unless it is to be ``whole``.
    Raises `NotFound`, and `CheckpointDenied` if the log is not the one of the checkpoint.
    """
    grounds = _grounds_of(log, what, checkpoint.size)
    path = _path(log, grounds.version, checkpoint)
    leaf = text_at(log.store, log.stream, grounds.version)
    proof = Proof(grounds.version - 1, path, leaf, note, claim=grounds.claim)
    for text in grounds.texts:
        longer = replace(proof, texts=(*proof.texts, text))
        fits = len(str(longer).encode("utf-8", "surrogateescape")) <= MOST_BYTES
        # What would lead to it may have been left out.
        is_named = sha256(text).hexdigest().encode() in b"".join((leaf, *proof.texts))
        if (whole or fits) and is_named and text not in proof.texts:
            proof = longer
    return proof


def _path(log: WorkflowLog, version: int, checkpoint: Checkpoint) -> tuple[bytes, ...]:
    """Return the hashes that lead from a version to the root of the checkpoint."""
    size, whole = checkpoint.size, (0, checkpoint.size)
    if version > size:
        raise InvalidOption(
            f"expected a checkpoint of at least {version} events, found one of {size}", size=size
        )
    path = inclusion_ranges(version - 1, size)
    found = nodes(leaves(log.store, log.stream, size), {whole, *path})
    if found.get(whole) != checkpoint.root:
        raise CheckpointDenied(
            f"the log is not the one of which the checkpoint of {size} events was signed; "
            "`wfctl fsck` says more",
            size=size,
        )
    return tuple(found[place] for place in path)


class _Grounds(NamedTuple):
    """The version of the event that is proven, what is claimed of it, and what it rests on.

    ``texts`` are in the order in which they are left out if a proof would be too long: the last
    first.
    """

    version: int
    claim: dict[str, str]
    texts: tuple[bytes, ...]


class _Result(NamedTuple):
    """The event that recorded what a stage found, with the definition and the attempt of then."""

    event: RecordedEvent
    definition: bytes
    source: Attempt | None

    @property
    def stage(self) -> str:
        return str(self.event.data["stage"])

    @property
    def rests_on(self) -> dict[str, Any]:
        return self.event.data.get("rests_on") or {}

    @property
    def record(self) -> dict[str, Any] | None:
        """The file with what each task of the attempt came to."""
        return ((self.source.tasks or {}) if self.source is not None else {}).get("record")


_Results = dict[str, list[_Result]]


@dataclass(slots=True)
class _Seen:
    """The places of the events that a proof may show: by hash, and by what they are of."""

    versions: dict[str, int] = field(default_factory=dict)
    #: Of each stage its completion, and the adoptions since, each of some outputs: newest first.
    results: _Results = field(default_factory=dict)
    proposals: dict[str, int] = field(default_factory=dict)
    #: Of each loop and round the results as the next round began.
    rounds: dict[tuple[str, int], _Results] = field(default_factory=dict)

    def take(self, event: RecordedEvent, state: Workflow) -> None:
        if event.type in RESULTS:
            stage = event.data["stage"]
            before = self.results.get(stage, []) if event.type == ADOPTED else []
            known = state.stage(stage)
            found = _Result(event, definition_text(known), known.source)
            self.results[stage] = [found, *before]
        elif event.type in ("attempt.started", APPROVED):
            self.versions[event.hash] = event.version
        elif event.type == "amendment.proposed":
            self.proposals.setdefault(event.data["amendment"], event.version)
        elif event.type == "round.begun" and (loop := state.loops.get(event.data["loop"])):
            ended = (event.data["loop"], loop.round.number - 1)
            self.rounds.setdefault(ended, dict(self.results))


def _grounds_of(log: WorkflowLog, what: str, upto: int) -> _Grounds:
    """Return what proves ``what`` among the first ``upto`` events; raises `NotFound`."""
    version = _VERSION.fullmatch(what)
    if version is not None:
        log.require(int(version[1]))
        return _Grounds(int(version[1]), {}, ())
    seen, state = _Seen(), None
    for event, state in log.steps(upto=upto):
        seen.take(event, state)
    if state is None:
        raise NotFound("the log holds no workflow, of which something could be proven")
    if what not in seen.proposals and (what != PLAN or state.plan is None):
        return _of_result(log, seen, state, what)
    approved = seen.versions.get(state.amendments[what].approval)
    if approved is None:
        return _Grounds(1 if what == PLAN else seen.proposals[what], {}, ())
    return _Grounds(approved, {}, (_statement(log, approved),))


def _of_result(log: WorkflowLog, seen: _Seen, state: Workflow, what: str) -> _Grounds:
    results, part, number = _in_round(seen, state, what)
    result, claim = _named(log, results, part)
    claim |= {"round": str(number)} if number else {}
    status = state.stage(result.stage).status
    if status != "completed" and not number:
        raise NotFound(
            f"{result.stage} is {status}: its result counts no longer. `wfctl prove "
            f"{result.event.version}` proves that it was recorded.",
            stage=result.stage,
            status=status,
        )
    texts = tuple(_texts(log, seen, result, claim)) if result.rests_on else ()
    return _Grounds(result.event.version, claim, texts)


def _in_round(seen: _Seen, state: Workflow, what: str) -> tuple[_Results, str, int]:
    """Return the results among which a part is looked up, its name there, and its round or 0."""
    asked = _PART.fullmatch(what)
    named = asked and asked["metric"] and round_named(state, asked["stage"])
    if not asked or not named:
        return seen.results, what, 0
    loop, one = named
    if one.ended_at is None:
        why = f"round {one.number} of {loop} has not ended, and has no number yet"
        raise NotFound(why, loop=loop, round=one.number)
    name = what.removeprefix(f"{asked['stage']}.metrics/")
    if name not in one.numbers:
        raise NotFound(
            f"expected a number of round {one.number} of {loop} ({', '.join(one.numbers) or 'none'}"
            f"), found {name!r}",
            loop=loop,
            round=one.number,
        )
    stage, _, metric = name.rpartition(".")
    results = seen.rounds.get((loop, one.number), seen.results)
    return results, f"{stage}.metrics/{metric}", one.number


def _texts(
    log: WorkflowLog, seen: _Seen, result: _Result, claim: dict[str, str]
) -> Iterator[bytes]:
    """Yield what a result rests on, the dearest last: the statement of the plan has every stage."""
    rests_on = result.rests_on
    yield from _content(log, result, claim)
    yield result.definition
    if rests_on.get("attempt") in seen.versions:
        yield text_at(log.store, log.stream, seen.versions[rests_on["attempt"]])
    agreed = [seen.versions[one] for one in rests_on["approvals"].values() if one in seen.versions]
    for version in agreed:
        yield text_at(log.store, log.stream, version)
    for version in reversed(agreed):
        yield _statement(log, version)
    if (source := result.source) is not None and str(source.round) == claim.get("round"):
        yield from _lying(log, source.submission_sha256, source.submission)


def _content(log: WorkflowLog, result: _Result, claim: dict[str, str]) -> Iterator[bytes]:
    """Yield the file that a value is claimed in, if it lies here as it was recorded."""
    named: dict[str, Any] | None = None
    if "pointer" in claim:
        outputs = result.event.data["outputs"]
        named = next(one for one in outputs if one["path"] == claim["output"])
    elif "metric" in claim:
        named = result.record
    if named is not None:
        kept = folder_of(result.stage, int(claim.get("round", 0)))
        moved = f"{kept}/{named['path'].removeprefix(f'{result.stage}/')}"
        yield from _lying(log, named["sha256"], named["path"], moved)


def _lying(log: WorkflowLog, digest: str, *paths: str) -> Iterator[bytes]:
    root = log.approvals.root
    for place in (root / path for path in paths if root is not None):
        if place.is_file() and place.stat().st_size <= _MOST_OF_FILE:
            content = place.read_bytes()
            if sha256(content).hexdigest() == digest:
                yield content
                return


def _statement(log: WorkflowLog, version: int) -> bytes:
    from service.consent.proof import agreed_to

    before = log.state(version - 1)
    if before is None:
        raise NotFound(f"version {version} is an approval of no workflow", version=version)
    event = next(iter(log.store.read(log.stream, after=version - 1)))
    return agreed_to(before, before.amendments[event.data["amendment"]], event)


def _named(log: WorkflowLog, seen: _Results, what: str) -> tuple[_Result, dict[str, str]]:
    if what in seen:
        return seen[what][0], {}
    asked = _PART.fullmatch(what)
    if asked is not None and asked["metric"] is not None:
        of_task = asked["task"] is not None
        return _of_task(log, seen, asked) if of_task else _number(log, seen, asked)
    path, sharp, pointer = (asked["file"] if asked is not None else what).partition("#")
    paths = (f"{asked['stage']}/{path}", path) if asked is not None else (path,)
    every = [one for results in seen.values() for one in results]
    for result in every:
        if asked is None or asked["stage"] == result.stage:
            known = {one["path"] for one in result.event.data["outputs"]}
            for one in paths:
                if one in known:
                    return result, {"output": one, **({"pointer": pointer} if sharp else {})}
    there = dict.fromkeys(one["path"] for r in every for one in r.event.data["outputs"])
    raise NotFound(
        f"expected an output of a completed stage ({', '.join(there) or 'none yet'}), a stage, an "
        f"amendment or a version, found {what!r}",
        what=what,
    )


def _number(
    log: WorkflowLog, seen: _Results, asked: re.Match[str]
) -> tuple[_Result, dict[str, str]]:
    """Return the result with a number of a stage, and the claim of its place in a file."""
    stage, name = asked["stage"], asked["metric"]
    result = next(iter(seen.get(stage, [])), None)
    known = {one["name"]: one for one in (result.event.data.get("metrics") if result else ()) or ()}
    outputs = [one["path"] for one in result.event.data["outputs"]] if result else []
    number = known.get(name)
    if result is None or number is None:
        raise NotFound(
            f"expected a number of {stage} that is recorded ({', '.join(known) or 'none yet'}), "
            f"found {name!r}",
            stage=stage,
        )
    if number["task"] and result.rests_on.get("tasks") and _has(log, result, number["task"]):
        return result, {"task": number["task"], "metric": name}
    if number["path"] in outputs and number["path"].endswith(".json") and not number["task"]:
        return result, {"output": number["path"], "pointer": number["pointer"]}
    of = next((one for one in outputs if f"{number['path']}/".startswith(f"{one}/")), None)
    if of is None:
        raise NotFound(f"{number['path']} is no output of {stage} any more", stage=stage)
    return result, {"output": of}


def _of_task(
    log: WorkflowLog, seen: _Results, asked: re.Match[str]
) -> tuple[_Result, dict[str, str]]:
    result = next(iter(seen.get(asked["stage"], [])), None)
    if result is None or not result.rests_on.get("tasks"):
        raise NotFound(
            f"expected a completed stage of tasks with a record of them, found {asked['stage']}",
            stage=asked["stage"],
        )
    if not _has(log, result, asked["task"]):
        raise NotFound(
            f"expected a task that the last attempt of {result.stage} computed, found "
            f"{asked['task']!r}; its table, if it is an output, holds those of earlier ones",
            stage=result.stage,
            task=asked["task"],
        )
    return result, {"task": asked["task"], "metric": asked["metric"]}


def _has(log: WorkflowLog, result: _Result, task: str) -> bool:
    """Whether the record of an attempt has a task. One that does not lie here may have it."""
    record = result.record or {"sha256": "", "path": ""}
    found = [*_lying(log, record["sha256"], record["path"])]
    return not found or any(json.loads(line)["key"] == task for line in found[0].splitlines())


WORDS = (
    b'{"amendment":{"changes":{"parameters":{"description":"insert":null,"place":null,"reason":"re'
    b'wired":{},"stage":"type":"parameter_change"},"form":4,"head":"impact":{"affected":["stage-"]'
    b',"invalidated":[],"kept":{},"stopped":{}},"policy":"trust"terminal"signature","scripts":{},"'
    b'workflow":"{"backend":null,"depends_on":[],"id":"stage-1","inputs":["name":"outputs":["stage'
    b'-1/parameters":{"command":"success_criteria":"{"actor":{"kind":"user","name":"agent"runner"}'
    b',"causation_id":null,"command_id":"correlation_id":"data":{"amendment":"amend-1","approved_b'
    b'y":"invalidated_stages":["kept":{},"proof":{"form":4,"on":"/dev/tty","policy":"signature","s'
    b'ignature":"-----BEGIN SSH SIGNATURE-----\\nU1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAA\\n---'
    b'--END SSH SIGNATURE-----\\n","signer":"statement":"scripts":{},"version":"attempt":"att-0001'
    b'","boot_id":"carried":[],"carried_from":null,"diagnostic":false,"BASH_ENV","COLORTERM","COND'
    b'A_DEFAULT_ENV","CONDA_EXE","CONDA_PREFIX","CONDA_PYTHON_EXE","CONDA_SHLVL","DBUS_SESSION_BUS'
    b'_ADDRESS","DISPLAY","HISTCONTROL","HOSTNAME","LANGUAGE","LC_ALL","LD_LIBRARY_PATH","LESSOPEN'
    b'","LMOD_CMD","LOADEDMODULES","LOGNAME","LS_COLORS","MAIL","MANPATH","MODULEPATH","MOTD_SHOWN'
    b'","OLDPWD","OMP_NUM_THREADS","PWD","SHELL","SHLVL","SSH_CLIENT","SSH_CONNECTION","SSH_TTY","'
    b'TERM","TERM_PROGRAM","TMUX","TMUX_PANE","USER","VIRTUAL_ENV","XDG_CONFIG_HOME","XDG_DATA_DIR'
    b'S","XDG_RUNTIME_DIR","XDG_SESSION_CLASS","XDG_SESSION_ID","XDG_SESSION_TYPE","XDG_STATE_HOME'
    b'","_CE_CONDA"],"beside":{""environment":{"names":["HOME","LANG","PATH","TMPDIR"],"python3":"'
    b'/usr/bin/python3","sha256":"values":{"LANG":"C.UTF-8","PATH":"/usr/local/bin:/usr/bin:/bin"}'
    b'},"host":"inputs":[{"path":"sha256":"size":"mode":"tmux","recovers":null,"root":"scripts":{}'
    b',"session":"dpdisp_stage-1_submission":"stage-1/.attempts/att-0001-/submission.json","submis'
    b'sion_sha256":"taken_over":false,"work_dir":"stage-1/.attempts/att-0001-/work","wrapper":"sta'
    b'ge-1/dpdisp-run.sh"},"checks":[{"detail":"file","findings":[],"name":"stage-1/ exists","pass'
    b'ed":true},{"detail":" bytes is not empty is newer than the launch reads as JSON reads as tex'
    b"t is finite no error lines, no warning lines /log was looked through /err was looked through"
    b'","judged_by":null,"outputs":[{"path":"stage-1/","sha256":"size":"rests_on":{"approvals":{"p'
    b'lan":"amend-1":"attempt":"definition":"tasks":null},"stage":"stage-1"},"detail":" checks pas'
    b'sed","evidence":null,"event_id":"occurred_at":"2026-prev_hash":"recorded_at":"2026-schema_ve'
    b'rsion":3,"session":1,"stream":"workflow-","type":"attempt.started"amendment.approved"stage.c'
    b'ompleted","utc_offset":"+00:00","version":'
)


FIRST_LINE = "c2sp.org/tlog-proof@v1"
FORM = 2
#: The names of what a proof may claim beside its leaf: texts all of them.
_CLAIMS = frozenset({"output", "pointer", "task", "metric", "round"})
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})", re.ASCII)
_EXTRA = "extra "
_MOST_BYTES, _MOST_EXTRA, _MOST_PATH = 1_000_000, 10_000_000, 63
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Proof:
    """The leaf with its way to the root, the texts that it rests on, and the checkpoint.

    ``claim`` names what of the leaf is proven: an ``output`` by its path, and a ``pointer`` into
    it; or a ``metric`` of a ``task``; and the ``round`` of a loop that it is of. It is empty if the
    leaf itself is proven. ``index`` counts from 0.
    """

    index: int
    path: tuple[bytes, ...]
    leaf: bytes
    note: Note
    texts: tuple[bytes, ...] = ()
    claim: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        head = {"wfctl-proof": FORM, "lengths": [len(one) for one in (self.leaf, *self.texts)]}
        head |= {"claim": self.claim} if self.claim else {}
        said = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
        content = b"".join((said.encode("utf-8", "surrogateescape"), b"\n", self.leaf, *self.texts))
        packing = zlib.compressobj(9, zdict=WORDS)
        extra = b64encode(packing.compress(content) + packing.flush()).decode()
        path = "".join(f"{b64encode(one).decode()}\n" for one in self.path)
        return f"{FIRST_LINE}\n{_EXTRA}{extra}\nindex {self.index}\n{path}\n{self.note}"


def read_proof(content: bytes) -> Proof:
    """Return the proof that the bytes are, of which nothing is checked yet; or `UnreadableNote`."""
    if len(content) > _MOST_BYTES:
        raise UnreadableNote(f"expected a proof of at most {_MOST_BYTES} bytes")
    head, blank, note = content.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    if first != FIRST_LINE or not blank:
        raise UnreadableNote(f"expected {FIRST_LINE!r} and a checkpoint, found {first!r:.80}")
    if not lines or not lines[0].startswith(_EXTRA):
        raise UnreadableNote("expected a line of extra data, which holds the events, found none")
    extra, *places = lines
    index = _INDEX.fullmatch(places[0]) if places else None
    if index is None or len(places) > _MOST_PATH:
        raise UnreadableNote(f"expected 'index N' and at most {_MOST_PATH} hashes")
    path = tuple(map(_hash, places[1:]))
    claim, (leaf, *texts) = _unpacked(decoded(extra.removeprefix(_EXTRA)))
    return Proof(int(index[1]), path, leaf, read_note(note), tuple(texts), claim)


def _hash(text: str) -> bytes:
    found = decoded(text)
    if len(found) != _HASH_BYTES:
        raise UnreadableNote(f"expected a hash of {_HASH_BYTES} bytes, found {len(found)}")
    return found


def _unpacked(packed: bytes) -> tuple[dict[str, str], list[bytes]]:
    """Return the claim of a proof, and its texts."""
    unpacking = zlib.decompressobj(zdict=WORDS)
    try:
        content = unpacking.decompress(packed, _MOST_EXTRA)
    except zlib.error as error:
        raise UnreadableNote(f"expected extra data behind zlib: {error}") from error
    if not unpacking.eof or unpacking.unused_data:
        raise UnreadableNote(f"expected at most {_MOST_EXTRA} bytes behind zlib as extra data")
    line, _, texts = content.partition(b"\n")
    try:
        said = json.loads(line.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise UnreadableNote(f"expected a line of JSON in the extra data: {error}") from error
    if not _is_head(said, len(texts)):
        raise UnreadableNote(
            f"expected the extra data of a proof of form {FORM}, found another. A proof of form 1 "
            "shows texts and not how they belong together; `wfctl prove` makes one of today."
        )
    ends = list(accumulate(said["lengths"], initial=0))
    return said.get("claim", {}), [texts[begin:end] for begin, end in pairwise(ends)]


def _is_head(said: Any, size: int) -> bool:
    """Whether a line of JSON tells of ``size`` bytes of texts, and claims nothing unknown."""
    if not isinstance(said, dict) or not said.keys() <= {"wfctl-proof", "lengths", "claim"}:
        return False
    lengths, claim = said.get("lengths"), said.get("claim", {})
    if said.get("wfctl-proof") != FORM or not isinstance(lengths, list) or not lengths:
        return False
    if not all(type(one) is int and one > 0 for one in lengths) or sum(lengths) != size:
        return False
    texts = isinstance(claim, dict) and all(isinstance(one, str) for one in claim.values())
    return texts and claim.keys() <= _CLAIMS
