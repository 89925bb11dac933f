"""Outputs read by their type: JSON, tables, text, pictures, arrays."""

from __future__ import annotations

import ast
import csv
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import ijson


@dataclass(frozen=True, slots=True)
class FileReading:
    """One file, read from its first byte to its last.

    ``kind`` is the type in a word, ``content`` what was found in a phrase. ``problem`` says why it
    cannot be read as that type, ``not_finite`` where its first NaN or infinity is, or
    None. ``has_numbers``: numbers were looked at. ``remarks`` are no reason to refuse it.
    """

    kind: str
    content: str = ""
    problem: str | None = None
    not_finite: str | None = None
    has_numbers: bool = False
    remarks: list[str] = field(default_factory=list)


class Cut(Exception):
    """The bytes end, or turn into something else, before the format says so."""


def exactly(source: IO[bytes], size: int, what: str) -> bytes:
    """Return ``size`` bytes; raises `Cut` where there are fewer."""
    found = source.read(size)
    if len(found) != size:
        raise Cut(f"it ends within {what}: {size} bytes expected, {len(found)} found")
    return found


#: Bytes of the longest line that is read.
LONGEST = 1 << 24


class TextLine(NamedTuple):
    """A line with its number from 1 on, and whether a newline ends it."""

    number: int
    text: str
    ended: bool


def lines(stream: IO[bytes]) -> Iterator[TextLine]:
    """Yield the lines with their newlines; bytes that are no UTF-8 are kept as they are.

    Raises `Cut` for a line longer than `LONGEST`.
    """
    number = 0
    while line := stream.readline(LONGEST):
        number += 1
        if len(line) == LONGEST:
            raise Cut(f"line {number} is longer than {LONGEST} bytes: no text that can be read")
        yield TextLine(number, line.decode("utf-8", "surrogateescape"), line.endswith(b"\n"))


def number(cell: str) -> float | None:
    """Return a cell's number, None if it holds none; Fortran's ``1.0D+00`` is one."""
    try:
        return float(cell)
    except ValueError:
        pass
    try:
        return float(cell.replace("D", "E").replace("d", "e")) if cell[-1:].isdigit() else None
    except ValueError:
        return None


def are_finite(cells: Iterable[str]) -> bool:
    """Whether all cells are finite numbers, as far as a quick look tells: No may be wrong."""
    try:
        return math.isfinite(sum(map(float, cells)))
    except ValueError:
        return False


#: The largest finite number of a double (IEEE 754); beyond it a reader finds an infinity.
_LARGEST = Decimal("1.7976931348623157e308")


def read_json(stream: IO[bytes], *, lines: bool = False) -> FileReading:
    """Read one document, or with ``lines`` any number of them, by RFC 8259: NaN is no JSON."""
    kind = "JSON lines" if lines else "JSON"
    values, not_finite = 0, None
    try:
        for event, value in ijson.basic_parse(stream, multiple_values=lines):
            values += event in ("number", "string", "boolean", "null")
            if event == "number" and abs(value) > _LARGEST and not_finite is None:
                not_finite = f"{value} is beyond what a double can hold"
    except (ijson.JSONError, UnicodeDecodeError) as error:
        # Without the arrow that the parser draws.
        text = " ".join(str(error).split("(right here)")[0].split())
        hint = "; JSON knows no NaN or Infinity" if "NaN" in text or "Infinity" in text else ""
        return FileReading(kind, problem=f"{text[:200]}{hint}", not_finite=not_finite)
    return FileReading(kind, f"{values} values", not_finite=not_finite, has_numbers=True)


@dataclass(slots=True)
class _Column:
    """How many cells are numbers and how many are not, and the first that is not finite."""

    numbers: int = 0
    texts: int = 0
    not_finite: str | None = None


def read_table(stream: IO[bytes], kind: str) -> FileReading:
    """Read a table whose cells are parted by a comma (a semicolon), a tab for ``TSV``.

    Lines that begin with ``#`` are comments.
    """
    columns: list[_Column] = []
    last: list[TextLine] = []
    #: Rows that hold nothing but finite numbers are counted as ``plain``.
    rows = width = plain = 0
    broken = None
    try:
        for line, row in _rows(stream, kind, last):
            if rows and len(row) != width:
                raise Cut(f"line {line} has {len(row)} cells, the lines before it {width}")
            rows, width = rows + 1, len(row)
            if are_finite(row):
                plain += 1
            elif rows > 1 or any(number(cell) is not None for cell in row):
                _count(columns, row, line)
    except (csv.Error, Cut) as error:
        broken = str(error)
    numeric = [one for one in columns if plain + one.numbers > one.texts]
    return FileReading(
        kind,
        f"{rows} rows of {width}",
        problem=broken or (_cut_off(last[0]) if rows > 1 and last else None),
        not_finite=next((one.not_finite for one in numeric if one.not_finite), None),
        has_numbers=not broken and bool(plain or numeric),
    )


def _count(columns: list[_Column], row: Sequence[str], line: int) -> None:
    """Count a row's cells; empty ones are left out."""
    columns += [_Column() for _ in row[len(columns) :]]
    for place, (column, cell) in enumerate(zip(columns, row, strict=False), 1):
        value = number(cell)
        if value is not None:
            column.numbers += 1
            if not (math.isfinite(value) or column.not_finite):
                column.not_finite = f"{cell.strip()} in column {place}, line {line}"
        elif cell and not cell.isspace():
            column.texts += 1


def _rows(stream: IO[bytes], kind: str, last: list[TextLine]) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of the line it ends on; keep the newest line in ``last``."""

    def uncommented() -> Iterator[str]:
        for line in lines(stream):
            last[:] = [line]
            if not line.text.startswith("#"):
                yield line.text

    text = uncommented()
    first = next(text, "").removeprefix("\ufeff")
    parted = "\t" if kind == "TSV" else ";" if ";" in first and "," not in first else ","
    for row in csv.reader(chain([first], text), delimiter=parted, strict=True):
        if row:
            yield last[0].number, row


def _cut_off(last: TextLine) -> str | None:
    if last.ended:
        return None
    return f"the last line is cut off: {last.text[-60:]!r} has no newline at its end"


#: What begins a line of words in the tables of simulation codes.
_COMMENTS = ("#", "@", "%", "!", ";")
_GAPS = re.compile(r"[\s,;]+")
_SNIFFED = 8192


def read_text(stream: IO[bytes]) -> FileReading:
    """Read text to its last line, which must be whole where there is more than one.

    A row is a line that holds more numbers than words. What holds a zero byte is no text, and is
    not looked into.
    """
    if b"\0" in stream.read(_SNIFFED):
        return FileReading("bytes", "no text; not looked into")
    stream.seek(0)
    rows, not_finite, last = 0, None, None
    try:
        for line in lines(stream):
            last = line
            if are_finite(line.text.split()):
                rows += not line.text.isspace()
                continue
            values = _values(line.text)
            rows += bool(values)
            if not_finite is None and not all(map(math.isfinite, values)):
                not_finite = f"line {line.number}: {line.text.strip()[:60]}"
    except Cut as error:
        return FileReading("text", remarks=[f"{error}; not looked into"])
    count = last.number if last else 0
    content = f"{count} lines, {rows} of numbers" if rows else f"{count} lines"
    alone = count == 1 and last is not None and not last.ended
    return FileReading(
        "text",
        content,
        problem=_cut_off(last) if last is not None and count > 1 else None,
        not_finite=not_finite,
        has_numbers=rows > 0,
        remarks=["its one line has no newline at its end"] if alone else [],
    )


def _values(text: str) -> list[float]:
    """Return the numbers of a row, none of a line that is no row."""
    if text.startswith(_COMMENTS):
        return []
    words = [word for word in _GAPS.split(text) if word]
    found = [value for value in map(number, words) if value is not None]
    return found if len(found) * 2 > len(words) else []


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">IIBBBBB")
#: Colour type → samples a pixel.
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_BLOCK = 1 << 16


def read_png(source: IO[bytes]) -> FileReading:
    """Read a picture to its end chunk."""
    header: tuple[int, ...] = ()
    size, unpacker = 0, zlib.decompressobj()
    try:
        if exactly(source, len(_SIGNATURE), "the signature") != _SIGNATURE:
            raise Cut("it does not begin as a PNG does")
        for name, block in _blocks(source):
            if name == b"IHDR":
                header = _checked(_HEADER.unpack(block))
            rest = block if name == b"IDAT" else b""
            while rest:
                size += len(unpacker.decompress(rest, _BLOCK))
                rest = unpacker.unconsumed_tail
        width, height, depth, color, _, _, interlaced = header
        # Each row begins with a filter byte.
        expected = height * (1 + (width * depth * _SAMPLES[color] + 7) // 8)
        if not interlaced and size != expected:
            raise Cut(f"its pixels are {size} bytes, expected {expected}")
    except (Cut, zlib.error) as error:
        return FileReading("PNG", problem=str(error))
    return FileReading("PNG", f"{width} x {height} pixels")


def _blocks(source: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes of each chunk to the last, a block at a time, behind the chunk's name."""
    first, name = True, b""
    while name != b"IEND":
        length, name = struct.unpack(">I4s", exactly(source, 8, "a chunk's head"))
        chunk = f"chunk {name.decode('latin-1')!r}"
        if first and name != b"IHDR":
            raise Cut(f"its first {chunk.replace(' ', ' is ', 1)}, expected 'IHDR'")
        sum_, left = zlib.crc32(name), length
        while left:
            block = exactly(source, min(left, _BLOCK), chunk)
            sum_, left, first = zlib.crc32(block, sum_), left - len(block), False
            if name == b"IHDR" and length != _HEADER.size:
                raise Cut(f"its header has {length} bytes, expected {_HEADER.size}")
            yield name, block
        if struct.pack(">I", sum_) != exactly(source, 4, chunk):
            raise Cut(f"the checksum of {chunk} does not fit")


def _checked(header: tuple[int, ...]) -> tuple[int, ...]:
    width, height, _, color = header[:4]
    if not (width and height and color in _SAMPLES):
        raise Cut(f"its header says {width} x {height} pixels of colour type {color}")
    return header


_MAGIC = b"\x93NUMPY"
#: Bytes of the longest header that is read, as with NumPy.
_LONGEST_HEADER = 10_000
#: Bytes of array data that are read at once.
_PART = 1 << 20
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


def read_npy(source: IO[bytes]) -> FileReading:
    """Read one array of NumPy to its last byte; nothing is ever unpickled, nor NumPy needed.

    Source: numpy.lib.format, "Format Version 1.0" to "3.0".
    """
    try:
        return _data(source, _array_header(source))
    except (Cut, ValueError, SyntaxError, KeyError, TypeError) as error:
        return FileReading("NPY", problem=f"{error}")


#: What a damaged archive may end in, by how it is packed; LZMA is not in every Python.
_DAMAGES: tuple[type[Exception], ...] = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
_DAMAGES += (ValueError, OSError)
with suppress(ImportError):
    from lzma import LZMAError

    _DAMAGES += (LZMAError,)


def read_npz(stream: IO[bytes]) -> FileReading:
    """Read every array of an archive; its checksums are looked at on the way."""
    found: list[tuple[str, FileReading]] = []
    try:
        with zipfile.ZipFile(stream) as archive:
            for name in archive.namelist():
                with archive.open(name) as source:
                    found.append((name, read_npy(source)))
                    while source.read(_PART):  # to its end, where the checksum is compared
                        pass
    except _DAMAGES as error:
        return FileReading("NPZ", problem=str(error))
    named = ", ".join(f"{name} {reading.content}" for name, reading in found)
    return FileReading(
        "NPZ",
        f"{len(found)} arrays" if len(found) > 5 else named,
        problem=next((f"{n}: {r.problem}" for n, r in found if r.problem is not None), None),
        not_finite=next((f"{n}: {r.not_finite}" for n, r in found if r.not_finite), None),
        has_numbers=any(reading.has_numbers for _, reading in found),
        remarks=[f"{name}: {remark}" for name, reading in found for remark in reading.remarks],
    )


def _array_header(source: IO[bytes]) -> dict[str, Any]:
    if exactly(source, len(_MAGIC), "the signature") != _MAGIC:
        raise Cut("it does not begin as an array of NumPy does")
    major, _ = exactly(source, 2, "the version")
    width = {1: "<H", 2: "<I", 3: "<I"}.get(major)
    if width is None:
        raise Cut(f"its format has version {major}, expected 1, 2 or 3")
    (length,) = struct.unpack(width, exactly(source, struct.calcsize(width), "the header"))
    if length > _LONGEST_HEADER:
        raise Cut(f"its header has {length} bytes, more than {_LONGEST_HEADER}")
    text = exactly(source, length, "the header").decode("utf-8" if major == 3 else "latin-1")
    header: dict[str, Any] = ast.literal_eval(text.strip())
    return header


def _element(descr: object) -> tuple[int | None, list[_Floats]]:
    """Return an element's bytes, None if it is a pickled object, and the numbers in it."""
    if isinstance(descr, str) and (found := _TYPE.fullmatch(descr)) is not None:
        order, kind, digits, _ = found.groups()
        bytes_ = int(digits or 1) * (4 if kind == "U" else 1)
        code = _FLOATS.get((kind, bytes_))
        floats = [_Floats(0, order, *code)] if code is not None else []
        return None if kind == "O" else bytes_, floats
    if not isinstance(descr, list):
        raise Cut(f"its type is {descr!r}, which NumPy does not have")
    size, floats = 0, []
    for _, of_part, *shape in descr:
        part, own = _element(of_part)
        times = math.prod(shape[0]) if shape else 1
        if part is None:
            return None, []
        if [one.size for one in own] == [part]:  # numbers and nothing else lie in a row
            floats.append(own[0]._replace(offset=size, numbers=own[0].numbers * times))
        else:
            starts = range(size, size + times * part, part) if own else ()
            floats += [one._replace(offset=at + one.offset) for at in starts for one in own]
        size += times * part
    return size, floats


def _data(source: IO[bytes], header: dict[str, Any]) -> FileReading:
    descr, shape = header["descr"], header["shape"]
    if not (isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)):
        raise Cut(f"its shape is {shape!r}")
    size, floats = _element(descr)
    words = f"{descr if isinstance(descr, str) else 'record'} "
    words += " x ".join(map(str, shape)) or "scalar"
    if size is None:
        remark = "holds pickled Python objects, which are not looked into"
        return FileReading("NPY", words, remarks=[remark])
    left, not_finite = math.prod(shape) * size, False
    together = max(1, _PART // max(1, size)) * size
    while left:
        block = exactly(source, min(left, together), "its data")
        left -= len(block)
        not_finite = not_finite or not all(_is_finite(block, size, one) for one in floats)
    if source.read(1):
        raise Cut("bytes follow its data")
    told = f"NaN or infinity among {words}" if not_finite else None
    return FileReading("NPY", words, not_finite=told, has_numbers=bool(floats))


def _is_finite(block: bytes, size: int, floats: _Floats) -> bool:
    """Whether these numbers of every element are; a block holds whole elements."""
    offset, order, code, count = floats
    if size == floats.size:
        numbers = len(block) // size * count
        return all(map(math.isfinite, struct.unpack(f"{order}{numbers}{code}", block)))
    after = size - offset - floats.size
    each = struct.iter_unpack(f"{order}{offset}x{count}{code}{after}x", block)
    return all(math.isfinite(value) for values in each for value in values)


#: The ending of a name, in small letters → what reads such a file.
READERS: dict[str, Callable[[IO[bytes]], FileReading]] = {
    ".json": read_json,
    **dict.fromkeys((".jsonl", ".ndjson"), partial(read_json, lines=True)),
    ".csv": partial(read_table, kind="CSV"),
    ".tsv": partial(read_table, kind="TSV"),
    ".png": read_png,
    ".npy": read_npy,
    ".npz": read_npz,
    **dict.fromkeys((".txt", ".dat", ".log", ".out", ".xyz", ".xvg", ".data"), read_text),
}


def read_output(path: Path) -> FileReading | None:
    """Read a file as its name says, a block at a time; None if its type is not known."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        return None
    with path.open("rb") as stream:
        return reader(stream)
