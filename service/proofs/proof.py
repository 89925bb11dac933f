"""Proofs: their form, and how one is made."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eventstore.chain import Range, inclusion_ranges, nodes
from eventstore.store import EventStore
from service.errors import InvalidOption
from service.proofs.checkpoint import Checkpoint, leaves
from service.proofs.errors import CheckpointDenied, UnreadableNote
from service.proofs.grounds import grounds_of, text_at
from service.proofs.note import Note, decoded, read_note
from service.reading.log import WorkflowLog

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
CLAIMS = frozenset({"output", "pointer", "task", "metric"})
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})", re.ASCII)
_EXTRA = "extra "
_MOST_BYTES = 1_000_000
_MOST_EXTRA = 10_000_000
_MOST_PATH = 63
_HASH_BYTES = 32


@dataclass(frozen=True, slots=True)
class Proof:
    """The leaf with its way to the root, the texts that it rests on, and the checkpoint.

    ``claim`` names what of the leaf is proven: an ``output`` by its path, and a ``pointer`` into
    it; or a ``metric`` of a ``task``. It is empty if the leaf itself is. ``index`` counts from 0.
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
        path = "".join(f"{_base64(one)}\n" for one in self.path)
        extra = _base64(_packed(content))
        return f"{FIRST_LINE}\n{_EXTRA}{extra}\nindex {self.index}\n{path}\n{self.note}"


def _packed(content: bytes) -> bytes:
    packing = zlib.compressobj(9, zdict=WORDS)
    return packing.compress(content) + packing.flush()


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


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
    index, path = _place(lines[1:])
    said, texts = _unpacked(decoded(lines[0].removeprefix(_EXTRA)))
    leaf, *others = texts
    return Proof(index, path, leaf, read_note(note), tuple(others), said.get("claim", {}))


def _place(lines: Sequence[str]) -> tuple[int, tuple[bytes, ...]]:
    index = _INDEX.fullmatch(lines[0]) if lines else None
    if index is None or len(lines) > _MOST_PATH:
        raise UnreadableNote(f"expected 'index N' and at most {_MOST_PATH} hashes")
    return int(index[1]), tuple(map(_hash, lines[1:]))


def _hash(text: str) -> bytes:
    found = decoded(text)
    if len(found) != _HASH_BYTES:
        raise UnreadableNote(f"expected a hash of {_HASH_BYTES} bytes, found {len(found)}")
    return found


def _unpacked(packed: bytes) -> tuple[dict[str, Any], list[bytes]]:
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
    return said, list(_cut(texts, said["lengths"]))


def _is_head(said: Any, size: int) -> bool:
    """Whether a line of JSON tells of ``size`` bytes of texts, and claims nothing unknown."""
    if not isinstance(said, dict) or not said.keys() <= {"wfctl-proof", "lengths", "claim"}:
        return False
    lengths, claim = said.get("lengths"), said.get("claim", {})
    if said.get("wfctl-proof") != FORM or not isinstance(lengths, list) or not lengths:
        return False
    if not all(type(one) is int and one > 0 for one in lengths) or sum(lengths) != size:
        return False
    return isinstance(claim, dict) and claim.keys() <= CLAIMS and _are_texts(claim.values())


def _are_texts(values: Any) -> bool:
    return all(isinstance(one, str) for one in values)


def _cut(texts: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    begin = 0
    for length in lengths:
        yield texts[begin : begin + length]
        begin += length


#: A proof is to be at most so long, to lie beside a figure. What does not fit is proven by digest.
MOST_BYTES = 2560


def prove(
    log: WorkflowLog, what: str, checkpoint: Checkpoint, note: Note, *, whole: bool = False
) -> Proof:
    """Return the proof of ``what`` under a checkpoint of the log.

    Texts that would make it longer than `MOST_BYTES` are left out, unless it is to be ``whole``.
    Raises `NotFound`, and `CheckpointDenied` where the log is not the one of the checkpoint.
    """
    grounds = grounds_of(log, what, checkpoint.size)
    leaf, path = _leaf(log.store, log.stream, grounds.version, checkpoint)
    proof = Proof(grounds.version - 1, path, leaf, note, claim=grounds.claim)
    for text in grounds.texts:
        longer = replace(proof, texts=(*proof.texts, text))
        fits = len(str(longer).encode("utf-8", "surrogateescape")) <= MOST_BYTES
        if (whole or fits) and text not in proof.texts:
            proof = longer
    return proof


def _leaf(
    store: EventStore, stream: str, version: int, checkpoint: Checkpoint
) -> tuple[bytes, tuple[bytes, ...]]:
    size, whole = checkpoint.size, (0, checkpoint.size)
    if version > size:
        raise InvalidOption(
            f"expected a checkpoint of at least {version} events, found one of {size}", size=size
        )
    path = inclusion_ranges(version - 1, size)
    wanted: set[Range] = {whole, *path}
    found = nodes(leaves(store, stream, size), wanted)
    if found.get(whole) != checkpoint.root:
        raise CheckpointDenied(
            f"the log is not the one of which the checkpoint of {size} events was signed; "
            "`wfctl fsck` says more",
            size=size,
        )
    return text_at(store, stream, version), tuple(found[place] for place in path)
