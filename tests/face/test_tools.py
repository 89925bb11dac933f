"""The table of tools for agents, compared with the command line."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.frame.options import move_global_options_first
from cli.program.tree import build_program
from extensions.agents.command_lines import convert_to_tool_call, line_of
from extensions.agents.errors import WrongArguments
from extensions.agents.server import describe_tool
from extensions.agents.tools import TOOLS, Route, Tool
from extensions.machines.service.complete_command import SHIPPED, load_shipped_definition

ROUTES = [
    pytest.param(tool, action, route, id=" ".join(filter(None, [tool.name, action, *route.words])))
    for tool in TOOLS.values()
    for action, routes in tool.routes.items()
    for route in routes
]
#: Command words that approve, give up, undo, or bypass the rules.
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


def test_tool_list_is_short() -> None:
    """The list has at most 2,500 tokens of four bytes, as each agent session reads it."""
    listed = [
        describe_tool(tool).model_dump_json(by_alias=True, exclude_none=True)
        for tool in TOOLS.values()
    ]
    assert len("".join(listed)) / 4 <= 2500


def test_tool_annotations_match_the_tools() -> None:
    """The hints of a tool state whether it writes. Clients use them to ask their user."""
    hints: dict[str, Any] = {name: describe_tool(tool).annotations for name, tool in TOOLS.items()}
    assert hints["job"].read_only_hint
    assert not hints["stage"].read_only_hint
    assert hints["stage"].destructive_hint
    assert hints["stage"].open_world_hint
    assert hints["recover"].idempotent_hint
    assert not hints["recover"].destructive_hint
    assert not hints["recover"].read_only_hint


def test_task_schema_lists_the_statuses_of_shipped_types() -> None:
    """The description of `status` names the task statuses of every shipped type."""
    said = TOOLS["task"].schema["properties"]["status"]["description"]
    for type_ in SHIPPED:
        tasks = load_shipped_definition(type_).tasks
        assert tasks is None or all(status in said for status in tasks.statuses)


@pytest.mark.parametrize(("tool", "action", "route"), ROUTES)
def test_tools_exclude_commands_reserved_for_persons(
    tool: Tool, action: str | None, route: Route
) -> None:
    """No tool approves, gives up, undoes or sets the actor."""
    assert not FORBIDDEN & {*route.words}, (tool.name, action)
    assert route.words != ("append",)
    options = {*route.options.values(), *(word.partition("=")[0] for word in route.fixed)}
    assert not FORBIDDEN_OPTIONS & options


@pytest.mark.parametrize(("tool", "action", "route"), ROUTES)
def test_tool_routes_match_the_command_line(tool: Tool, action: str | None, route: Route) -> None:
    """The commands, options and arguments that a tool uses exist in the program."""
    command: Any = build_program()
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
def test_reading_tool_has_no_request_id(tool: Tool, action: str | None, route: Route) -> None:
    """A tool that only reads passes no request id to the command."""
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
    """Return whether a route needs only strings, numbers and booleans.

    Suggested commands contain no lists or objects.
    """
    needs = {*route.needs, *route.places}
    return not any(isinstance(_sample(tool, name), (list, dict)) for name in needs)


OF_WORDS = [one for one in ROUTES if _takes_words_alone(one.values[0], one.values[2])]


@pytest.mark.parametrize(("tool", "action", "route"), OF_WORDS)
def test_suggested_command_maps_to_its_tool_call(
    tool: Tool, action: str | None, route: Route
) -> None:
    """A command becomes a tool call, and that call gives the same command again."""
    given_ = {name: str(_sample(tool, name)) for name in (*route.needs, *route.places)}
    named = {"action": action} if action is not None else {}
    line = [word for word in line_of(tool, {**named, **given_}) if word != "--"]
    found = convert_to_tool_call(shlex.join(["wfctl", *line]))
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
def test_argument_values_never_become_options(text: str, other: str) -> None:
    """The program takes a value such as `--actor=user:pi` as a value, never as an option."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("record", {"note": text, "stage": other}),
        ("stage", {"action": "retry", "stage": text, "fix": other}),
        ("propose", {"stages": [text], "set": {"parameters.x": other}, "reason": text}),
        ("update", {"machine": text, "data": {other: text}}),
    ]
    for name, arguments in calls:
        line = line_of(TOOLS[name], arguments)
        assert move_global_options_first(line) == line
        before = line[: line.index("--")] if "--" in line else line
        assert all(word.startswith("--") and "=" in word for word in before if word.startswith("-"))


def test_unfit_arguments_error_lists_the_expected_fields() -> None:
    """The error for unknown arguments lists the fields that the tool accepts."""
    with pytest.raises(
        WrongArguments, match=r"checkpoint: expected machine, summary.*found note"
    ) as told:
        line_of(TOOLS["checkpoint"], {"note": "x"})
    assert json.dumps(told.value.data)
