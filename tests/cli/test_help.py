"""Help, completion and the manual page: from one source, and true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.program.commands import COMMANDS, HIDDEN
from cli.program.completion import candidates
from cli.program.helping import TOPICS, _commands
from cli.program.tree import build, top
from cli.settings import Settings
from lifecycle.plan.fields import READ, WORDS_OF_STAGE, WORDS_OF_WORKFLOW
from tests.cli.manual_page import ON_FILE, page
from tests.cli.support import HERE, Place, call
from tests.cli.terminal import at_a_terminal
from tests.need import need_programs


def program() -> Any:
    """Return the tree of commands."""
    return build().__self__  # type: ignore[attr-defined]


NAMES = [name for name, _ in _commands(program())]


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command_has_all_of_it(name: str) -> None:
    """The options of every command, an example that is one, no type of the program's own."""
    told = call(*name.split(), "--help")
    assert told.code == 0
    assert "--root DIR" in told.out
    assert "-o text|json|jsonl" in told.out
    assert "Example:" in told.out
    assert not re.search(r"<(bool|int|float|str|path|list)", told.out)
    assert "Value error" not in told.out


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_a_command_that_nobody_is_told_of_has_no_example(name: str) -> None:
    """Nor a heading over none."""
    told = call(*name.split(), "--help")
    assert told.code == 0
    assert "Example" not in told.out


def test_every_example_is_of_a_command_and_names_it() -> None:
    """None is left over of what was, and each begins with what it is an example of."""
    assert set(COMMANDS) - HIDDEN == set(NAMES)
    for name, (_, line) in COMMANDS.items():
        if name in HIDDEN:
            continue
        words = shlex.split(line.replace("$(", "").replace(")", ""), comments=True)
        assert words[: 1 + len(name.split())] == ["wfctl", *name.split()], line


def test_every_option_of_an_example_is_one() -> None:
    """What the help says may be pasted."""
    commands = dict(_commands(program()))
    for name, (_, line) in COMMANDS.items():
        if name in HIDDEN:
            continue
        known = {opt for p in commands[name].params for opt in (*p.opts, *p.secondary_opts)}
        own = line.partition("&&")[0]
        given = re.findall(r"(?<=\s)(--[a-z-]+|-[a-z])(?=\s|$)", own)
        everywhere = {"-o", "--root", "--actor", "--help"}
        assert set(given) <= known | everywhere, (name, given)


@pytest.mark.parametrize("line", [["export", "foo"], ["status", "--color", "puce"],
                                  ["run", "--max-parallel", "0"], ["log", "-n", "x"]])  # fmt: skip
def test_a_wrong_value_is_told_in_words_of_our_own(line: list[str]) -> None:
    """And the help that is named is that of the command."""
    told = call(*line)
    assert told.code == 2
    assert "Value error" not in told.err
    assert "Input should" not in told.err
    assert "--help` lists what there is" in told.err


@pytest.mark.parametrize("topic", [*TOPICS, "stage fail", "status", "machine init"])
def test_help_knows_topics_and_commands(topic: str) -> None:
    """By their words."""
    told = call("help", *topic.split())
    assert told.code == 0
    assert len(told.out) > 100
    assert call("help", "nonsense").code == 3


@pytest.mark.parametrize("name", sorted({*READ, *WORDS_OF_STAGE, *WORDS_OF_WORKFLOW}))
def test_help_knows_every_field_of_a_plan(name: str) -> None:
    """A parameter too that wfctl reads; a command of that name is helped on beside it."""
    told = call("help", name)
    assert told.code == 0
    place = f"parameters.{name}: " if name in READ else f"{name}, of a "
    assert told.out.startswith(place)
    assert ("Usage:" in told.out) is (name in top())
    assert call("help", f"parameters.{name}").code == (0 if name in READ else 3)


def test_the_manual_page_on_file_is_what_the_program_prints() -> None:
    """`python -m tests.cli.manual_page` writes it."""
    assert ON_FILE.read_text("utf-8") == page()
    assert "docs/wfctl.1" in (HERE / "pyproject.toml").read_text("utf-8")


LINES = {
    "sta": ["status", "stage"],
    "stage f": ["fail"],
    "show s": ["stage-1", "stage-2"],
    "export re": ["report"],
    "-o j": ["json", "jsonl"],
    "-o json sho": ["show"],
    "amend approve a": ["amend-1"],
    "log --stage stage-2": ["stage-2"],
    "completion b": ["bash"],
    "help exit": ["exit-codes"],
    "stage fail --st": ["--stop"],
    "nonsense x": [],
}


@pytest.fixture
def proposed(place: Place) -> Place:
    """A workflow with a proposal."""
    place.done("amend", "propose", "--stage", "stage-2", "--set", "parameters.x=1", "--reason", "y")
    return place


@pytest.mark.parametrize("line", LINES)
def test_what_may_stand_there_is_offered(proposed: Place, line: str) -> None:
    """Commands, stages, formats, amendments, options, by what the line asks for."""
    found = candidates(program(), Settings(root=proposed.path), line.split())
    assert found == LINES[line]


@pytest.fixture
def environ(proposed: Place) -> dict[str, str]:
    """An environment in which a shell finds wfctl, and the folder that is the workflow's."""
    shim = proposed.path / "bin"
    shim.mkdir()
    tool = shim / "wfctl"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m cli.main "$@"\n')
    tool.chmod(0o755)
    found = {**os.environ, "PYTHONPATH": str(HERE), "TERM": "xterm"}
    return {**found, "PATH": f"{shim}:{os.environ['PATH']}"}


def _asked(place: Place, environ: dict[str, str], *words: str) -> list[str]:
    """Call a shell and return what it printed, word by word."""
    done = subprocess.run(
        words, cwd=place.path, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.slow
def test_a_real_bash_completes_stages(proposed: Place, environ: dict[str, str]) -> None:
    """By the script as it is printed."""
    asked = (
        call("completion", "bash").out + "\nCOMP_WORDS=(wfctl show stage-); COMP_CWORD=2; _wfctl"
    )
    asked += '; printf "%s\\n" "${COMPREPLY[@]}"'
    assert _asked(proposed, environ, "bash", "-c", asked) == ["stage-1", "stage-2"]


@pytest.mark.slow
def test_a_real_fish_completes_stages_or_else_files(
    proposed: Place, environ: dict[str, str]
) -> None:
    """Files are offered only if nothing of the workflow may stand."""
    need_programs("fish")
    (proposed.path / "study.toml").touch()
    script = call("completion", "fish").out
    for line, expected in {
        "wfctl show ": ["stage-1", "stage-2"],
        "wfctl init stu": ["study.toml"],
    }.items():
        asked = f"{script}\ncomplete -C {shlex.quote(line)}"
        assert _asked(proposed, environ, "fish", "--no-config", "-c", asked) == expected


@pytest.mark.slow
def test_a_real_zsh_completes_what_is_typed(proposed: Place, environ: dict[str, str]) -> None:
    """At a terminal, with the key that completes."""
    need_programs("zsh")
    (proposed.path / "_wfctl").write_text(call("completion", "zsh").out)
    begin = "PS1=; autoload -U compinit; compinit -D -u; source ./_wfctl; print rea''dy"
    with at_a_terminal("zsh", "-f", "-i", cwd=proposed.path, environ=environ) as keys:
        keys.type(f"{begin}\n", until="ready")
        keys.type("wfctl show sta\t\t", until="stage-2")
        keys.type("\x15wfctl compl\t", until="completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    """Each asks the program."""
    told = call("completion", shell)
    assert told.code == 0
    assert "wfctl __complete -- " in told.out


def test_a_place_without_a_workflow_offers_no_stage(tmp_path: Path) -> None:
    """And says nothing of it in the middle of a line."""
    assert candidates(program(), Settings(root=tmp_path), ["show", ""]) == []
