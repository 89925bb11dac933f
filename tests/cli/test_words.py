"""Unknown words that users try: the error suggests the right command."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from cli.main import run
from cli.program.command_help import _iterate_commands
from cli.program.similar_commands import FORMATS, MEANT
from cli.program.tree import build_program
from extensions.exports.formats import ExportFormat
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
        ("watch", ["wfctl status --follow"]),
        ("watch --machine m", ["wfctl status --follow --machine m"]),
        ("snapshot", ["wfctl export state", "wfctl export archive FILE"]),
        # Words at the wrong level of the command tree.
        ("propose --stage stage-1", ["wfctl amend propose --stage stage-1"]),
        ("stage rerun stage-1", ["wfctl rerun stage-1"]),
        ("stage stop stage-1", ["wfctl stage cancel stage-1"]),
        ("runner cancel", STOP[1:]),
        ("machine claim m T1", ["wfctl machine task claim m T1"]),
        ("skip stage-1", ["wfctl amend propose --type stage_skip --stage stage-1 --reason TEXT"]),
        # Commands with a typing error.
        ("statsu", ["wfctl status"]),
        ("stage retyr stage-1", ["wfctl stage retry stage-1 --fix TEXT"]),
        # A command group with a typing error.
        ("amnd", ["wfctl amend"]),
        ("stagee retry stage-1", ["wfctl stage retry stage-1 --fix TEXT"]),
        ("xyzzy", []),
    ],
)
def test_unknown_word_suggests_the_right_command(line: str, meant: list[str]) -> None:
    """The suggestion keeps the arguments and names missing ones. wfctl executes nothing."""
    told = call(*shlex.split(line))
    assert (told.code, told.out) == (2, "")
    said = told.err.partition(" --help` lists")[0].rpartition("`")[0]
    assert re.findall(r"`(wfctl [^`]*)`", said) == meant
    assert call("-o", "json", *shlex.split(line)).error["code"] == "usage"


def test_every_misspelled_command_is_a_usage_error() -> None:
    """Each command, group or subcommand without its last letter exits with code 2."""
    program: Any = build_program()
    known = {name for name, _ in _iterate_commands(program)}
    words = {word for name in known for word in name.split()}
    for slip in sorted({word[:-1] for word in words} - words - {""}):
        assert call(slip).code == 2, slip


def test_every_suggested_command_exists() -> None:
    """The table suggests only existing commands for words that are no commands."""
    program: Any = build_program()
    known = {name for name, _ in _iterate_commands(program)}
    assert not known & {*MEANT}
    for meant in MEANT.values():
        for line in meant:
            words = line.partition(":")[0].split()
            assert {" ".join(words[:2]), words[0]} & known, line


def test_valid_command_does_not_load_the_table_of_words(capsys: pytest.CaptureFixture[str]) -> None:
    """wfctl loads the table of suggestions only after a mistyped command."""
    import sys

    sys.modules.pop("cli.program.similar_commands", None)
    assert run(["help"]) == 0
    assert "cli.program.similar_commands" not in sys.modules
    capsys.readouterr()


@pytest.mark.parametrize(("word", "format_"), FORMATS.items())
def test_export_word_suggests_the_format(word: str, format_: str) -> None:
    """For a word that names a format, the error suggests the complete `export` command."""
    told = call("export", word)
    assert (told.code, told.out) == (2, "")
    assert f"Use `wfctl export {format_}`." in told.err
    assert format_ in {*ExportFormat}


def test_invalid_arguments_are_answered_with_an_example() -> None:
    """The error shows a valid example for an unknown option, argument or value."""
    assert "An example is `wfctl replay --check`." in call("replay", "2").err
    assert "An example is `wfctl show fit`." in call("show").err
    assert "An example" not in call("replayed").err
