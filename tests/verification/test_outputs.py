"""wfctl reads output files by their type, and detects truncated files and NaN."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.verification import file_types
from reconciler.verification.file_types import READERS, read_output
from tests.verification.support import ARRAYS, chunk, picture, read

WHOLE: dict[str, bytes | str] = {
    "a.json": '{"rg": 4.8, "steps": [1, 2, 1e-300]}',
    "a.jsonl": '{"rg": 4.8}\n{"rg": 4.9}\n',
    "a.csv": "step,rg,comment\n1,4.8,\n2,4.9,nan is a word here\n",
    "quoted.csv": '"step, with comma","two\nlines"\n1,"x ""y"""\n',
    "comments.csv": "# made by a script\nstep,rg\n1,2\n",
    "semicolons.csv": "step;rg\n1;2\n",
    "names.csv": "name,rg\nnan,1\nargon,2\ninf,3\nneon,4\n",
    "a.tsv": "step\trg\n1\t4.8\n",
    "a.png": picture(),
    "a.dat": "# step rg\n1 4.8\n2 4.9\n",
    "a.txt": "a text of two lines\nwhich may speak of a nan or two\n",
    "one.txt": "4.8",
    "latin.txt": "5 \xe5\n6\n".encode("latin-1"),
    "binary.dat": b"\0\1\2nan",
    "a.xyz": "2\n\nAr 0 0 0\nAr 0 0 1.5\n",
}
BROKEN: dict[str, tuple[bytes | str, str]] = {
    "a.json": ('{"rg": 4.8, "steps": [1, 2', "premature EOF"),
    "nan.json": ('{"rg": NaN}', "JSON does not allow NaN"),
    "words.json": ("rg = 4.8", "invalid"),
    "two.json": ("{} {}", "trailing garbage"),
    "a.jsonl": ('{"rg": 4.8}\n{"rg"', "premature EOF"),
    "short.csv": ("step,rg\n1,4.8\n2\n", "line 3 has 1 cells, but the lines before have 2"),
    "cut.csv": ("step,rg\n1,4.8\n2,4.", "the last line is cut off: '2,4.'"),
    "quote.csv": ('step,rg\n1,"4.8\n', "unexpected end of data"),
    "a.png": (picture()[:-4], "the file ends within"),
    "sum.png": (picture().replace(b"IDAT", b"IDAX"), "checksum"),
    "few.png": (picture(pixels=b"\0\0"), "the pixel data has 2 bytes, expected 15"),
    "not.png": ("<html>not found</html>", "does not start with the signature of a PNG"),
    "none.png": (picture(width=0), "0 x 3 pixels"),
    "half.png": (
        picture().replace(b"\0\0\0\rIHDR", b"\0\0\1\0IHDR"),
        "the file ends within chunk 'IHDR'",
    ),
    "bare.png": (picture()[:8] + chunk(b"IHDR", b"") + picture()[8:][25:], "its first chunk is"),
    "long.png": (picture()[:8] + chunk(b"IHDR", b"\1" * 14), "the PNG header has 14 bytes"),
    "not.npy": ("[1, 2, 3]", "does not start with the signature of a NumPy array"),
    "not.npz": ("PK but no archive", "not a zip file"),
    "cut.txt": ("line one\nline tw", "the last line is cut off: 'line tw'"),
    "cut.dat": ("1 4.8\n2 4.9\n3", "the last line is cut off: '3'"),
}
NOT_FINITE = {
    "a.csv": ("step,rg\n1,4.8\n2,nan\n", "nan in column 2, line 3"),
    "all.csv": ("rg\nNaN\nNaN\n", "NaN in column 1, line 2"),
    "inf.tsv": ("a\tb\n1\t-Infinity\n", "-Infinity in column 2"),
    "huge.json": ('{"rg": 1e999}', "too large for a double-precision number"),
    "a.dat": ("# step rg\n1 4.8\n2 inf\n", "line 3: 2 inf"),
    "a.xyz": ("1\n\nAr 0 nan 0\n", "line 3: Ar 0 nan 0"),
    "fortran.out": ("1.0D+00 2.0D+00\n3.0D+00 NaN\n", "line 2"),
    "one.txt": ("nan", "line 1: nan"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_complete_file_is_read_without_problems(tmp_path: Path, name: str) -> None:
    """For a valid file of each type, the reader reports no problem or NaN."""
    found = read(tmp_path, name, WHOLE[name])
    assert (found.problem, found.not_finite) == (None, None)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file_is_detected(tmp_path: Path, name: str) -> None:
    """The reader reports the expected problem for a broken file of each type."""
    content, problem = BROKEN[name]
    assert problem in (read(tmp_path, name, content).problem or "")


@pytest.mark.parametrize("name", NOT_FINITE)
def test_nan_and_infinity_are_located(tmp_path: Path, name: str) -> None:
    """The reader reports the position of the first NaN or infinite number."""
    content, place = NOT_FINITE[name]
    found = read(tmp_path, name, content)
    assert place in (found.not_finite or "")
    assert found.problem is None


@pytest.mark.parametrize("path", sorted(ARRAYS.iterdir()), ids=lambda path: path.name)
def test_arrays_are_read_without_numpy(path: Path) -> None:
    """The reader finds NaN and infinity for each byte order, number type and compression."""
    found = read_output(path)
    assert found is not None
    assert found.problem is None
    assert (found.not_finite is not None) == path.stem.startswith(("nan", "infinite"))


def test_array_of_objects_is_not_unpickled() -> None:
    """The reader notes that the array has pickled objects, and does not load them."""
    found = read_output(ARRAYS / "objects.npy")
    assert found is not None
    assert found.remarks == ["contains pickled Python objects, which wfctl does not read"]


@pytest.mark.parametrize(
    "path", [p for p in sorted(ARRAYS.iterdir()) if p.stem != "objects"], ids=lambda p: p.name
)
def test_truncated_array_is_detected(path: Path) -> None:
    """The reader reports a problem wherever the file of the array is cut off."""
    whole = path.read_bytes()
    reader = file_types.read_npz if path.suffix == ".npz" else file_types.read_npy
    for size in range(0, len(whole), 7):
        assert reader(io.BytesIO(whole[:size])).problem is not None


@given(cut=st.integers(0, len(picture()) - 1))
def test_truncated_image_is_detected(cut: int) -> None:
    """The reader reports a problem at whatever byte the image is cut off."""
    assert file_types.read_png(io.BytesIO(picture()[:cut])).problem is not None


@given(place=st.integers(0, len(picture()) - 1), bit=st.integers(0, 7))
def test_image_with_a_flipped_bit_is_detected(place: int, bit: int) -> None:
    """The reader compares the checksum of each chunk of a PNG file."""
    changed = bytearray(picture())
    changed[place] ^= 1 << bit
    assert file_types.read_png(io.BytesIO(bytes(changed))).problem is not None


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(value=st.recursive(st.none() | st.booleans() | NUMBERS | st.text(), st.lists))
def test_json_written_by_python_is_read(value: object) -> None:
    """The reader accepts complete JSON, and reports JSON without its last byte."""
    whole = json.dumps([value]).encode()
    assert file_types.read_json(io.BytesIO(whole)).problem is None
    assert file_types.read_json(io.BytesIO(whole[:-1])).problem is not None


@given(content=st.binary(max_size=300), name=st.sampled_from([*WHOLE, "a.npy", "a.npz"]))
def test_readers_accept_arbitrary_bytes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    """For any bytes, a reader returns the content or a problem, and never raises an error."""
    read(tmp_path_factory.mktemp("any"), name, content)


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archive_reader_survives_any_changed_byte(packed: int) -> None:
    """The reader raises no error, whichever byte of a zip archive is changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packed) as archive:
        archive.write(ARRAYS / "doubles.npy", "doubles.npy")
    for place in range(len(made.getvalue())):
        changed = bytearray(made.getvalue())
        changed[place] ^= 0xB6
        file_types.read_npz(io.BytesIO(bytes(changed)))


def test_file_of_unknown_type_is_not_read(tmp_path: Path) -> None:
    """wfctl reads no file whose extension it does not know."""
    (tmp_path / "a.restart").write_bytes(b"\0")
    assert read_output(tmp_path / "a.restart") is None


class Metered(io.BytesIO):
    """A byte stream that records the requested size of each read; -1 means all bytes."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.asked: set[int | None] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        """Read, and record the requested size."""
        self.asked.add(size)
        return super().read(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read a line, and record the requested size."""
        self.asked.add(size)
        return super().readline(size)


@pytest.mark.parametrize("name", [*WHOLE, "doubles.npy"])
def test_large_files_are_read_in_blocks_or_lines(name: str) -> None:
    """No read requests more than MAX_LINE_BYTES, so a large file does not fill the memory."""
    content = WHOLE.get(name) or (ARRAYS / name).read_bytes()
    stream = Metered(content.encode() if isinstance(content, str) else content)
    READERS[Path(name).suffix](stream)
    assert all(size is not None and 0 <= size <= file_types.MAX_LINE_BYTES for size in stream.asked)


def test_too_long_line_stops_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader stops with a remark, because an endless line would fill the memory."""
    monkeypatch.setattr(file_types, "MAX_LINE_BYTES", 100)
    endless = b"1 " * 200
    assert "longer than 100 bytes" in file_types.read_text(io.BytesIO(endless)).remarks[0]
    assert "longer than 100 bytes" in (
        file_types.read_table(io.BytesIO(endless), "CSV").problem or ""
    )
