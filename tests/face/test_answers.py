"""Answers of tools are short and never exceed their size limit."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.agents.tool_answers import BOUND, answer_of, dump_json_within_bound, suggest_calls
from extensions.agents.tools import TOOLS

TEXTS = st.one_of(st.text(max_size=30), st.integers(1, 9000).map(lambda n: "é" * n))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), TEXTS)
#: Long lists contain only short strings, so that a generated answer is not larger than the output
#: of any command.
MANY = st.tuples(st.text(max_size=30), st.integers(1, 3000)).map(lambda many: [many[0]] * many[1])
VALUES = st.recursive(
    st.one_of(LEAVES, MANY),
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.dictionaries(TEXTS, inner, max_size=8),
    ),
    max_leaves=12,
)


@given(data=VALUES)
def test_answer_does_not_exceed_its_size_limit(data: object) -> None:
    """An answer that is too long is cut, and it states the number of removed items."""
    text = dump_json_within_bound({"data": data, "version": 7})
    assert len(text.encode()) <= BOUND
    found = json.loads(text)
    assert found["version"] == 7
    assert found.get("left_out", 0) > 0 or found["data"] == data


def test_object_with_many_fields_is_cut() -> None:
    """If an object has too many fields, the answer has only its first fields."""
    found = json.loads(dump_json_within_bound({"data": {f"stage-{n}": n for n in range(5000)}}))
    assert found["data"]["stage-0"] == 0
    assert found["left_out"] == 5000 - len(found["data"])


def test_command_without_an_answer_is_an_error() -> None:
    """If a command prints no answer, the error has the last line that it printed."""
    answer = answer_of(-1, "", "one\nit broke\n", writes=False)
    assert answer.is_error
    assert json.loads(answer.text)["error"]["message"].endswith("the command was ended: it broke")


CALLS: list[tuple[str, list[str], dict[str, Any]]] = [
    (
        "wfctl dispatch s-1",
        [],
        {"tool": "stage", "arguments": {"action": "dispatch", "stage": "s-1"}},
    ),
    (
        "wfctl stage ready s-1",
        [],
        {"tool": "stage", "arguments": {"action": "ready", "stage": "s-1"}},
    ),
    ("wfctl wait s-1 s-2", [], {"tool": "stage", "arguments": {"action": "wait", "stage": "s-1"}}),
    ("wfctl reconcile", [], {"tool": "recover", "arguments": {}}),
    ("wfctl report -", [], {"tool": "history", "arguments": {"action": "report"}}),
    ("wfctl drift show", [], {"tool": "check", "arguments": {"action": "files"}}),
    (
        "wfctl machine describe feature",
        [],
        {"tool": "describe", "arguments": {"action": "machine", "type": "feature"}},
    ),
    (
        "wfctl run",
        [],
        {"tool": "stage", "arguments": {"action": "dispatch"}, "needs": ["stage"]},
    ),
    (
        "wfctl stage retry s-1 --fix TEXT",
        ["TEXT"],
        {"tool": "stage", "arguments": {"action": "retry", "stage": "s-1"}, "needs": ["fix"]},
    ),
    (
        "wfctl stage complete s-1 --or-fail --evidence TEXT",
        ["TEXT"],
        {
            "tool": "stage",
            "arguments": {"action": "complete", "stage": "s-1", "or_fail": True},
            "needs": ["evidence"],
        },
    ),
    (
        "wfctl amend propose --stage s-1 --set PATH=VALUE --reason TEXT",
        ["PATH=VALUE", "TEXT"],
        {"tool": "propose", "arguments": {"stages": ["s-1"]}, "needs": ["set", "reason"]},
    ),
    (
        "wfctl amend propose --stage s-1 --set depends_on=JSON --reason TEXT",
        ["JSON", "TEXT"],
        {
            "tool": "propose",
            "arguments": {"stages": ["s-1"]},
            "needs": ["set.depends_on", "reason"],
        },
    ),
    (
        "wfctl amend propose --set session_config.pin=scripts --set a.n=3 --reason TEXT",
        ["TEXT"],
        {
            "tool": "propose",
            "arguments": {"set": {"session_config.pin": "scripts", "a.n": 3}},
            "needs": ["reason"],
        },
    ),
    (
        "wfctl dispatch s-1",
        ["s-1/submission.json"],
        {
            "tool": "stage",
            "arguments": {"action": "dispatch", "stage": "s-1"},
            "before": ["s-1/submission.json"],
        },
    ),
    ("wfctl machine approve m design", [], {"a_person_runs": "wfctl machine approve m design"}),
    ("wfctl machine cancel m", [], {"a_person_runs": "wfctl machine cancel m"}),
    (
        "wfctl machine transition m cancelled",
        [],
        {"a_person_runs": "wfctl machine transition m cancelled"},
    ),
    ("wfctl replay --rebuild", [], {"a_person_runs": "wfctl replay --rebuild"}),
]


@pytest.mark.parametrize(("command", "needs", "expected"), CALLS)
def test_suggested_step_is_a_tool_call_or_a_command_for_a_person(
    command: str, needs: list[str], expected: dict[str, Any]
) -> None:
    """A suggested call names its missing arguments in `needs`, and fits the tool's schema."""
    [found] = suggest_calls(
        [{"command": command, "reason": "why", **({"needs": needs} if needs else {})}]
    )
    assert found == {**expected, "reason": "why"}
    if "tool" in found:
        schema = {**TOOLS[found["tool"]].schema, "additionalProperties": False}
        given_ = dict(found["arguments"])
        for name in found.get("needs", ()):
            field = name.partition(".")[0]
            assert field in schema["properties"]
            given_[field] = {} if schema["properties"][field]["type"] == "object" else "x"
        jsonschema.validate(given_, schema)


def test_run_is_suggested_only_without_another_call() -> None:
    """If other calls are suggested, `run` is left out, because it stands for these calls."""
    go_on, dispatch = {"command": "wfctl run"}, {"command": "wfctl dispatch s-1"}
    assert [one["tool"] for one in suggest_calls([go_on])] == ["stage"]
    [only] = suggest_calls([go_on, dispatch])
    assert only["arguments"]["stage"] == "s-1"


def test_refusal_includes_suggested_calls() -> None:
    """The suggestions are next to the error."""
    out = json.dumps(
        {
            "success": False,
            "error": {"code": "x", "message": "no", "data": {}},
            "next_actions": [{"command": "wfctl dispatch s-1", "reason": "why"}],
        }
    )
    found = json.loads(answer_of(5, out, "", writes=True).text)
    assert found["next"][0]["tool"] == "stage"


def test_empty_lists_at_the_top_of_an_answer_are_kept() -> None:
    """An empty list that is the answer itself is kept. Nested empty lists are left out."""
    data: dict[str, Any] = {"differing": [], "other": None, "one": {"list": [], "x": 1}}
    out = json.dumps({"success": True, "data": data})
    found = json.loads(answer_of(0, out, "", writes=False).text)["data"]
    assert found == {"differing": [], "one": {"x": 1}}
