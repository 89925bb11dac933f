"""Words that people try: a word that is no command names the command that does it."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from cli.main import run
from cli.program.helping import _commands
from cli.program.meant import MEANT
from cli.program.tree import build
from tests.cli.support import call

STOP = ["wfctl stage cancel STAGE", "wfctl runner pause", "wfctl runner stop"]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("resume", ["wfctl run", "wfctl rehydrate"]),
        ("resume nonsense", ["wfctl run", "wfctl rehydrate"]),
        ("retry stage-2", ["wfctl stage retry stage-2 --fix TEXT"]),
        ("retry stage-2 --fix 'more memory'", ["wfctl stage retry stage-2 --fix 'more memory'"]),
        ("retry stage-2 --help", ["wfctl stage retry stage-2 --fix TEXT"]),
        ("cancel", STOP),
        ("stop", STOP),
        ("approve amend-1", ["wfctl amend approve amend-1"]),
        ("graph", ["wfctl export mermaid"]),
        ("history", ["wfctl log"]),
        # One level down, and back.
        ("propose --stage stage-1", ["wfctl amend propose --stage stage-1"]),
        ("stage rerun stage-1", ["wfctl rerun stage-1"]),
        ("stage stop stage-1", ["wfctl stage cancel stage-1"]),
        ("runner cancel", STOP[1:]),
        ("machine claim m T1", ["wfctl machine task claim m T1"]),
        ("skip stage-1", ["wfctl amend propose --type stage_skip --stage stage-1 --reason TEXT"]),
        # Slips of a pen.
        ("statsu", ["wfctl status"]),
        ("stage retyr stage-1", ["wfctl stage retry stage-1 --fix TEXT"]),
        # A group of commands.
        ("amnd", ["wfctl amend"]),
        ("stagee retry stage-1", ["wfctl stage retry stage-1 --fix TEXT"]),
        ("xyzzy", []),
    ],
)
def test_a_word_names_the_command_that_does_it(line: str, meant: list[str]) -> None:
    """The arguments are carried over, what is missing is named, and nothing is carried out."""
    told = call(*shlex.split(line))
    assert (told.code, told.out) == (2, "")
    said = told.err.partition(" --help` lists")[0].rpartition("`")[0]
    assert re.findall(r"`(wfctl [^`]*)`", said) == meant
    assert call("-o", "json", *shlex.split(line)).error["code"] == "usage"


def test_any_slip_of_a_name_is_a_fault_of_the_call() -> None:
    """Each name without a letter of its own: a command, a group, one level down."""
    program: Any = build().__self__  # type: ignore[attr-defined]
    known = {name for name, _ in _commands(program)}
    words = {word for name in known for word in name.split()}
    for slip in sorted({word[:-1] for word in words} - words - {""}):
        assert call(slip).code == 2, slip


def test_every_word_means_commands_that_there_are() -> None:
    """And is no command itself."""
    program: Any = build().__self__  # type: ignore[attr-defined]
    known = {name for name, _ in _commands(program)}
    assert not known & {*MEANT}
    for meant in MEANT.values():
        for line in meant:
            words = line.partition(":")[0].split()
            assert {" ".join(words[:2]), words[0]} & known, line


def test_a_good_call_loads_nothing_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Words are of use to those alone who slip."""
    import sys

    sys.modules.pop("cli.program.meant", None)
    assert run(["help"]) == 0
    assert "cli.program.meant" not in sys.modules
    capsys.readouterr()
