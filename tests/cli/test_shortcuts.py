"""Faster replacements for parts of typer and pydantic give the same results."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.exceptions import TyperException

from cli.program import tree
from cli.program.tree import LOADER, PlainCommand, disable_pydantic_plugin_search
from tests.cli.support import HERE


class Fruit(StrEnum):
    """Choices for an option, one of which has a name and a value that differ in case."""

    PEAR = "pear"
    PLUM = "Plum"


def _eat(
    context: typer.Context,
    text: Annotated[str | None, typer.Option()] = None,
    number: Annotated[int | None, typer.Option(min=0, max=20)] = None,
    free: Annotated[int, typer.Option()] = 7,
    part: Annotated[float, typer.Option()] = 0.5,
    fruit: Annotated[Fruit, typer.Option()] = Fruit.PEAR,
    words: Annotated[list[str] | None, typer.Option()] = None,
    numbers: Annotated[list[int] | None, typer.Option()] = None,
    path: Annotated[Path | None, typer.Option()] = None,
    flag: Annotated[bool, typer.Option("--flag/--no-flag")] = False,
) -> None:
    context.obj.update({name: value for name, value in locals().items() if name != "context"})


OPTIONS = ("text", "number", "free", "part", "fruit", "words", "numbers", "path")
VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "-0", "+1", "01", "1_0", " 1", "1.0", "1e3", "20", "21", "-1", "9" * 30, "x", "٣",
         "pear", "Pear", "plum", "Plum", "PLUM", "Fruit.PEAR", "true", "None", "no/such", "nan"]
    ),
    st.integers().map(str),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
)  # fmt: skip


def outcome(cls: Any, arguments: list[str]) -> Any:
    """Return the parsed parameters of a command class, or the error message."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=cls)(_eat)
    seen: dict[str, Any] = {}
    try:
        typer.main.get_command(app).main(arguments, obj=seen, standalone_mode=False)
    except TyperException as error:
        return error.format_message()
    return {name: (type(value), repr(value)) for name, value in seen.items()}


@given(st.lists(st.tuples(st.sampled_from(OPTIONS), VALUES), max_size=3))
def test_parsed_value_equals_that_of_typer(given_: list[tuple[str, str]]) -> None:
    """The replacement returns the same type, value and error message as typer."""
    arguments = [f"--{name}={value}" for name, value in given_]
    assert outcome(PlainCommand, arguments) == outcome(None, arguments)


@pytest.mark.parametrize("arguments", [[], ["--flag"], ["--no-flag"], ["--flag=1"], ["--help"]])
def test_parsed_flag_equals_that_of_typer(arguments: list[str]) -> None:
    """The replacement parses flags like typer, including missing and invalid ones."""
    assert outcome(PlainCommand, arguments) == outcome(None, arguments)


def test_shortcut_is_skipped_if_typer_has_no_private_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With another version of typer, a command is slower but works."""
    import typer._coercion

    monkeypatch.delattr(typer._coercion, "RuntimeParam")
    spec = importlib.util.spec_from_file_location("another", tree.__file__)
    assert spec is not None
    assert spec.loader is not None
    another = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(another)
    monkeypatch.setattr("cli.program.tree.use_direct_conversion", another.use_direct_conversion)
    arguments = ["--number=3", "--fruit=Plum", "--text=a"]
    assert outcome(PlainCommand, arguments) == outcome(None, arguments)


def test_unknown_parameter_object_is_unchanged() -> None:
    """The replacement ignores parameter classes of a later typer version."""
    other = object()
    assert tree.use_direct_conversion([other]) == [other]


def test_replacement_of_the_pydantic_plugin_loader_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replacement finds no plugins and forwards every other attribute."""
    monkeypatch.delitem(sys.modules, LOADER, raising=False)
    disable_pydantic_plugin_search()
    assert sys.modules[LOADER].get_plugins() == ()
    assert sys.modules[LOADER].PYDANTIC_ENTRY_POINT_GROUP == "pydantic"


_BUILT = """
import sys
from cli.main import _program
from cli.program.tree import LOADER
program = _program(False)[0].__self__
command = program.commands["show"]
context = command.make_context("show", ["stage-1"])
print(context.params["stage"], "pydantic" in sys.modules)
import pydantic
pydantic.TypeAdapter(int).validate_python(1)
print(sys.modules[LOADER].__doc__, "importlib.metadata" in sys.modules)
"""


def test_shortcuts_apply_to_the_installed_versions() -> None:
    """The installed typer and pydantic still have the parts that wfctl replaces."""
    done = subprocess.run(
        [sys.executable, "-c", _BUILT], cwd=HERE, capture_output=True, text=True, check=True
    )
    values, plugins = done.stdout.splitlines()
    assert values == "stage-1 False"
    assert plugins == "Stands for the module that searches. False"
