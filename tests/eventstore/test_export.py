"""The script of the documentation verifies an exported log without wfctl."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eventstore.store import EventStore, Expected
from eventstore.transfer.archive import export_line
from tests.eventstore.support import claim, note

PAGE = Path(__file__).parents[2] / "docs" / "trust" / "verify-without-wfctl.md"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the script of the documentation page to a file."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    path = tmp_path_factory.mktemp("page") / "verify.py"
    path.write_text(found[1])
    return path


def lines_of(store: EventStore) -> list[str]:
    """Return the export of two streams, with text that imitates the end of a line."""
    for text in ("é", '","hash":"' + "0" * 64 + '","position":1}', "last"):
        for stream in ("a", "b"):
            store.append(stream, [note(text)], expected=Expected.ANY, claim=claim())
    return [export_line(raw) for stream in ("a", "b") for raw in store.raw(stream)]


def checked(script: Path, lines: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the script of the documentation without access to this project."""
    command = [sys.executable, "-I", str(script)]
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(
        command, input=text, text=True, capture_output=True, check=False, encoding="utf-8"
    )


def test_script_is_short(script: Path) -> None:
    """The script has few lines, so that a reader can check it before trusting it."""
    assert len(script.read_text().splitlines()) <= 30


def test_valid_export_passes_the_script(store: EventStore, script: Path) -> None:
    """The script accepts the export and prints the last hash of each stream."""
    done = checked(script, lines_of(store))
    assert done.returncode == 0, done.stderr
    heads = [line.split() for line in done.stdout.splitlines()]
    for stream, version, hash_ in heads:
        head = store.head(stream)
        assert head is not None
        assert (int(version), hash_) == (head.version, head.hash)
    assert [stream for stream, _, _ in heads] == ["a", "b"]


def without(index: int) -> Callable[[list[str]], list[str]]:
    """Return a function that removes one line."""
    return lambda lines: lines[:index] + lines[index + 1 :]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [lines[0].replace('"ada"', '"eve"'), *lines[1:]], "a version 1 was changed"),
        (without(0), "a version 1 is missing"),
        (without(1), "a version 2 is missing"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "a version 1 is missing"),
        (lambda lines: [*lines[:4], "{}"], "no hash and position"),
    ],
    ids=["changed", "first dropped", "dropped", "swapped", "not a line"],
)
def test_changed_export_fails_the_script(
    store: EventStore, script: Path, change: Callable[[list[str]], list[str]], said: str
) -> None:
    """The script rejects a changed export, and its message names the stream and version."""
    done = checked(script, change(lines_of(store)))
    assert done.returncode == 1
    assert said in done.stderr


def test_line_of_another_history_fails_the_script(store: EventStore, script: Path) -> None:
    """The script rejects a valid line that does not continue the previous event."""
    first, second, *_ = lines_of(store)
    store.append("c", [note("other")], expected=0, claim=claim())
    store.append("c", [note("other")], expected=1, claim=claim())
    other = [export_line(raw) for raw in store.raw("c")]
    done = checked(script, [first, second, other[0], other[1]])
    assert done.returncode == 0
    renamed = other[1].replace('"stream":"c"', '"stream":"a"')
    assert "was changed" in checked(script, [first, renamed]).stderr
