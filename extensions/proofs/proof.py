"""Create, read and write proofs that a result was recorded in a log."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from eventstore.merkle_tree import compute_node_hashes, inclusion_ranges
from extensions.proofs.checkpoint import Checkpoint, iterate_leaves, text_at
from extensions.proofs.errors import CheckpointDenied, UnreadableNote
from extensions.proofs.signed_note import Note, decode_base64, read_note
from lifecycle.rules.grounds import canonical_definition_json
from lifecycle.state.workflow import PLAN
from lifecycle.words.document import is_pointer, value_at
from lifecycle.words.rounds import stage_folder_of_round
from service.errors import InvalidOption, NotFound
from service.reading.log import WorkflowLog
from service.reading.rounds import find_round

if TYPE_CHECKING:
    from eventstore.event import RecordedEvent
    from lifecycle.state.workflow import Attempt, Workflow


ADOPTED, APPROVED = "results.adopted", "amendment.approved"
RESULTS = ("stage.completed", ADOPTED)
_PART = re.compile(
    r"(?P<stage>[^/]+)\.(?:outputs/(?P<file>.+)|metrics/(?:(?P<task>.+)/)?(?P<metric>[^/]+))",
    re.DOTALL,  # A JSON key may contain line breaks.
)
_VERSION = re.compile(r"v?([1-9][0-9]{0,18})", re.ASCII)
#: Maximum size in bytes of a file that a proof contains, even if nothing else is left out.
_MOST_OF_FILE = 1_000_000
#: Maximum size in bytes of a file that is read to check whether the claimed value exists.
_MOST_READ = 100_000_000
#: Maximum size of a proof in bytes, so that it can be printed next to a figure. Longer texts are
#: replaced by their digests.
MOST_BYTES = 2599


def build_proof(
    log: WorkflowLog, what: str, checkpoint: Checkpoint, note: Note, *, whole: bool = False
) -> Proof:
    """Return a proof of a recorded fact, based on a signed checkpoint of the log.

    ``what`` names one of the following:

    - an output: its path or ``stage-3.outputs/FILE``, with ``#/POINTER`` for a value in the file
    - a number: ``stage-3.metrics/NAME``, or ``stage-3.metrics/TASK/NAME`` for a task of a sweep
    - a number of an ended round: ``search@2.metrics/stage-3.NAME``
    - a stage, an amendment (plan change), or a version of the log

    Texts that would make the proof longer than `MOST_BYTES` are left out, unless ``whole`` is true.
    Raises `NotFound` if the log does not record the fact, and `CheckpointDenied` if the checkpoint
    belongs to another log.
    """
    grounds = _find_event_and_evidence(log, what, checkpoint.size)
    path = _find_inclusion_path(log, grounds.version, checkpoint)
    leaf = text_at(log.store, log.stream, grounds.version)
    proof = Proof(grounds.version - 1, path, leaf, note, claim=grounds.claim)
    for text in grounds.texts:
        longer = replace(proof, texts=(*proof.texts, text))
        fits = len(str(longer).encode("utf-8", "surrogateescape")) <= MOST_BYTES
        # Leave out a text to which the proof does not refer, because the text that refers to it was
        # left out.
        is_named = sha256(text).hexdigest().encode() in b"".join((leaf, *proof.texts))
        if (whole or fits) and is_named and text not in proof.texts:
            proof = longer
    return proof


def _find_inclusion_path(
    log: WorkflowLog, version: int, checkpoint: Checkpoint
) -> tuple[bytes, ...]:
    """Return the hashes that prove that the checkpoint includes the event at a version.

    Raises `InvalidOption` if the checkpoint is too old, and `CheckpointDenied` if the log has
    changed.
    """
    size, whole = checkpoint.size, (0, checkpoint.size)
    if version > size:
        raise InvalidOption(
            f"the checkpoint covers only the first {size} events, so it cannot prove version "
            f"{version} of the log",
            size=size,
        )
    path = inclusion_ranges(version - 1, size)
    found = compute_node_hashes(iterate_leaves(log.store, log.stream, size), {whole, *path})
    if found.get(whole) != checkpoint.root:
        raise CheckpointDenied(
            f"the first {size} events of the log differ from the events that were signed. Run "
            "`wfctl fsck` for details",
            size=size,
        )
    return tuple(found[place] for place in path)


class _Grounds(NamedTuple):
    """The event that a proof is about, the claim about it, and the texts that support it.

    If the proof would be too long, the last texts are left out first.
    """

    version: int
    claim: dict[str, str]
    texts: tuple[bytes, ...]


class _Result(NamedTuple):
    """The event that recorded a result, the definition of its stage, and its attempt."""

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
        """The file in which the attempt recorded the results of its tasks."""
        return ((self.source.tasks or {}) if self.source is not None else {}).get("record")


_Results = dict[str, list[_Result]]


@dataclass(slots=True)
class _Seen:
    """The events that a proof may need, collected while the log is read."""

    versions: dict[str, int] = field(default_factory=dict)
    #: For each stage, the event of its completion and later adoptions of outputs, the newest first.
    results: _Results = field(default_factory=dict)
    proposals: dict[str, int] = field(default_factory=dict)
    #: For each optimisation loop and round, the results when the next round started.
    rounds: dict[tuple[str, int], _Results] = field(default_factory=dict)

    def take(self, event: RecordedEvent, state: Workflow) -> None:
        if event.type in RESULTS:
            stage = event.data["stage"]
            before = self.results.get(stage, []) if event.type == ADOPTED else []
            known = state.stage(stage)
            found = _Result(event, canonical_definition_json(known), known.source)
            self.results[stage] = [found, *before]
        elif event.type in ("attempt.started", APPROVED):
            self.versions[event.hash] = event.version
        elif event.type == "amendment.proposed":
            self.proposals.setdefault(event.data["amendment"], event.version)
        elif event.type == "round.begun" and (loop := state.loops.get(event.data["loop"])):
            ended = (event.data["loop"], loop.round.number - 1)
            self.rounds.setdefault(ended, dict(self.results))


def _find_event_and_evidence(log: WorkflowLog, what: str, upto: int) -> _Grounds:
    """Return the event, the claim and the texts that prove ``what``.

    Only the first ``upto`` events are considered. Raises `NotFound` if they do not record it.
    """
    version = _VERSION.fullmatch(what)
    if version is not None:
        log.require(int(version[1]))
        return _Grounds(int(version[1]), {}, ())
    seen, state = _Seen(), None
    for event, state in log.steps(upto=upto):
        seen.take(event, state)
    if state is None:
        raise NotFound("the log contains no workflow, so wfctl cannot prove a result")
    if what not in seen.proposals and (what != PLAN or state.plan is None):
        return _collect_result_grounds(log, seen, state, what)
    approved = seen.versions.get(state.amendments[what].approval)
    if approved is None:
        return _Grounds(1 if what == PLAN else seen.proposals[what], {}, ())
    return _Grounds(approved, {}, (_rebuild_statement(log, approved),))


def _collect_result_grounds(log: WorkflowLog, seen: _Seen, state: Workflow, what: str) -> _Grounds:
    results, part, number = _resolve_round_results(seen, state, what)
    result, claim = _find_result(log, results, part)
    status = state.stage(result.stage).status
    if status != "completed" and not number:
        raise NotFound(
            f"the stage {result.stage} is {status}, so its result is no longer valid. To prove "
            f"only that the result was recorded, run `wfctl prove {result.event.version}`.",
            stage=result.stage,
            status=status,
        )
    _require_claimed_value(log, result, claim, what)
    texts = tuple(_iterate_texts(log, seen, result, claim)) if result.rests_on else ()
    return _Grounds(result.event.version, claim, texts)


def _resolve_round_results(seen: _Seen, state: Workflow, what: str) -> tuple[_Results, str, int]:
    """Return the results to search, the name of the wanted part, and the round number.

    The number is 0 if ``what`` does not name a round.
    """
    asked = _PART.fullmatch(what)
    named = asked and asked["metric"] and find_round(state, asked["stage"])
    if not asked or not named:
        return seen.results, what, 0
    loop, one = named
    if one.ended_at is None:
        why = f"round {one.number} of {loop} has not ended, so it has no number yet"
        raise NotFound(why, loop=loop, round=one.number)
    name = what.removeprefix(f"{asked['stage']}.metrics/")
    if name not in one.numbers:
        raise NotFound(
            f"round {one.number} of the loop {loop} has no number {name!r}. The numbers of this "
            f"round are: {', '.join(one.numbers) or 'none'}",
            loop=loop,
            round=one.number,
        )
    stage, _, metric = name.rpartition(".")
    results = seen.rounds.get((loop, one.number), seen.results)
    return results, f"{stage}.metrics/{metric}", one.number


def _iterate_texts(
    log: WorkflowLog, seen: _Seen, result: _Result, claim: dict[str, str]
) -> Iterator[bytes]:
    """Yield the texts that support a result.

    If a proof would be too long, the last texts are left out first.
    """
    rests_on = result.rests_on
    content = [*_iterate_content(log, result, claim)]
    leaf = {"type": result.event.type, "data": result.event.data}
    is_recorded = find_claimed_number(leaf, claim) is not None  # then the file is not needed
    yield from () if is_recorded else content
    yield result.definition
    if rests_on.get("attempt") in seen.versions:
        yield text_at(log.store, log.stream, seen.versions[rests_on["attempt"]])
    agreed = [seen.versions[one] for one in rests_on["approvals"].values() if one in seen.versions]
    for version in agreed:
        yield text_at(log.store, log.stream, version)
    for version in reversed(agreed):
        yield _rebuild_statement(log, version)
    yield from content if is_recorded and is_read_from_file(claim) else ()


def is_read_from_file(claim: Mapping[str, str]) -> bool:
    """Return whether a claim leads to a value in a JSON file or in the record of tasks.

    For any other file, such as a table, the event itself records the number.
    """
    return "pointer" not in claim or claim["output"].endswith(".json")


def find_claimed_number(leaf: Mapping[str, Any], claim: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the number that an event records for a claim, or None.

    If several metrics have the same place, they must have the same value, error and unit.
    """
    metrics = (leaf["data"].get("metrics") or []) if leaf["type"] in RESULTS else []
    found = [one for one in metrics if claim in _claims_of(one)]
    first, *others = found or [None]
    names = ("value", "error", "unit")
    differ = any(one.get(name) != first.get(name) for one in others for name in names)
    return None if first is None or differ else dict(first)


def _claims_of(metric: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the possible claims with which a proof can name a recorded metric."""
    if metric["task"]:
        return [{"task": metric["task"], "metric": metric["name"]}]
    place = {"output": metric["path"], "pointer": metric["pointer"]}
    return [place, {**place, "metric": metric["name"]}]


def _require_claimed_value(
    log: WorkflowLog, result: _Result, claim: dict[str, str], what: str
) -> None:
    """Raise `NotFound` if the claimed value does not exist in the local file.

    A number that the event itself records needs no check.
    """
    is_recorded = find_claimed_number({"type": result.event.type, "data": result.event.data}, claim)
    if "pointer" not in claim or is_recorded is not None:
        return
    for content in _iterate_content(log, result, claim, _MOST_READ):
        try:
            value_at(json.loads(content), claim["pointer"])
        except (LookupError, TypeError, ValueError) as error:
            path, pointer = claim["output"], claim["pointer"]
            raise NotFound(f"{path} has no value at #{pointer}", what=what) from error


def _iterate_content(
    log: WorkflowLog, result: _Result, claim: dict[str, str], limit: int = _MOST_OF_FILE
) -> Iterator[bytes]:
    """Yield the content of the file with the claimed value.

    Nothing is yielded if the file is missing, has changed, or has more than ``limit`` bytes.
    """
    named: dict[str, Any] | None = None
    if "pointer" in claim:
        outputs = result.event.data["outputs"]
        named = next(one for one in outputs if one["path"] == claim["output"])
    elif "metric" in claim:
        named = result.record
    if named is not None:
        kept = stage_folder_of_round(
            result.stage, result.source.round if result.source is not None else 0
        )
        moved = f"{kept}/{named['path'].removeprefix(f'{result.stage}/')}"
        yield from _find_unchanged_content(log, named["sha256"], limit, named["path"], moved)


def _find_unchanged_content(
    log: WorkflowLog, digest: str, limit: int, *paths: str
) -> Iterator[bytes]:
    root = log.approvals.root
    for place in (root / path for path in paths if root is not None):
        if place.is_file() and place.stat().st_size <= limit:
            content = place.read_bytes()
            if sha256(content).hexdigest() == digest:
                yield content
                return


def _rebuild_statement(log: WorkflowLog, version: int) -> bytes:
    from service.consent.proof import rebuild_statement

    before = log.state(version - 1)
    if before is None:
        raise NotFound(f"the event with version {version} is not an approval", version=version)
    event = next(iter(log.store.read(log.stream, after=version - 1)))
    return rebuild_statement(before, before.amendments[event.data["amendment"]], event)


def _find_result(log: WorkflowLog, seen: _Results, what: str) -> tuple[_Result, dict[str, str]]:
    if what in seen:
        return seen[what][0], {}
    asked = _PART.fullmatch(what)
    if asked is not None and asked["metric"] is not None:
        of_task = asked["task"] is not None
        return _of_task(log, seen, asked) if of_task else _find_number(log, seen, asked)
    path, sharp, pointer = (asked["file"] if asked is not None else what).partition("#")
    if not is_pointer(pointer):
        raise InvalidOption(
            "the text after the file name must be a JSON pointer such as #/nu or #/tasks/0, but "
            f"it is {pointer!r}"
        )
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
        f"the log contains no result named {what!r}. Name an output of a completed stage "
        f"({', '.join(there) or 'none yet'}), a stage, an amendment or a version",
        what=what,
    )


def _find_number(
    log: WorkflowLog, seen: _Results, asked: re.Match[str]
) -> tuple[_Result, dict[str, str]]:
    """Return the result with a number of a stage, and a claim that names its place.

    Raises `NotFound` if the stage has no such number.
    """
    stage, name = asked["stage"], asked["metric"]
    result = next(iter(seen.get(stage, [])), None)
    known = {one["name"]: one for one in (result.event.data.get("metrics") if result else ()) or ()}
    outputs = [one["path"] for one in result.event.data["outputs"]] if result else []
    number = known.get(name)
    if result is None or number is None:
        raise NotFound(
            f"the stage {stage} has no recorded number {name!r}. The recorded numbers of this "
            f"stage are: {', '.join(known) or 'none yet'}",
            stage=stage,
        )
    if number["task"] and result.rests_on.get("tasks") and _has_task(log, result, number["task"]):
        return result, {"task": number["task"], "metric": name}
    if number["path"] in outputs and not number["task"]:
        return result, {"output": number["path"], "pointer": number["pointer"], "metric": name}
    of = next((one for one in outputs if f"{number['path']}/".startswith(f"{one}/")), None)
    if of is None:
        raise NotFound(f"{number['path']} is no longer an output of {stage}", stage=stage)
    return result, {"output": of}


def _of_task(
    log: WorkflowLog, seen: _Results, asked: re.Match[str]
) -> tuple[_Result, dict[str, str]]:
    result = next(iter(seen.get(asked["stage"], [])), None)
    if result is None or not result.rests_on.get("tasks"):
        raise NotFound(
            f"the tasks of {asked['stage']} cannot be proved, because the stage is not completed "
            "or has no recorded tasks",
            stage=asked["stage"],
        )
    if not _has_task(log, result, asked["task"]):
        raise NotFound(
            f"the last attempt of the stage {result.stage} did not compute the task "
            f"{asked['task']!r}. If the table of tasks is an output, the table contains the tasks "
            "of earlier attempts",
            stage=result.stage,
            task=asked["task"],
        )
    return result, {"task": asked["task"], "metric": asked["metric"]}


def _has_task(log: WorkflowLog, result: _Result, task: str) -> bool:
    """Return whether an attempt recorded a task. Return True if its record is missing."""
    record = result.record or {"sha256": "", "path": ""}
    found = [*_find_unchanged_content(log, record["sha256"], _MOST_OF_FILE, record["path"])]
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
#: The names of the optional parts of a claim. All of them are strings.
_PLACE = ("output", "pointer")
_CLAIMS = ((), ("output",), _PLACE, (*_PLACE, "metric"), ("task", "metric"))
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})", re.ASCII)
_EXTRA = "extra "
_MOST_BYTES, _MOST_EXTRA, _MOST_PATH = 1_000_000, 10_000_000, 63
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof that a log records an event and, if there is a claim, a part of it.

    ``leaf`` is the text of the event, and ``index`` its position from 0. ``path`` contains the
    hashes that lead to the signed checkpoint ``note``. ``texts`` are the texts to which the event
    refers. ``claim`` names the proven part: an ``output`` by its path, a ``pointer`` into this file
    with the name of a ``metric``, or a ``metric`` of a ``task``. It is empty if the event itself is
    proven.
    """

    index: int
    path: tuple[bytes, ...]
    leaf: bytes
    note: Note
    texts: tuple[bytes, ...] = ()
    claim: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        head = _build_proof_header([len(one) for one in (self.leaf, *self.texts)], self.claim)
        content = b"".join((head, b"\n", self.leaf, *self.texts))
        packing = zlib.compressobj(9, zdict=WORDS)
        extra = b64encode(packing.compress(content) + packing.flush()).decode()
        path = "".join(f"{b64encode(one).decode()}\n" for one in self.path)
        return f"{FIRST_LINE}\n{_EXTRA}{extra}\nindex {self.index}\n{path}\n{self.note}"


def read_proof(content: bytes) -> Proof:
    """Return the proof in the bytes, without checking what it proves.

    Raises `UnreadableNote` if the bytes are not a proof.
    """
    if len(content) > _MOST_BYTES:
        raise UnreadableNote(
            f"a proof can have at most {_MOST_BYTES} bytes, but this proof is longer"
        )
    head, blank, note = content.partition(b"\n\n")
    first, *lines = head.decode("utf-8", "replace").split("\n")
    if first != FIRST_LINE or not blank:
        raise UnreadableNote(
            f"a proof must start with {FIRST_LINE!r} and contain a checkpoint, but this "
            f"file starts with {first!r:.80}"
        )
    if not lines or not lines[0].startswith(_EXTRA):
        raise UnreadableNote(
            "the second line of a proof must start with 'extra' and contain the event, but this "
            "proof has no such line"
        )
    extra, *places = lines
    index = _INDEX.fullmatch(places[0]) if places else None
    if index is None or len(places) > _MOST_PATH:
        raise UnreadableNote(
            f"the third line of a proof must be 'index N', followed by at most {_MOST_PATH} hashes"
        )
    path = tuple(map(_decode_hash, places[1:]))
    claim, (leaf, *texts) = _unpack_extra(decode_base64(extra.removeprefix(_EXTRA)))
    return Proof(int(index[1]), path, leaf, read_note(note), tuple(texts), claim)


def _decode_hash(text: str) -> bytes:
    found = decode_base64(text)
    if len(found) != _HASH_BYTES:
        raise UnreadableNote(
            f"a hash must have {_HASH_BYTES} bytes, but this hash has {len(found)} bytes"
        )
    return found


def _unpack_extra(packed: bytes) -> tuple[dict[str, str], list[bytes]]:
    """Return the claim and the additional texts of a proof from their packed form."""
    unpacking = zlib.decompressobj(zdict=WORDS)
    try:
        content = unpacking.decompress(packed, _MOST_EXTRA)
    except zlib.error as error:
        raise UnreadableNote(
            f"the extra data of the proof cannot be decompressed with zlib: {error}"
        ) from error
    if not unpacking.eof or unpacking.unused_data:
        raise UnreadableNote(
            f"the extra data of the proof is damaged, or it has more than {_MOST_EXTRA} bytes "
            "after decompression"
        )
    line, _, texts = content.partition(b"\n")
    try:
        said = json.loads(line.decode("utf-8", "surrogateescape"))
        lengths, claim = said["lengths"], said.get("claim", {})
        is_ours = (
            _is_header_valid(lengths, claim, len(texts))
            and _build_proof_header(lengths, claim) == line
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableNote(
            f"the first line of the extra data of the proof is not valid JSON: {error}"
        ) from error
    if not is_ours:
        raise UnreadableNote(
            f"the proof has an old format. This version of wfctl can read only format {FORM} of "
            "the extra data. Create a new proof with `wfctl prove`."
        )
    ends = list(accumulate(lengths, initial=0))
    return claim, [texts[begin:end] for begin, end in pairwise(ends)]


def _build_proof_header(lengths: list[int], claim: dict[str, str]) -> bytes:
    """Return the JSON line before the texts of a proof. Only this exact form is valid."""
    head = {"wfctl-proof": FORM, "lengths": lengths} | ({"claim": claim} if claim else {})
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def _is_header_valid(lengths: Any, claim: Any, size: int) -> bool:
    """Return whether the lengths of the texts sum up to ``size`` and the claim is valid."""
    if not isinstance(lengths, list) or not lengths or not isinstance(claim, dict):
        return False
    if not all(type(one) is int and one > 0 for one in lengths) or sum(lengths) != size:
        return False
    return tuple(claim) in _CLAIMS and all(isinstance(one, str) for one in claim.values())
