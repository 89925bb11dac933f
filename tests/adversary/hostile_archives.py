"""Generate hostile archives from seeds: their events, extra files and zip structure are forged."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from extensions.handover.manifest import explain_unacceptable_event
from lifecycle.payload.event_types import STAGED
from tests.adversary import raw
from tests.adversary.archives import Body, forged
from tests.adversary.hostile import FIELDS, TEXTS, TYPES, VALUES, spoilt
from tests.amendments.support import canonical
from tests.golden.events_on_file import examples

#: Maximum number of tries to generate an event that the import accepts. Accepted events let the
#: test reach the later steps of an import.
TRIES = 60
_MANIFEST = "manifest.json"
_LINK = 0o120777 << 16
#: Paths of additional archive entries, which the manifest does not list.
_PLACES = ("../../escaped", "/tmp/escaped", "drift/../../escaped", "a\\..\\escaped", "x" * 70_000)
_DATA: dict[str, list[Any]] = {}
Files = dict[str, bytes]


def archive(honest: Path, target: Path, random: Random) -> Path:
    """Write an archive with false content, in which most hashes and sizes are valid."""
    workflow = random.choice(TEXTS) if random.random() < 0.1 else None
    deep = random.random() < 0.6

    def edit(bodies: list[Body]) -> list[Body]:
        for _ in range(random.randint(0, 2)):
            place = random.randrange(len(bodies))
            bodies[place] = _chosen(bodies[place], deep, random, _spoilt)
        for _ in range(random.randint(0, 4)):
            last = {**bodies[-1], "version": len(bodies) + 1}
            found = _chosen(last, deep, random, _made_up)
            bodies += [] if found is last else [found]
        return bodies

    forged(honest, target, edit, workflow)
    chosen = random.sample(range(len(_WAYS)), random.choice((0, 0, 1, 1, 2)))
    for number in sorted(chosen):
        _WAYS[number](target, random)
    return target


def _chosen(body: Body, deep: bool, random: Random, way: Callable[[Body, Random], Body]) -> Body:
    """Return a forged event. With ``deep``, prefer an event that an import accepts."""
    for _ in range(TRIES if deep else 1):
        found = way(body, random)
        if not deep or _is_taken(found):
            return found
    return body


def _is_taken(body: Body) -> bool:
    try:
        text = canonical(body).encode("utf-8")
        return explain_unacceptable_event(text) is None
    except (KeyError, ValueError, RecursionError):
        return False


def _spoilt(body: Body, random: Random) -> Body:
    if random.random() < 0.2:
        field = random.choice(["type", "actor", "session", "occurred_at", "schema_version"])
        return {**body, field: random.choice(VALUES)}
    return {**body, "data": spoilt(body["data"], random)}


def _made_up(last: Body, random: Random) -> Body:
    own = f"forged-{last['version']}"
    named = {"event_id": own, "command_id": own, "causation_id": None}
    if random.random() < 0.3:
        data = {name: random.choice(VALUES) for name in random.sample(FIELDS, random.randint(0, 4))}
        type_, version = random.choice(TYPES), random.randint(1, 2)
    else:
        type_ = random.choice(list(_examples()))
        data, version = random.choice(_examples()[type_]), STAGED[type_].version
        for _ in range(random.randint(0, 2)):
            data = spoilt(data, random)
    return {**last, **named, "type": type_, "data": data, "schema_version": version}


def _examples() -> dict[str, list[Any]]:
    if not _DATA:
        for example in examples():
            if example.type in STAGED:
                _DATA.setdefault(example.type, []).append(example.data)
    return _DATA


def _parts(file: Path) -> Files:
    with ZipFile(file) as source:
        return {name: source.read(name) for name in source.namelist()}


def _packed(file: Path, files: Files, how: int = ZIP_DEFLATED) -> None:
    with ZipFile(file, "w", how) as made:
        for name, content in files.items():
            made.writestr(name, content)


def _agreed(file: Path, files: Files) -> None:
    """Pack the files again, with their sizes and digests in the manifest."""
    manifest = json.loads(files.pop(_MANIFEST))
    for name, content in files.items():
        manifest["files"][name] = {
            "bytes": len(content),
            "sha256": sha256(content).hexdigest(),
        }
    _packed(file, {**files, _MANIFEST: json.dumps(manifest).encode()})


def _manifest(file: Path, random: Random) -> None:
    """Damage values in the manifest of an archive."""
    files = _parts(file)
    files[_MANIFEST] = json.dumps(spoilt(json.loads(files[_MANIFEST]), random)).encode()
    _packed(file, files)


def _claims(file: Path, random: Random) -> None:
    """Damage or duplicate a line in the archive's file of claims (used idempotency keys)."""
    files = _parts(file)
    lines = [json.loads(line) for line in files["claims.jsonl"].splitlines()]
    place = random.randrange(len(lines))
    lines[place : place + random.randint(0, 1)] = [spoilt(lines[place], random)]
    files["claims.jsonl"] = _lined(lines)
    _agreed(file, files)


def _refusals(file: Path, random: Random) -> None:
    """Add refusals (records of refused commands) that no command recorded to an archive."""
    files = _parts(file)
    names = ("at", "stream", "actor", "command", "code", "message")
    honest: Body = {**dict.fromkeys(names, random.choice(TEXTS[:9])), "data": {}}
    honest["at"] = "2026-03-31T10:00:00.000000Z"
    lines = [honest if random.random() < 0.2 else spoilt(honest, random) for _ in range(3)]
    files["refusals.jsonl"] = _lined(lines)
    _agreed(file, files)


def _lined(values: list[Any]) -> bytes:
    return b"".join(raw.spelled(one).encode("utf-8", "surrogatepass") + b"\n" for one in values)


def _beside(file: Path, random: Random) -> None:
    """Add files that lead outside the root, are links, or appear twice."""
    files = _parts(file)
    name = random.choice([*_PLACES, *(f"drift/{text}" for text in TEXTS if text), "progress.log"])
    if random.random() < 0.5:
        files[name.encode("utf-8", "replace").decode()[:60_000]] = b"evil\n"
        _agreed(file, files)
        return
    info = ZipInfo(name.encode("utf-8", "replace").decode()[:60_000])
    info.external_attr = _LINK
    with warnings.catch_warnings(), ZipFile(file, "a", ZIP_STORED) as made:
        warnings.simplefilter("ignore")  # duplicate name
        made.writestr(info, "/etc/passwd")


def _bytes(file: Path, random: Random) -> None:
    """Change, cut or lengthen the zip file itself."""
    content = bytearray(file.read_bytes())
    way = random.randrange(4)
    if way == 0:
        for _ in range(random.randint(1, 20)):
            content[random.randrange(len(content))] = random.randrange(256)
    elif way == 1:
        del content[random.randrange(len(content)) :]
    elif way == 2:
        content[:0] = random.randbytes(random.randint(1, 500))
    else:
        # The last records of a zip file give the place, length and compression of each file.
        for _ in range(3):
            content[-random.randint(1, min(400, len(content)))] = random.choice((0, 1, 0x7F, 0xFF))
    file.write_bytes(content)


def _large(file: Path, random: Random) -> None:
    """Make one of the files far larger in memory than on the disk."""
    files = _parts(file)
    name = random.choice(list(files))
    pieces = (b"[],", b"[", b"[[],[],{}],", b'{"a":', b'"x",', b" ", b"\n", b"0,")
    files[name] = b"[" + random.choice(pieces) * random.choice((10_000, 500_000, 3_000_000))
    if name == _MANIFEST:
        _packed(file, files)
    else:
        _agreed(file, files)


#: Ways to damage an archive. The order matters: a later one may write a file that the earlier ones
#: cannot open.
_WAYS = (_claims, _refusals, _beside, _large, _manifest, _bytes)
