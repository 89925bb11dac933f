"""Calls without typer, and with less of pydantic, give the same results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.exceptions import TyperException

from cli.program import tree
from cli.program.commands import load_command_function, load_commands
from cli.program.global_options import handle_global_options
from cli.program.parameters import REQUIRED, CommandParameter, read_parameters
from cli.program.plain_calls import (
    NotPlain,
    drop_none,
    find_list_item,
    find_plain_call,
    parse_words,
)
from cli.program.pydantic_plugins import LOADER, disable_pydantic_plugin_search
from cli.program.tree import PlainCommand
from tests.cli.support import HERE, Place, write_plan
from tests.rounds import some

#: Words that are valid values of some options, and words that are not.
VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "-0", "+1", "01", "1_0", " 1", "1.0", "1e3", "20", "-1", "-", "9" * 30, "x", "٣",
         "json", "JSON", "csv", "auto", "user", "true", "None", "no/such", "nan", "stage-1"]
    ),
    st.integers().map(str),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
)  # fmt: skip
COMMANDS = sorted(set(load_commands().items()) - {("completion", "cli.program.completion")})


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[Callable[..., Any], list[str]]:
    """Draw a command function, and words for its options and arguments."""
    name, module = draw(st.sampled_from(COMMANDS))
    function = load_command_function(name, module)
    return function, draw_words(draw, read_parameters(function).single)


def draw_words(draw: Any, parameters: list[CommandParameter]) -> list[str]:
    """Draw words in random order. Required parameters are usually among them."""
    words: list[list[str]] = []
    for one in parameters:
        often = 9 if one.default is REQUIRED else 3
        if draw(st.integers(0, 9)) > often:
            continue
        value = draw(st.one_of(st.sampled_from(values_of(one)), VALUES))
        if one.declared.is_argument:
            words.append([value])
        else:
            name = draw(st.sampled_from(one.option_names))
            forms = [[name]] if one.type is bool else [[name, value], [f"{name}={value}"]]
            words.append(draw(st.sampled_from(forms)))
    end = draw(st.sampled_from([[], [], [["--"]]]))
    return [word for part in draw(st.permutations([*words, *end])) for word in part]


def values_of(parameter: CommandParameter) -> list[str]:
    """Return words that are valid values of a parameter."""
    kind = find_list_item(parameter.type) or drop_none(parameter.type)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(one.value) for one in kind]
    return {int: ["3", "0"], float: ["2.5", "1"]}.get(kind, ["stage-1", "a b"])


def parse_with_typer(function: Callable[..., Any], words: list[str]) -> dict[str, Any] | str:
    """Return the values that typer finds, or its error message."""
    seen: dict[str, Any] = {}
    found = read_parameters(function)
    recorder = found._replace(function=seen.update, groups={}, has_context=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tree, "read_parameters", lambda _: recorder)
        command = tree.build_typer_function(function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=PlainCommand)(command)
    try:
        typer.main.get_command(app).main(words, standalone_mode=False)
    except TyperException as error:
        return error.format_message()
    return seen


def describe(values: dict[str, Any] | str) -> Any:
    """Return values in a form that distinguishes equal values of different types."""
    if isinstance(values, str):
        return values
    return {name: (type(value), repr(value)) for name, value in values.items()}


@given(command_lines())
@settings(max_examples=some(1500))
def test_plain_values_equal_those_of_typer(line: tuple[Callable[..., Any], list[str]]) -> None:
    """For each line that wfctl parses itself, typer finds the same values."""
    function, words = line
    try:
        values, _ = parse_words(read_parameters(function).single, words)
    except NotPlain:
        return
    assert describe(values) == describe(parse_with_typer(function, words))


@given(st.data())
@settings(max_examples=some(500))
def test_plain_global_options_equal_those_of_typer(data: st.DataObject) -> None:
    """The options that every command accepts have the same values as with typer."""
    parameters = read_parameters(handle_global_options).single
    words = draw_words(data.draw, parameters)
    try:
        values, _ = parse_words(parameters, words)
    except NotPlain:
        return
    assert describe(values) == describe(parse_with_typer(handle_global_options, words))


PLAIN = (
    ["status"],
    ["-o", "json", "status"],
    ["note", "a b"],
    ["note", "--stage=stage-1", "a b"],
    ["--root", "x", "stage", "fail", "stage-1", "--error", "e"],
    ["amend"],
    ["note", "--", "-x"],
    ["help", "status"],
    ["stage", "fail", "--help"],
    ["session", "show", "3"],
    ["rerun", "stage-1", "stage-2", "--dry-run"],
    ["wait", "stage-1", "--timeout", "1.5"],
    ["tasks", "stage-1", "--failed", "-n", "5"],
)
OTHER = (
    ["--help"],
    ["show"],
    ["show", "a", "b"],
    ["show", "stage-1", "--no-such"],
    ["status", "--machine", "--follow"],
    ["status", "--follow=1"],
    ["log", "-n5"],
    ["log", "--limit", "0x"],
    ["-o", "yaml", "status"],
    ["-o", "yaml", "status", "--help"],
    ["-o", "yaml", "--version"],
    ["nothing"],
    ["stage"],
    ["amend", "--help"],
)


@pytest.mark.parametrize("line", PLAIN, ids=" ".join)
def test_plain_line_is_parsed_without_typer(line: list[str]) -> None:
    """Usual command lines are plain."""
    assert callable(find_plain_call(line))


@pytest.mark.parametrize("line", OTHER, ids=" ".join)
def test_other_line_is_left_to_typer(line: list[str]) -> None:
    """typer prints the help and explains mistakes."""
    with pytest.raises(NotPlain):
        find_plain_call(line)


def test_variable_gives_the_value_of_a_missing_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variable of an option counts unless the line has the option."""
    monkeypatch.setenv("WFCTL_DATABASE_URL", "sqlite:///x.db")
    parameters = read_parameters(handle_global_options).single
    values, typed = parse_words(parameters, [])
    assert values["database_url"] == "sqlite:///x.db"
    assert not typed
    values, _ = parse_words(parameters, ["--database-url", "sqlite:///y.db"])
    assert values["database_url"] == "sqlite:///y.db"


def test_replacement_of_the_pydantic_plugin_loader_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replacement finds no plugins and forwards every other attribute."""
    monkeypatch.delitem(sys.modules, LOADER, raising=False)
    disable_pydantic_plugin_search()
    assert sys.modules[LOADER].get_plugins() == ()
    assert sys.modules[LOADER].PYDANTIC_ENTRY_POINT_GROUP == "pydantic"


_STATUS = """
import sys
from cli.main import run
code = run(["--root", sys.argv[1], "status"])
print(code, "typer" in sys.modules, "pydantic" in sys.modules, file=sys.stderr)
"""


def test_status_imports_neither_typer_nor_pydantic(tmp_path: Path) -> None:
    """These imports would take longer than the command."""
    Place(tmp_path).done("init", str(write_plan(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", _STATUS, str(tmp_path)],
        cwd=HERE, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == "0 False False"
