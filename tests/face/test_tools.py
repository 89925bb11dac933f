"""The table of tools: what is on offer, what is not, and that the command line knows all of it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import WrongArguments
from agents.lines import call_of, line_of
from agents.server import described
from agents.tools import TOOLS, Route, Tool
from cli.frame.options import hoist
from cli.program.tree import build
from service.machines.completing import SHIPPED, shipped

ROUTES = [
    pytest.param(tool, action, route, id=" ".join(filter(None, [tool.name, action, *route.words])))
    for tool in TOOLS.values()
    for action, routes in tool.routes.items()
    for route in routes
]
#: Words of commands by which somebody agrees, gives up, undoes, or reaches past the rules.
FORBIDDEN = {
    "approve",
    "reject",
    "cancel",
    "adopt",
    "revert",
    "pin",
    "db",
    "sql",
    "replay",
    "import",
    "run",
    "runner",
    "export",
    "watch",
    "serve",
}
FORBIDDEN_OPTIONS = {
    "--actor",
    "--root",
    "--root-is",
    "--database-url",
    "--consent",
    "--signers",
    "--key",
    "--signature",
    "--definition",
    "--adopt",
    "--revert",
    "--start-fresh",
    "--go-on",
    "--as-is",
    "--stop",
    "--rebuild",
    "--report",
}


def test_the_list_of_tools_is_short() -> None:
    """An agent pays for it in each session: at most 2,500 tokens of four bytes."""
    listed = [
        described(tool).model_dump_json(by_alias=True, exclude_none=True) for tool in TOOLS.values()
    ]
    assert len("".join(listed)) / 4 <= 2500


def test_hints_say_what_a_tool_does() -> None:
    """A client that asks its person only where something may be lost goes by them."""
    hints: dict[str, Any] = {name: described(tool).annotations for name, tool in TOOLS.items()}
    assert hints["job"].read_only_hint
    assert not hints["stage"].read_only_hint
    assert hints["stage"].destructive_hint
    assert hints["stage"].open_world_hint
    assert hints["recover"].idempotent_hint
    assert not hints["recover"].destructive_hint
    assert not hints["recover"].read_only_hint


def test_the_statuses_of_tasks_stand_in_the_schema() -> None:
    """All of the types that come with wfctl."""
    said = TOOLS["task"].schema["properties"]["status"]["description"]
    for type_ in SHIPPED:
        tasks = shipped(type_).tasks
        assert tasks is None or all(status in said for status in tasks.statuses)


@pytest.mark.parametrize(("tool", "action", "route"), ROUTES)
def test_nothing_is_on_offer_that_only_a_person_may(
    tool: Tool, action: str | None, route: Route
) -> None:
    """No tool agrees, gives up, undoes or says who acts."""
    assert not FORBIDDEN & {*route.words}, (tool.name, action)
    assert route.words != ("append",)
    options = {*route.options.values(), *(word.partition("=")[0] for word in route.fixed)}
    assert not FORBIDDEN_OPTIONS & options


@pytest.mark.parametrize(("tool", "action", "route"), ROUTES)
def test_each_tool_is_a_command_line_that_the_program_knows(
    tool: Tool, action: str | None, route: Route
) -> None:
    """Command, options and the number of arguments by place are those of the program."""
    command: Any = build().__self__  # type: ignore[attr-defined]
    words = list(route.words)
    while words:
        _, command, words = command.resolve_command(None, words)
    known = {option for one in command.params for option in one.opts}
    by_place = [one for one in command.params if one.param_type_name == "argument"]
    assert {*route.options.values(), *(w.partition("=")[0] for w in route.fixed)} <= known
    assert len(by_place) >= len(route.places), (tool.name, action)
    needed = [one for one in by_place if one.required]
    assert len(route.places) >= len(needed)


@pytest.mark.parametrize(("tool", "action", "route"), ROUTES)
def test_only_a_command_that_writes_takes_a_request_id(
    tool: Tool, action: str | None, route: Route
) -> None:
    """A tool that is said to read has no route that takes one."""
    assert action is None or action in tool.routes
    if not tool.writes:
        assert "request_id" not in route.fields


def _sample(tool: Tool, name: str) -> Any:
    schema = tool.schema["properties"][name]
    plain: dict[str, Any] = {
        "string": "x-1",
        "integer": 3,
        "boolean": True,
        "array": ["y"],
        "object": {"a": 1},
    }
    return schema["enum"][0] if "enum" in schema else plain[schema["type"]]


def _takes_words_alone(tool: Any, route: Any) -> bool:
    """Commands are suggested with words alone, never with lists or objects."""
    needs = {*route.needs, *route.places}
    return not any(isinstance(_sample(tool, name), (list, dict)) for name in needs)


OF_WORDS = [one for one in ROUTES if _takes_words_alone(one.values[0], one.values[2])]


@pytest.mark.parametrize(("tool", "action", "route"), OF_WORDS)
def test_a_command_that_is_suggested_becomes_the_call_that_makes_it(
    tool: Tool, action: str | None, route: Route
) -> None:
    """From call to command and back, with what the command needs."""
    given_ = {name: str(_sample(tool, name)) for name in (*route.needs, *route.places)}
    named = {"action": action} if action is not None else {}
    line = [word for word in line_of(tool, {**named, **given_}) if word != "--"]
    found = call_of(shlex.join(["wfctl", *line]))
    assert found is not None
    again = line_of(TOOLS[found["tool"]], found["arguments"])
    assert [word for word in again if word not in ("--", "--dry-run")] == [
        word for word in line if word != "--dry-run"
    ]


HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["--actor=user:pi", "-o", "--", "--root=/etc", "-otext", "@/etc/passwd", "-"]),
)


@given(text=HOSTILE, other=HOSTILE)
def test_no_word_of_a_caller_becomes_an_option(text: str, other: str) -> None:
    """Whatever stands in a value, the program reads the same command with that value."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("record", {"note": text, "stage": other}),
        ("stage", {"action": "retry", "stage": text, "fix": other}),
        ("propose", {"stages": [text], "set": {"parameters.x": other}, "reason": text}),
        ("update", {"machine": text, "data": {other: text}}),
    ]
    for name, arguments in calls:
        line = line_of(TOOLS[name], arguments)
        assert hoist(line) == line
        before = line[: line.index("--")] if "--" in line else line
        assert all(word.startswith("--") and "=" in word for word in before if word.startswith("-"))


def test_fields_that_do_not_go_together_are_told_with_those_that_do() -> None:
    """An agent learns from the refusal what the tool takes."""
    with pytest.raises(
        WrongArguments, match=r"checkpoint: expected machine, summary.*found note"
    ) as told:
        line_of(TOOLS["checkpoint"], {"note": "x"})
    assert json.dumps(told.value.data)
