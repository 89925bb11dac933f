"""NPY arrays and NPZ archives of them, by their published format; nothing is ever unpickled.

Source: numpy.lib.format, "Format Version 1.0" to "3.0". NumPy itself is not needed.
"""

from __future__ import annotations

import ast
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO, NamedTuple

from reconciler.verification.file_types import Cut, FileReading, exactly

_MAGIC = b"\x93NUMPY"
#: Bytes of the longest header that is read, as with NumPy.
_HEADER = 10_000
_BLOCK = 1 << 20
_TYPE = re.compile(r"([<>=|])([?bBiufcmMSUVO])(\d*)(\[.*\])?")
#: Kind and size of a type that can be not finite → how it is unpacked, and how many numbers it is.
_FLOATS = {
    ("f", 2): ("e", 1),
    ("f", 4): ("f", 1),
    ("f", 8): ("d", 1),
    ("c", 8): ("f", 2),
    ("c", 16): ("d", 2),
}


class _Floats(NamedTuple):
    """Numbers that lie together in an element: where, in which byte order, how many of which."""

    offset: int
    order: str
    code: str
    numbers: int

    @property
    def size(self) -> int:
        return struct.calcsize(f"{self.order}{self.numbers}{self.code}")


class _Element(NamedTuple):
    """An element's bytes, None where it is a pickled object, and the numbers in it."""

    size: int | None
    floats: tuple[_Floats, ...] = ()


class _Array(NamedTuple):
    """What an array's header says."""

    type: str
    shape: tuple[int, ...]
    element: _Element

    @property
    def words(self) -> str:
        return f"{self.type} {' x '.join(map(str, self.shape)) or 'scalar'}"


def read(source: IO[bytes]) -> FileReading:
    """Read one array to its last byte."""
    try:
        header = _header(source)
        return _data(source, header)
    except (Cut, ValueError, SyntaxError, KeyError, TypeError) as error:
        return FileReading("NPY", problem=f"{error}")


def read_archive(stream: IO[bytes]) -> FileReading:
    """Read every array of an archive; its checksums are looked at on the way."""
    try:
        with zipfile.ZipFile(stream) as archive:
            found = [(name, _member(archive, name)) for name in archive.namelist()]
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        return FileReading("NPZ", problem=str(error))
    return FileReading(
        "NPZ",
        f"{len(found)} arrays"
        if len(found) > 5
        else ", ".join(f"{n} {r.content}" for n, r in found),
        problem=_first((name, reading.problem) for name, reading in found),
        not_finite=_first((name, reading.not_finite) for name, reading in found),
        has_numbers=any(reading.has_numbers for _, reading in found),
        remarks=[f"{name}: {remark}" for name, reading in found for remark in reading.remarks],
    )


def _member(archive: zipfile.ZipFile, name: str) -> FileReading:
    with archive.open(name) as source:
        reading = read(source)
        while source.read(_BLOCK):  # to its end, where the checksum is compared
            pass
        return reading


def _first(found: Iterable[tuple[str, str | None]]) -> str | None:
    return next((f"{name}: {text}" for name, text in found if text is not None), None)


def _header(source: IO[bytes]) -> _Array:
    if exactly(source, len(_MAGIC), "the signature") != _MAGIC:
        raise Cut("it does not begin as an array of NumPy does")
    major, _ = exactly(source, 2, "the version")
    width = {1: "<H", 2: "<I", 3: "<I"}.get(major)
    if width is None:
        raise Cut(f"its format has version {major}, expected 1, 2 or 3")
    (length,) = struct.unpack(width, exactly(source, struct.calcsize(width), "the header"))
    if length > _HEADER:
        raise Cut(f"its header has {length} bytes, more than {_HEADER}")
    text = exactly(source, length, "the header").decode("utf-8" if major == 3 else "latin-1")
    return _array(ast.literal_eval(text.strip()))


def _array(header: dict[str, object]) -> _Array:
    descr, shape = header["descr"], header["shape"]
    if not (isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)):
        raise Cut(f"its shape is {shape!r}")
    return _Array(descr if isinstance(descr, str) else "record", shape, _element(descr))


def _element(descr: object) -> _Element:
    if isinstance(descr, str):
        return _plain(descr)
    if not isinstance(descr, list):
        raise Cut(f"its type is {descr!r}, which NumPy does not have")
    size, floats = 0, []
    for _, kind, *shape in descr:
        part, times = _element(kind), math.prod(shape[0]) if shape else 1
        if part.size is None:
            return part
        floats += _repeated(part, part.size, size, times)
        size += times * part.size
    return _Element(size, tuple(floats))


def _repeated(part: _Element, step: int, offset: int, times: int) -> list[_Floats]:
    """Return the numbers of ``times`` elements in a row, from ``offset`` on."""
    if [f.size for f in part.floats] == [step]:
        return [f._replace(offset=offset, numbers=f.numbers * times) for f in part.floats]
    starts = range(offset, offset + times * step, step) if part.floats else ()
    return [f._replace(offset=start + f.offset) for start in starts for f in part.floats]


def _plain(descr: str) -> _Element:
    found = _TYPE.fullmatch(descr)
    if found is None:
        raise Cut(f"its type is {descr!r}, which NumPy does not have")
    order, kind, digits, _ = found.groups()
    if kind == "O":
        return _Element(None)
    size = int(digits or 1) * (4 if kind == "U" else 1)
    code = _FLOATS.get((kind, size))
    return _Element(size, (_Floats(0, order, *code),) if code is not None else ())


def _data(source: IO[bytes], header: _Array) -> FileReading:
    size, floats = header.element
    if size is None:
        remark = "holds pickled Python objects, which are not looked into"
        return FileReading("NPY", header.words, remarks=[remark])
    left, not_finite = math.prod(header.shape) * size, False
    together = max(1, _BLOCK // max(1, size)) * size
    while left:
        block = exactly(source, min(left, together), "its data")
        left -= len(block)
        not_finite = not_finite or not all(_is_finite(block, size, f) for f in floats)
    if source.read(1):
        raise Cut("bytes follow its data")
    words = f"NaN or infinity among {header.words}" if not_finite else None
    return FileReading("NPY", header.words, not_finite=words, has_numbers=bool(floats))


def _is_finite(block: bytes, size: int, floats: _Floats) -> bool:
    """Whether these numbers of every element are; a block holds whole elements."""
    offset, order, code, count = floats
    if size == floats.size:
        numbers = len(block) // size * count
        return all(map(math.isfinite, struct.unpack(f"{order}{numbers}{code}", block)))
    after = size - offset - floats.size
    each = struct.iter_unpack(f"{order}{offset}x{count}{code}{after}x", block)
    return all(math.isfinite(value) for values in each for value in values)
