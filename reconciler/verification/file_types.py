"""Read output files completely and check their format.

The formats are JSON, tables, text, PNG pictures and NumPy arrays.
"""

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
    """The result of reading one complete file.

    ``kind`` is the type of the file, and ``content`` a short description. ``problem`` is the reason
    why the file is not valid, or None. ``not_finite`` describes the first NaN or infinity, or is
    None. ``has_numbers`` states whether numbers were checked. ``remarks`` describe oddities that do
    not make the file invalid.
    """

    kind: str
    content: str = ""
    problem: str | None = None
    not_finite: str | None = None
    has_numbers: bool = False
    remarks: list[str] = field(default_factory=list)


class InvalidFile(Exception):
    """A file ends too early or contains bytes that its format does not allow."""


def read_exactly(source: IO[bytes], size: int, what: str) -> bytes:
    """Read exactly ``size`` bytes from a stream.

    Raises `InvalidFile` if the stream ends earlier. ``what`` names the data for the message.
    """
    found = source.read(size)
    if len(found) != size:
        raise InvalidFile(
            f"the file ends within {what}, which must have {size} bytes but has only {len(found)} "
            "bytes"
        )
    return found


#: Maximum length of a line in bytes. A file with a longer line is not treated as text.
MAX_LINE_BYTES = 1 << 24


class TextLine(NamedTuple):
    """A line of text with its number, starting at 1, and whether it ends with a newline."""

    number: int
    text: str
    ended: bool


def read_lines(stream: IO[bytes]) -> Iterator[TextLine]:
    """Yield the lines of a stream with their newlines.

    Bytes that are not UTF-8 are kept as escape characters. Raises `InvalidFile` for a line longer
    than `MAX_LINE_BYTES`.
    """
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES:
            raise InvalidFile(
                f"line {number} is longer than {MAX_LINE_BYTES} bytes, so the file is not readable "
                "text"
            )
        yield TextLine(number, line.decode("utf-8", "surrogateescape"), line.endswith(b"\n"))


def parse_number(cell: str) -> float | None:
    """Return the number in a table cell, or None if the cell contains no number.

    Fortran's format ``1.0D+00`` is accepted.
    """
    try:
        return float(cell)
    except ValueError:
        pass
    try:
        return float(cell.replace("D", "E").replace("d", "e")) if cell[-1:].isdigit() else None
    except ValueError:
        return None


def are_finite(cells: Iterable[str]) -> bool:
    """Return True if all cells are certainly finite numbers.

    This check is fast but not exact: it may return False for finite numbers.
    """
    try:
        return math.isfinite(sum(map(float, cells)))
    except ValueError:
        return False


#: Largest finite double-precision number. Programs read larger numbers as infinity.
_MAX_DOUBLE = Decimal("1.7976931348623157e308")


def read_json(stream: IO[bytes], *, lines: bool = False) -> FileReading:
    """Read a JSON document, or one document per line with ``lines``, and check it.

    NaN and infinity are errors, because RFC 8259 does not allow them.
    """
    kind = "JSON lines" if lines else "JSON"
    values, not_finite = 0, None
    try:
        for event, value in ijson.basic_parse(stream, multiple_values=lines):
            values += event in ("number", "string", "boolean", "null")
            if event == "number" and abs(value) > _MAX_DOUBLE and not_finite is None:
                not_finite = f"{value} is too large for a double-precision number"
    except (ijson.JSONError, UnicodeDecodeError) as error:
        # The message of the parser contains an arrow drawn below the text, which is useless in one
        # line.
        text = " ".join(str(error).split("(right here)")[0].split())
        hint = (
            "; JSON does not allow NaN or Infinity" if "NaN" in text or "Infinity" in text else ""
        )
        return FileReading(kind, problem=f"{text[:200]}{hint}", not_finite=not_finite)
    return FileReading(kind, f"{values} values", not_finite=not_finite, has_numbers=True)


@dataclass(slots=True)
class _Column:
    """Counts of the cells in one column of a table.

    The counts are the cells with numbers and the other cells. The first cell that is not finite is
    stored too.
    """

    numbers: int = 0
    texts: int = 0
    not_finite: str | None = None


def read_table(stream: IO[bytes], kind: str) -> FileReading:
    """Read a table with separated cells and check it.

    The separators are tabs if ``kind`` is ``TSV``, otherwise commas or semicolons. Lines that start
    with ``#`` are comments.
    """
    columns: list[_Column] = []
    last: list[TextLine] = []
    #: ``plain`` is the number of rows that contain only finite numbers.
    rows = width = plain = 0
    broken = None
    try:
        for line, row in _read_rows(stream, kind, last):
            if rows and len(row) != width:
                raise InvalidFile(
                    f"line {line} has {len(row)} cells, but the lines before have {width} cells"
                )
            rows, width = rows + 1, len(row)
            if are_finite(row):
                plain += 1
            elif rows > 1 or any(parse_number(cell) is not None for cell in row):
                _count_cells(columns, row, line)
    except (csv.Error, InvalidFile) as error:
        broken = str(error)
    numeric = [one for one in columns if plain + one.numbers > one.texts]
    return FileReading(
        kind,
        f"{rows} rows of {width}",
        problem=broken or (_describe_cut_off(last[0]) if rows > 1 and last else None),
        not_finite=next((one.not_finite for one in numeric if one.not_finite), None),
        has_numbers=not broken and bool(plain or numeric),
    )


def _count_cells(columns: list[_Column], row: Sequence[str], line: int) -> None:
    """Count the cells of a row by column. Empty cells are not counted."""
    columns += [_Column() for _ in row[len(columns) :]]
    for place, (column, cell) in enumerate(zip(columns, row, strict=False), 1):
        value = parse_number(cell)
        if value is not None:
            column.numbers += 1
            if not (math.isfinite(value) or column.not_finite):
                column.not_finite = f"{cell.strip()} in column {place}, line {line}"
        elif cell and not cell.isspace():
            column.texts += 1


def _read_rows(
    stream: IO[bytes], kind: str, last: list[TextLine]
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of a table, after the number of its last line.

    The line that was read last is stored in ``last``.
    """

    def uncommented() -> Iterator[str]:
        for line in read_lines(stream):
            last[:] = [line]
            if not line.text.startswith("#"):
                yield line.text

    text = uncommented()
    first = next(text, "").removeprefix("\ufeff")
    parted = "\t" if kind == "TSV" else ";" if ";" in first and "," not in first else ","
    for row in csv.reader(chain([first], text), delimiter=parted, strict=True):
        if row:
            yield last[0].number, row


def _describe_cut_off(last: TextLine) -> str | None:
    if last.ended:
        return None
    return f"the last line is cut off: {last.text[-60:]!r} has no newline at its end"


#: Characters with which comment lines start in the output tables of simulation programs.
_COMMENTS = ("#", "@", "%", "!", ";")
_GAPS = re.compile(r"[\s,;]+")
_SNIFFED_BYTES = 8192


def read_text(stream: IO[bytes]) -> FileReading:
    """Read a text file to its end and check its numbers.

    If there are several lines, the last line must be complete. Lines with more numbers than words
    are treated as rows of a table. Returns without reading the file if it contains a zero byte.
    """
    if b"\0" in stream.read(_SNIFFED_BYTES):
        return FileReading("bytes", "not text; the content was not checked")
    stream.seek(0)
    rows, not_finite, last = 0, None, None
    try:
        for line in read_lines(stream):
            last = line
            if are_finite(line.text.split()):
                rows += not line.text.isspace()
                continue
            values = _parse_row(line.text)
            rows += bool(values)
            if not_finite is None and not all(map(math.isfinite, values)):
                not_finite = f"line {line.number}: {line.text.strip()[:60]}"
    except InvalidFile as error:
        return FileReading("text", remarks=[f"{error}; the content was not checked"])
    count = last.number if last else 0
    content = f"{count} lines, {rows} of numbers" if rows else f"{count} lines"
    alone = count == 1 and last is not None and not last.ended
    return FileReading(
        "text",
        content,
        problem=_describe_cut_off(last) if last is not None and count > 1 else None,
        not_finite=not_finite,
        has_numbers=rows > 0,
        remarks=["its only line has no newline at its end"] if alone else [],
    )


def _parse_row(text: str) -> list[float]:
    """Return the numbers in a line of text.

    Returns an empty list if the line has more words than numbers.
    """
    if text.startswith(_COMMENTS):
        return []
    words = [word for word in _GAPS.split(text) if word]
    found = [value for value in map(parse_number, words) if value is not None]
    return found if len(found) * 2 > len(words) else []


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">IIBBBBB")
#: For each colour type of PNG, the number of samples per pixel.
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_BLOCK = 1 << 16


def read_png(source: IO[bytes]) -> FileReading:
    """Read a PNG picture up to its end chunk, and check that it is complete."""
    header: tuple[int, ...] = ()
    size, unpacker = 0, zlib.decompressobj()
    try:
        if read_exactly(source, len(_SIGNATURE), "the signature") != _SIGNATURE:
            raise InvalidFile("the file does not start with the signature of a PNG file")
        for name, block in _read_chunks(source):
            if name == b"IHDR":
                header = _check_header(_HEADER.unpack(block))
            rest = block if name == b"IDAT" else b""
            while rest:
                size += len(unpacker.decompress(rest, _BLOCK))
                rest = unpacker.unconsumed_tail
        width, height, depth, color, _, _, interlaced = header
        # In PNG, each row of pixels starts with one additional byte, the filter type.
        expected = height * (1 + (width * depth * _SAMPLES[color] + 7) // 8)
        if not interlaced and size != expected:
            raise InvalidFile(f"the pixel data has {size} bytes, expected {expected}")
    except (InvalidFile, zlib.error) as error:
        return FileReading("PNG", problem=str(error))
    return FileReading("PNG", f"{width} x {height} pixels")


def _read_chunks(source: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the content of each PNG chunk in blocks, each after the name of its chunk."""
    first, name = True, b""
    while name != b"IEND":
        length, name = struct.unpack(">I4s", read_exactly(source, 8, "the header of a chunk"))
        chunk = f"chunk {name.decode('latin-1')!r}"
        if first and name != b"IHDR":
            raise InvalidFile(f"its first {chunk.replace(' ', ' is ', 1)}, expected 'IHDR'")
        sum_, left = zlib.crc32(name), length
        while left:
            block = read_exactly(source, min(left, _BLOCK), chunk)
            sum_, left, first = zlib.crc32(block, sum_), left - len(block), False
            if name == b"IHDR" and length != _HEADER.size:
                raise InvalidFile(f"the PNG header has {length} bytes, expected {_HEADER.size}")
            yield name, block
        if struct.pack(">I", sum_) != read_exactly(source, 4, chunk):
            raise InvalidFile(f"the checksum of {chunk} is wrong")


def _check_header(header: tuple[int, ...]) -> tuple[int, ...]:
    width, height, _, color = header[:4]
    if not (width and height and color in _SAMPLES):
        raise InvalidFile(
            f"the header of the PNG file is not valid, because it gives {width} x {height} pixels "
            f"and the colour type {color}"
        )
    return header


_MAGIC = b"\x93NUMPY"
#: Maximum number of bytes of an array header. NumPy has the same limit.
_MAX_HEADER_BYTES = 10_000
#: Number of bytes of array data to read at a time.
_PART_BYTES = 1 << 20
_TYPE = re.compile(r"([<>=|])([?bBiufcmMSUVO])(\d*)(\[.*\])?")
#: For each type that may contain NaN, by kind and size, the struct format and the number of floats
#: in an element.
_FLOATS = {
    ("f", 2): ("e", 1),
    ("f", 4): ("f", 1),
    ("f", 8): ("d", 1),
    ("c", 8): ("f", 2),
    ("c", 16): ("d", 2),
}


class _Floats(NamedTuple):
    """Floating-point numbers within an element of an array: offset, byte order and count."""

    offset: int
    order: str
    code: str
    numbers: int

    @property
    def size(self) -> int:
        return struct.calcsize(f"{self.order}{self.numbers}{self.code}")


def read_npy(source: IO[bytes]) -> FileReading:
    """Read one NumPy array completely and check that its numbers are finite.

    NumPy is not needed, and nothing is unpickled. Source: numpy.lib.format, "Format Version 1.0" to
    "3.0".
    """
    try:
        return _read_data(source, _read_array_header(source))
    except (InvalidFile, ValueError, SyntaxError, KeyError, TypeError) as error:
        return FileReading("NPY", problem=f"{error}")


#: Errors that reading a damaged archive may raise. The LZMA module does not exist in every Python.
_ARCHIVE_ERRORS: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
)
_ARCHIVE_ERRORS += (ValueError, OSError)
with suppress(ImportError):
    from lzma import LZMAError

    _ARCHIVE_ERRORS += (LZMAError,)


def read_npz(stream: IO[bytes]) -> FileReading:
    """Read and check every array in an NPZ archive, including the checksums."""
    found: list[tuple[str, FileReading]] = []
    try:
        with zipfile.ZipFile(stream) as archive:
            for name in archive.namelist():
                with archive.open(name) as source:
                    found.append((name, read_npy(source)))
                    while source.read(_PART_BYTES):  # the checksum is compared at the end
                        pass
    except _ARCHIVE_ERRORS as error:
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


def _read_array_header(source: IO[bytes]) -> dict[str, Any]:
    if read_exactly(source, len(_MAGIC), "the signature") != _MAGIC:
        raise InvalidFile("the file does not start with the signature of a NumPy array")
    major, _ = read_exactly(source, 2, "the version")
    width = {1: "<H", 2: "<I", 3: "<I"}.get(major)
    if width is None:
        raise InvalidFile(
            f"the NumPy format of the file has version {major}, but wfctl can read only versions "
            "1, 2 and 3"
        )
    (length,) = struct.unpack(width, read_exactly(source, struct.calcsize(width), "the header"))
    if length > _MAX_HEADER_BYTES:
        raise InvalidFile(
            f"the header of the NumPy file has {length} bytes, but at most {_MAX_HEADER_BYTES} "
            "bytes are allowed"
        )
    text = read_exactly(source, length, "the header").decode("utf-8" if major == 3 else "latin-1")
    header: dict[str, Any] = ast.literal_eval(text.strip())
    return header


def _parse_data_type(descr: object) -> tuple[int | None, list[_Floats]]:
    """Return the size in bytes of an array element, and the floating-point numbers in it.

    The size is None for a pickled object.
    """
    if isinstance(descr, str) and (found := _TYPE.fullmatch(descr)) is not None:
        order, kind, digits, _ = found.groups()
        bytes_ = int(digits or 1) * (4 if kind == "U" else 1)
        code = _FLOATS.get((kind, bytes_))
        floats = [_Floats(0, order, *code)] if code is not None else []
        return None if kind == "O" else bytes_, floats
    if not isinstance(descr, list):
        raise InvalidFile(f"the data type {descr!r} is not a NumPy type")
    size, floats = 0, []
    for _, of_part, *shape in descr:
        part, own = _parse_data_type(of_part)
        times = math.prod(shape[0]) if shape else 1
        if part is None:
            return None, []
        if [one.size for one in own] == [part]:  # the numbers are contiguous
            floats.append(own[0]._replace(offset=size, numbers=own[0].numbers * times))
        else:
            starts = range(size, size + times * part, part) if own else ()
            floats += [one._replace(offset=at + one.offset) for at in starts for one in own]
        size += times * part
    return size, floats


def _read_data(source: IO[bytes], header: dict[str, Any]) -> FileReading:
    descr, shape = header["descr"], header["shape"]
    if not (isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)):
        raise InvalidFile(f"its shape is {shape!r}")
    size, floats = _parse_data_type(descr)
    words = f"{descr if isinstance(descr, str) else 'record'} "
    words += " x ".join(map(str, shape)) or "scalar"
    if size is None:
        remark = "contains pickled Python objects, which wfctl does not read"
        return FileReading("NPY", words, remarks=[remark])
    left, not_finite = math.prod(shape) * size, False
    together = max(1, _PART_BYTES // max(1, size)) * size
    while left:
        block = read_exactly(source, min(left, together), "its data")
        left -= len(block)
        not_finite = not_finite or not all(_is_finite(block, size, one) for one in floats)
    if source.read(1):
        raise InvalidFile("the file has extra bytes after its data")
    told = f"NaN or infinity among {words}" if not_finite else None
    return FileReading("NPY", words, not_finite=told, has_numbers=bool(floats))


def _is_finite(block: bytes, size: int, floats: _Floats) -> bool:
    """Return whether numbers of array elements are finite in a whole block of data.

    ``size`` is the number of bytes of an element, and ``floats`` describes the numbers in it. The
    block contains whole elements.
    """
    offset, order, code, count = floats
    if size == floats.size:
        numbers = len(block) // size * count
        return all(map(math.isfinite, struct.unpack(f"{order}{numbers}{code}", block)))
    after = size - offset - floats.size
    each = struct.iter_unpack(f"{order}{offset}x{count}{code}{after}x", block)
    return all(math.isfinite(value) for values in each for value in values)


#: For each file name suffix in lower case, the function that reads such a file.
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
    """Read and check a file according to the suffix of its name.

    Returns None if the suffix is unknown.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        return None
    with path.open("rb") as stream:
        return reader(stream)
