"""The example outputs in the help match the actual outputs of the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cli.program.examples import read_examples
from tests.cli.help_examples import BEFORE, UNENDING, WORLDS, Worlds, run_example, worlds
from tests.need import need_programs
from wfctl_eventstore.extension import find_extensions_of_command, is_installed

EXAMPLES = read_examples()
#: Examples that run quickly, because their workflow is created without a job.
QUICK = ("plan check", "amend propose", "machine task")
#: Programs that the examples need.
_PROGRAMS = ("bash", "tmux", "ssh-keygen")


@pytest.fixture(scope="module")
def place() -> Iterator[Worlds]:
    """Yield the small workflows in which the examples run."""
    need_programs(*_PROGRAMS)
    with worlds() as found:
        yield found


def without_columns(text: str) -> list[str]:
    """Return the lines with single spaces, because the width of a column varies."""
    return [re.sub(r"\s+", " ", line) for line in text.splitlines()]


def check(place: Worlds, name: str) -> None:
    """Run an example, and check that its output equals the output in the help."""
    assert without_columns(run_example(place, name, EXAMPLES[name])) == without_columns(
        EXAMPLES[name]
    )


@pytest.mark.parametrize("name", QUICK)
def test_quick_example_prints_what_the_help_shows(place: Worlds, name: str) -> None:
    """The example prints its output in the help, which `tests.cli.help_examples` writes."""
    check(place, name)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in QUICK])
def test_example_prints_what_the_help_shows(place: Worlds, name: str) -> None:
    """The example prints its output in the help, which `tests.cli.help_examples` writes."""
    check(place, name)


def has_extension(name: str) -> bool:
    """Return whether the extensions that a command needs are installed."""
    return all(map(is_installed, find_extensions_of_command(name.split(maxsplit=1)[0])))


def test_setups_belong_to_examples() -> None:
    """The tables of preparing commands name only examples, or commands of deleted extensions."""
    assert set(filter(has_extension, (*BEFORE, *UNENDING))) <= set(EXAMPLES)
    assert {world for world, _ in BEFORE.values()} <= set(WORLDS)
