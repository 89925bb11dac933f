"""Which types of outputs are known, by the endings of their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from reconciler.verification.outputs import json_text, npy, png, table, text
from reconciler.verification.outputs.reading import Reading

#: The ending of a name, in small letters → what reads such a file.
READERS: dict[str, Callable[[BinaryIO], Reading]] = {
    ".json": json_text.read,
    ".jsonl": partial(json_text.read, lines=True),
    ".ndjson": partial(json_text.read, lines=True),
    ".csv": partial(table.read, kind="CSV"),
    ".tsv": partial(table.read, kind="TSV"),
    ".png": png.read,
    ".npy": npy.read,
    ".npz": npy.read_archive,
    **dict.fromkeys((".txt", ".dat", ".log", ".out", ".xyz", ".xvg", ".data"), text.read),
}


def read(path: Path) -> Reading | None:
    """Read a file as its name says, a block at a time; None where its type is not known."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        return None
    with path.open("rb") as stream:
        return reader(stream)
