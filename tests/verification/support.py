"""Helpers that write valid and broken output files of all file types that wfctl reads."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from reconciler.verification.file_types import FileReading, read_output

ARRAYS = Path(__file__).parent / "arrays"


def chunk(name: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    sum_ = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + sum_


def picture(width: int = 4, height: int = 3, pixels: bytes | None = None) -> bytes:
    """Return a grey PNG image; ``pixels`` replaces its pixel data, such as to break it."""
    rows = (b"\0" + bytes(range(width))) * height if pixels is None else pixels
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def read(folder: Path, name: str, content: bytes | str) -> FileReading:
    """Write a file and read it according to its file name."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = read_output(path)
    assert found is not None
    return found
