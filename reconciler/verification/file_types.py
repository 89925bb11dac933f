"""Outputs read by their type: JSON, tables, text, pictures, arrays."""

from __future__ import annotations

import csv
import math
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
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


@dataclass(slots=True)
class Column:
    """How many cells of a column are finite numbers, other numbers, and no numbers."""

    finite: int = 0
    not_finite: int = 0
    text: int = 0
    first: str | None = None


def number(cell: str) -> float | None:
    """Return a cell's number, None where it holds none; Fortran's ``1.0D+00`` is one."""
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


class Columns:
    """The columns of a table, of which every row is counted once."""

    def __init__(self) -> None:
        self._columns: list[Column] = []
        #: Rows that hold nothing but finite numbers.
        self._plain = 0

    def count(self, row: Sequence[str], line: int) -> None:
        """Count a row's cells; empty ones are left out."""
        if are_finite(row):
            self._plain += 1
            return
        while len(self._columns) < len(row):
            self._columns.append(Column())
        for place, (column, cell) in enumerate(zip(self._columns, row, strict=False), 1):
            if cell and not cell.isspace():
                _count(column, cell, f"column {place}, line {line}")

    @property
    def have_numbers(self) -> bool:
        """Whether one of them is a column of numbers."""
        return self._plain > 0 or any(map(self._is_numeric, self._columns))

    @property
    def not_finite(self) -> str | None:
        """Where a column of numbers holds its first NaN or infinity."""
        places = (c.first for c in self._columns if self._is_numeric(c) and c.first is not None)
        return next(places, None)

    def _is_numeric(self, column: Column) -> bool:
        return self._plain + column.finite + column.not_finite > column.text


def _count(column: Column, cell: str, place: str) -> None:
    value = number(cell)
    if value is None:
        column.text += 1
    elif math.isfinite(value):
        column.finite += 1
    else:
        column.not_finite += 1
        column.first = column.first or f"{cell.strip()} in {place}"


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


def read_table(stream: IO[bytes], kind: str) -> FileReading:
    """Read a table whose cells are parted by a comma (a semicolon), a tab for ``TSV``.

    Lines that begin with ``#`` are comments.
    """
    columns = Columns()
    last: list[TextLine] = []
    rows = width = 0
    try:
        for line, row in _rows(stream, kind, last):
            if rows and len(row) != width:
                raise Cut(f"line {line} has {len(row)} cells, the lines before it {width}")
            rows, width = rows + 1, len(row)
            if rows > 1 or (any(number(cell) is not None for cell in row)):
                columns.count(row, line)
    except (csv.Error, Cut) as error:
        return FileReading(kind, problem=str(error), not_finite=columns.not_finite)
    return FileReading(
        kind,
        f"{rows} rows of {width}",
        problem=_cut_off(last[0]) if rows > 1 and last else None,
        not_finite=columns.not_finite,
        has_numbers=columns.have_numbers,
    )


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


_KIND = "text"
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
        return FileReading(_KIND, remarks=[f"{error}; not looked into"])
    count = last.number if last else 0
    content = f"{count} lines, {rows} of numbers" if rows else f"{count} lines"
    alone = count == 1 and last is not None and not last.ended
    return FileReading(
        _KIND,
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


@dataclass(slots=True)
class _Picture:
    """What was read so far; ``size`` counts the bytes of the unpacked pixels."""

    header: tuple[int, ...] = ()
    size: int = 0
    unpacker: Any = field(default_factory=zlib.decompressobj)

    @property
    def expected(self) -> int | None:
        """The bytes of all pixels, a filter byte a row; None where rows are interlaced."""
        width, height, depth, color, _, _, interlaced = self.header
        row = 1 + (width * depth * _SAMPLES[color] + 7) // 8
        return None if interlaced else row * height


def read_png(source: IO[bytes]) -> FileReading:
    """Read a picture to its end chunk."""
    picture = _Picture()
    try:
        if exactly(source, len(_SIGNATURE), "the signature") != _SIGNATURE:
            raise Cut("it does not begin as a PNG does")
        while _chunk(source, picture) != b"IEND":
            pass
        if picture.expected not in (None, picture.size):
            raise Cut(f"its pixels are {picture.size} bytes, expected {picture.expected}")
    except (Cut, zlib.error) as error:
        return FileReading("PNG", problem=str(error))
    width, height = picture.header[:2]
    return FileReading("PNG", f"{width} x {height} pixels")


def _chunk(source: IO[bytes], picture: _Picture) -> bytes:
    length, name = struct.unpack(">I4s", exactly(source, 8, "a chunk's head"))
    label = name.decode("latin-1")
    if not picture.header and name != b"IHDR":
        raise Cut(f"its first chunk is {label!r}, expected 'IHDR'")
    sum_, left = zlib.crc32(name), length
    while left:
        block = exactly(source, min(left, _BLOCK), f"chunk {label!r}")
        sum_, left = zlib.crc32(block, sum_), left - len(block)
        _take(picture, name, block, length)
    if struct.pack(">I", sum_) != exactly(source, 4, f"chunk {label!r}"):
        raise Cut(f"the checksum of chunk {label!r} does not fit")
    return bytes(name)


def _take(picture: _Picture, name: bytes, block: bytes, length: int) -> None:
    if name == b"IHDR":
        if length != _HEADER.size:
            raise Cut(f"its header has {length} bytes, expected {_HEADER.size}")
        picture.header = _HEADER.unpack(block)
        width, height, _, color = picture.header[:4]
        if not (width and height and color in _SAMPLES):
            raise Cut(f"its header says {width} x {height} pixels of colour type {color}")
    elif name == b"IDAT":
        while block:
            picture.size += len(picture.unpacker.decompress(block, _BLOCK))
            block = picture.unpacker.unconsumed_tail
