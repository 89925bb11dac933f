"""PNG pictures: every chunk with its checksum, and as many pixels as the header promises.

Source: Portable Network Graphics (PNG) Specification, W3C Recommendation.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from reconciler.verification.outputs.reading import ByteSource, Cut, FileReading, exactly

_KIND = "PNG"
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


def read(source: ByteSource) -> FileReading:
    """Read a picture to its end chunk."""
    picture = _Picture()
    try:
        if exactly(source, len(_SIGNATURE), "the signature") != _SIGNATURE:
            raise Cut("it does not begin as a PNG does")
        while _chunk(source, picture) != b"IEND":
            pass
        _is_whole(picture)
    except (Cut, zlib.error) as error:
        return FileReading(_KIND, problem=str(error))
    width, height = picture.header[:2]
    return FileReading(_KIND, f"{width} x {height} pixels")


def _chunk(source: ByteSource, picture: _Picture) -> bytes:
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


def _is_whole(picture: _Picture) -> None:
    expected = picture.expected
    if expected is not None and picture.size != expected:
        raise Cut(f"its pixels are {picture.size} bytes, expected {expected}")
