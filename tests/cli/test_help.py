"""Help, completion and manual page come from one source and match the program."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.program.command_help import TOPICS, _iterate_commands
from cli.program.commands import (
    HIDDEN,
    find_top_words,
    load_commands,
    load_groups,
    load_help_lines,
    load_sections,
)
from cli.program.completion import list_candidates
from cli.program.examples import find_command_line, find_command_lines, read_examples
from cli.program.tree import build_program
from cli.settings import Settings
from lifecycle.plan.fields import WORDS_OF_STAGE, WORDS_OF_WORKFLOW
from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL
from tests.cli.help_examples import MAXIMUM_LINES, SILENT
from tests.cli.support import HERE, Place, call
from tests.cli.terminal import at_a_terminal
from tests.need import need_programs


def program() -> Any:
    """Return the tree of commands."""
    return build_program()


#: Maximum length of a command line in an example.
MAXIMUM_COMMAND = 100
NAMES = [name for name, _ in _iterate_commands(program())]


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_is_complete(name: str) -> None:
    """The help has the global options and an example, and shows no internal type name."""
    told = call(*name.split(), "--help")
    assert told.code == 0
    assert "--root DIR" in told.out
    assert "-o text|json|jsonl" in told.out
    assert "Example:" in told.out
    assert not re.search(r"<(bool|int|float|str|path|list)", told.out)
    assert "Value error" not in told.out


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_hidden_command_has_no_example(name: str) -> None:
    """The help of a hidden command has no empty heading either."""
    told = call(*name.split(), "--help")
    assert told.code == 0
    assert "Example" not in told.out


def test_every_command_has_an_example_that_calls_it() -> None:
    """Each command has one example, and each example belongs to a command."""
    examples = read_examples()
    assert list(examples) == [name for name in load_commands() if name not in HIDDEN]
    assert set(examples) == set(NAMES)
    for name in examples:
        words = shlex.split(find_command_line(name))
        assert words[: 1 + len(name.split())] == ["wfctl", *name.split()], name


def test_every_option_in_an_example_exists() -> None:
    """Each example uses only existing options, so that a reader can paste the line."""
    commands = dict(_iterate_commands(program()))
    for name, example in read_examples().items():
        known = {opt for p in commands[name].params for opt in (*p.opts, *p.secondary_opts)}
        for line in find_command_lines(example):
            own = line.partition(" | ")[0]
            given = re.findall(r"(?<=\s)(--[a-z-]+|-[a-z])(?=\s|$)", own)
            everywhere = {"-o", "--root", "--actor", "--help"}
            assert set(given) <= known | everywhere, (name, given)


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_ends_with_its_example_and_the_output(name: str) -> None:
    """The help ends with the example's output, unless the command takes over the terminal."""
    printed = call(*name.split(), "--help").out
    lines = printed.partition("Example:\n")[2].rstrip("\n").splitlines()
    assert lines == [f"  {line}".rstrip() for line in read_examples()[name].splitlines()]
    outputs = [line for line in lines if not line.startswith("  $ ")]
    assert bool(outputs) is (name not in SILENT)
    assert len(lines) <= 1 + MAXIMUM_LINES
    assert max(map(len, lines)) <= 2 + MAXIMUM_COMMAND


def test_wfctl_alone_lists_the_commands_by_task() -> None:
    """`wfctl` without arguments prints every heading of the command list and no options."""
    answer = call()
    assert answer.code == 0
    assert all(f"{title}:" in answer.out for title in load_sections())
    assert "--root-is" not in answer.out
    assert set(call("-o", "json").data["commands"]) == set(load_help_lines())


@pytest.mark.parametrize("name", [name for name, usual in load_groups().items() if usual is None])
def test_group_alone_lists_its_commands(name: str) -> None:
    """A command group without a subcommand lists its commands and exits with code 0."""
    answer = call(name)
    assert answer.code == 0
    inner = [one.removeprefix(f"{name} ") for one in NAMES if one.startswith(f"{name} ")]
    assert list(call(name, "-o", "json").data["commands"]) == inner
    assert all(f"  {one} " in answer.out for one in inner)


@pytest.mark.parametrize("name", [name for name, usual in load_groups().items() if usual])
def test_group_alone_runs_its_usual_command(place: Place, name: str) -> None:
    """A group with a default command gives the same answer as that command."""
    answer = place.json(name)
    assert answer.code == 0
    assert answer.data == place.json(name, str(load_groups()[name])).data
    assert "\n  serve" not in call(name, "--help").out or name == "witness"


@pytest.mark.parametrize("line", [["export", "foo"], ["status", "--color", "puce"],
                                  ["run", "--max-parallel", "0"], ["log", "-n", "x"]])  # fmt: skip
def test_invalid_value_is_reported_without_internal_terms(line: list[str]) -> None:
    """The error message refers to the help of the command."""
    told = call(*line)
    assert told.code == 2
    assert "Value error" not in told.err
    assert "Input should" not in told.err
    assert "--help` explains the arguments" in told.err


@pytest.mark.parametrize("topic", [*TOPICS, "stage fail", "status", "machine init"])
def test_help_accepts_topics_and_commands(topic: str) -> None:
    """`wfctl help` accepts a topic or a command of several words without quotes."""
    told = call("help", *topic.split())
    assert told.code == 0
    assert len(told.out) > 100
    assert call("help", "nonsense").code == 3


@pytest.mark.parametrize(
    "name", sorted({*PARAMETERS_OF_WFCTL, *WORDS_OF_STAGE, *WORDS_OF_WORKFLOW})
)
def test_help_explains_every_field_of_a_plan(name: str) -> None:
    """`wfctl help FIELD` explains each field and parameter of a plan."""
    told = call("help", name)
    assert told.code == 0
    place = f"parameters.{name}: " if name in PARAMETERS_OF_WFCTL else f"{name} (of a "
    assert told.out.startswith(place)
    assert ("Usage:" in told.out) is (name in find_top_words())
    assert call("help", f"parameters.{name}").code == (0 if name in PARAMETERS_OF_WFCTL else 3)


def test_manual_page_has_every_command_with_its_example() -> None:
    """The manual page, which `make package` adds to the wheel, lists every command."""
    answer = call("help", "--man")
    assert answer.code == 0
    assert answer.out.startswith(".TH WFCTL 1 ")
    sections = answer.out.split("\n.SS wfctl ")[1:]
    assert len(sections) == len(NAMES)
    for name, section in zip(NAMES, sections, strict=True):
        assert section.replace("\\-", "-").startswith(f"{name} ") or section.startswith(f"{name}\n")
        assert "\nExample:\n" in section


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
    """Return a workflow with a proposed amendment."""
    place.done("amend", "propose", "--stage", "stage-2", "--set", "parameters.x=1", "--reason", "y")
    return place


@pytest.mark.parametrize("line", LINES)
def test_completion_offers_valid_words(proposed: Place, line: str) -> None:
    """Completion offers the kind of word (such as a stage) that fits the line."""
    found = list_candidates(program(), Settings(root=proposed.path), line.split())
    assert found == LINES[line]


@pytest.fixture
def environ(proposed: Place) -> dict[str, str]:
    """Return an environment in which a shell in the workflow's folder finds wfctl."""
    shim = proposed.path / "bin"
    shim.mkdir()
    tool = shim / "wfctl"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m cli.main "$@"\n')
    tool.chmod(0o755)
    found = {**os.environ, "PYTHONPATH": str(HERE), "TERM": "xterm"}
    return {**found, "PATH": f"{shim}:{os.environ['PATH']}"}


def _asked(place: Place, environ: dict[str, str], *words: str) -> list[str]:
    """Run a shell that completes a line, and return the offered words."""
    done = subprocess.run(
        words, cwd=place.path, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.slow
def test_bash_completes_stages(proposed: Place, environ: dict[str, str]) -> None:
    """The test runs the script that `wfctl completion bash` prints."""
    asked = (
        call("completion", "bash").out + "\nCOMP_WORDS=(wfctl show stage-); COMP_CWORD=2; _wfctl"
    )
    asked += '; printf "%s\\n" "${COMPREPLY[@]}"'
    assert _asked(proposed, environ, "bash", "-c", asked) == ["stage-1", "stage-2"]


@pytest.mark.slow
def test_fish_completes_stages_or_files(proposed: Place, environ: dict[str, str]) -> None:
    """Fish offers files only where no name of the workflow is valid."""
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
def test_zsh_completes_a_typed_line(proposed: Place, environ: dict[str, str]) -> None:
    """The test presses the Tab key at a terminal."""
    need_programs("zsh")
    (proposed.path / "_wfctl").write_text(call("completion", "zsh").out)
    begin = "PS1=; autoload -U compinit; compinit -D -u; source ./_wfctl; print rea''dy"
    with at_a_terminal("zsh", "-f", "-i", cwd=proposed.path, environ=environ) as keys:
        keys.type(f"{begin}\n", until="ready")
        keys.type("wfctl show sta\t\t", until="stage-2")
        keys.type("\x15wfctl compl\t", until="completion")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(shell: str) -> None:
    """`wfctl completion` prints a script for each shell, which calls `wfctl __complete`."""
    told = call("completion", shell)
    assert told.code == 0
    assert "wfctl __complete -- " in told.out


def test_completion_without_a_workflow_offers_no_stage(tmp_path: Path) -> None:
    """Completion prints no error message, which would disturb the line that a user types."""
    assert list_candidates(program(), Settings(root=tmp_path), ["show", ""]) == []
