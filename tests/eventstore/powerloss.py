"""Rebuild the files that may exist after a power loss, from a record of a program's writes.

The model assumes no more than POSIX: written data is durable only after a sync of the file, and a
created, moved or removed name only after a sync of its folder. Of all other changes any part may
survive: single writes, writes torn at sector boundaries, and names up to some point in time.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import NamedTuple

from tests.need import need_programs

SECTOR_BYTES = 512


class Operation(NamedTuple):
    """One change to a file.

    `kind` is create, write, truncate, sync, unlink or rename (to `other`).
    """

    kind: str
    path: str
    other: str
    offset: int
    data: bytes


def build_shim(folder: Path) -> Path:
    """Compile the library that records file operations into `folder`, and return its path."""
    need_programs("gcc")
    library = folder / "powerloss.so"
    source = Path(__file__).with_name("powerloss.c")
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


def recorded(command: Sequence[str], root: Path, shim: Path) -> list[Operation]:
    """Run a program, and return its file operations below `root`, with relative paths."""
    record = shim.with_name("record")
    record.unlink(missing_ok=True)
    loaded = {"LD_PRELOAD": str(shim), "POWERLOSS_ROOT": str(root), "POWERLOSS_RECORD": str(record)}
    subprocess.run(command, check=True, env=os.environ | loaded)
    return list(_parsed(record.read_bytes(), str(root)))


def _parsed(record: bytes, root: str) -> Iterator[Operation]:
    at = 0
    while at < len(record):
        end = record.index(b"\n", at)
        kind, *numbers = record[at:end].split()
        path, other, offset, data = map(int, numbers)
        pieces, at = [], end + 1
        for length in (path, other, data):
            pieces.append(record[at : at + length])
            at += length
        name, new_name = (os.path.relpath(os.fsdecode(p), root) if p else "" for p in pieces[:2])
        yield Operation(kind.decode(), name, new_name, offset, pieces[2])


@dataclass
class _File:
    """The durable content of a file, and the changes that may be lost."""

    sure: bytes = b""
    pending: list[Operation] = field(default_factory=list)


@dataclass
class Disk:
    """A folder as programs see it, and its possible state after a power loss."""

    live: dict[str, _File] = field(default_factory=dict)
    sure: dict[str, _File] = field(default_factory=dict)
    moves: list[tuple[str, _File | None]] = field(default_factory=list)

    def apply(self, operation: Operation) -> None:
        """Apply the next operation of the program."""
        name = operation.path
        if operation.kind == "create":
            self._name(name, _File())
        elif operation.kind == "unlink":
            self._name(name, None)
        elif operation.kind == "rename":
            self._name(operation.other, self.live[name])
            self._name(name, None)
        elif operation.kind == "sync":
            self._sync(name)
        else:
            self.live[name].pending.append(operation)

    def _name(self, name: str, file: _File | None) -> None:
        self.moves.append((name, file))
        _put(self.live, name, file)

    def _sync(self, name: str) -> None:
        if name in self.live:
            file = self.live[name]
            file.sure, file.pending = _written(file.sure, file.pending), []
            return
        inside = [move for move in self.moves if str(PurePath(move[0]).parent) == name]
        self.moves = [move for move in self.moves if move not in inside]
        for moved, file_or_none in inside:
            _put(self.sure, moved, file_or_none)

    def after_loss(self, chance: random.Random | None, everything: bool) -> dict[str, bytes]:
        """Return the files as they may be after a power loss.

        They have all changes, only the durable changes, or a random part of the others.
        """
        kept = len(self.moves) if everything else 0
        if chance is not None:
            kept = chance.randint(0, len(self.moves))
        names = dict(self.sure)
        for name, file in self.moves[:kept]:
            _put(names, name, file)
        return {name: _survivor(file, chance, everything) for name, file in names.items()}


def _put(names: dict[str, _File], name: str, file: _File | None) -> None:
    if file is None:
        names.pop(name, None)
    else:
        names[name] = file


def _written(sure: bytes, operations: Sequence[Operation]) -> bytes:
    content = bytearray(sure)
    for operation in operations:
        end = operation.offset + len(operation.data)
        if len(content) < end:
            content.extend(bytes(end - len(content)))
        if operation.kind == "truncate":
            del content[operation.offset :]
        else:
            content[operation.offset : end] = operation.data
    return bytes(content)


def _survivor(file: _File, chance: random.Random | None, everything: bool) -> bytes:
    if chance is None:
        return _written(file.sure, file.pending if everything else [])
    return _written(file.sure, [p for o in file.pending for p in _torn(o, chance)])


def _torn(operation: Operation, chance: random.Random) -> list[Operation]:
    """Return all of the written data, none, or the sectors that reached the disk."""
    luck = chance.random()
    if luck < 0.4:
        return []
    if luck < 0.7 or operation.kind == "truncate":
        return [operation]
    starts = range(0, len(operation.data), SECTOR_BYTES)
    return [
        operation._replace(
            offset=operation.offset + start, data=operation.data[start : start + SECTOR_BYTES]
        )
        for start in starts
        if chance.random() < 0.5
    ]


class Loss(NamedTuple):
    """The files after a simulated power loss, with the number of operations before it.

    `said` is the output that the program had already written to the screen.
    """

    point: int
    files: dict[str, bytes]
    said: bytes


def losses(operations: Sequence[Operation], screen: str, step: int, seed: int) -> Iterator[Loss]:
    """Simulate power losses after every `step`-th operation, and yield the disks.

    Each loss is simulated with all, without any, and with some of the unsynced changes.
    """
    disk, said, chance = Disk(), b"", random.Random(seed)
    for point, operation in enumerate(operations, 1):
        if operation.path == screen:
            said += operation.data
            continue
        disk.apply(operation)
        if point % step == 0:
            for files in _possible(disk, chance):
                yield Loss(point, files, said)


def _possible(disk: Disk, chance: random.Random) -> Iterator[dict[str, bytes]]:
    yield disk.after_loss(None, everything=False)
    yield disk.after_loss(None, everything=True)
    yield disk.after_loss(chance, everything=False)
    yield disk.after_loss(chance, everything=False)


def restore(files: dict[str, bytes], folder: Path) -> None:
    """Replace the content of `folder` with exactly these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
