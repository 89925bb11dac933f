"""wfctl checks a machine definition completely when it loads the definition."""

from __future__ import annotations

from typing import Any

import pytest

from extensions.machines.rules.errors import InvalidDefinition, ReservedField
from extensions.machines.rules.soundness import load_definition
from tests.machines.support import begun, every, set_, small, small_data, when

CYCLE: list[dict[str, Any]] = [
    {"from": "a", "to": "c"},
    {"from": "c", "to": "a"},
    {"from": "a", "to": "b", "guard": {"present": "x"}},
]
THREE = {"a": {}, "b": {"final": True}, "c": {}}
TO_C = [{"from": "a", "to": "c"}, {"from": "a", "to": "b"}]
COUNTED: list[dict[str, Any]] = [
    {"from": "a", "to": "c", "loop": "again"},
    {"from": "c", "to": "a"},
    {"from": "a", "to": "b", "guard": {"present": "x"}},
]

BEGUN_ANEW = [{**way, "resets": ["again"]} if way["to"] == "a" else way for way in COUNTED]
TASKS = {"statuses": ["open", "done"], "running": "open", "done": "done", "failed": "lost"}

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a phase that no way leads to": (
        {"phases": THREE},
        "phases.c: no transition leads to this phase",
    ),
    "a phase that no way leads from": (
        {"phases": THREE, "transitions": TO_C},
        "phases.c: no transitions lead from this phase",
    ),
    "a guard on an unknown field": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"present": "artifacts.x"}}]},
        "artifacts.x, which fields does not define",
    ),
    "a guard inside of others": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"not": {"any": [{"present": "y"}]}}}]},
        "y, which fields does not define",
    ),
    "a guard on an invalid path": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"present": "x[id=1]"}}]},
        "is not valid at",
    ),
    "a loop that nothing counts": (
        {"phases": THREE, "transitions": CYCLE, "fields": {"x": "text"}},
        "can repeat forever",
    ),
    "a limit that leads back": (
        {
            "phases": THREE,
            "transitions": COUNTED,
            "fields": {"x": "text"},
            "loops": {"again": {"limit": 2, "on_limit": "c"}},
        },
        "name a phase outside the loop",
    ),
    "a count that nobody's agreement begins anew": (
        {
            "phases": THREE,
            "transitions": BEGUN_ANEW,
            "fields": {"x": "text"},
            "loops": {"again": {"limit": 2, "on_limit": "b"}},
        },
        "c -> a: a transition that resets a loop needs the approval of a person",
    ),
    "a limit in an unknown field": (
        {
            "phases": THREE,
            "transitions": COUNTED,
            "fields": {"x": "text"},
            "loops": {"again": {"limit": 2, "on_limit": "b", "limit_from": "most"}},
        },
        "loops.again.limit_from: the condition reads most, which fields does not define",
    ),
    "a reserved field that is no path": (
        {"reserved": {"a b": "ask"}},
        "reserved: the path 'a b' is not valid",
    ),
    "a status that no task has": ({"tasks": TASKS}, "tasks.failed: 'lost' is missing"),
    "an approval that is given elsewhere": (
        {
            "transitions": [{"from": "a", "to": "b", "guard": {"approved": "end"}}],
            "approvals": {"end": {"phase": "b", "asks": "End?"}},
        },
        "a -> b: the approval end belongs to the phase b",
    ),
    "an unknown event": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"recorded": "e"}}]},
        "no event 'e'",
    ),
    "an unknown approval": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"approved": "e"}}]},
        "no approval 'e'",
    ),
    "an unknown status": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"phase_status": "e"}}]},
        "no status 'e'",
    ),
    "an unknown counter": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"counter": "e"}}]},
        "no loop 'e'",
    ),
    "an unknown phase": ({"transitions": [{"from": "a", "to": "z"}]}, "no phase 'z'"),
    "an unknown start": ({"initial": "z"}, "initial: no phase 'z'"),
    "no end": ({"phases": {"a": {}, "b": {}}}, "one phase must be final"),
    "a way from an end": (
        {"transitions": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]},
        "a final phase has no transitions",
    ),
    "the same way twice": (
        {"transitions": [{"from": "a", "to": "b"}, {"from": "a", "to": "b"}]},
        "is defined 2 times",
    ),
    "an unknown condition": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"python": "True"}}]},
        "transitions.0.guard",
    ),
    "an unknown field": ({"on_enter": "rm -rf"}, "on_enter"),
    "an unknown shape": ({"fields": {"x": "integer"}}, "unknown type 'integer'"),
    "a default that does not fit": (
        {"fields": {"x": "flag"}, "defaults": {"x": "yes"}},
        "x: expected flag",
    ),
    "a file outside of the root": ({"files": {"state": "../x.json"}}, "inside the root"),
    "a file of ours": ({"files": {"state": ".wfctl/config.toml"}}, "inside the root"),
    "no file to write": (
        {"files": {}},
        "files.state: missing; the protocol exarchos writes this file",
    ),
    "a file elsewhere in a guard": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"file": "/etc/passwd"}}]},
        "a -> b: expected the path of a file inside the root",
    ),
    "a guard on no file": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"not": {"file": ""}}}]},
        "a -> b: expected the path of a file inside the root",
    ),
    "an output elsewhere": (
        {"phases": {"a": {"output": "../x"}, "b": {"final": True}}},
        "phases.a.output: expected the path",
    ),
    "a value that a flag never has": (
        {
            "fields": {"done": "flag"},
            "transitions": [{"from": "a", "to": "b", "guard": {"field": "done", "equals": "no"}}],
        },
        "a -> b: equals: done: expected flag, found 'no'",
    ),
    "a value outside of an enumeration": (
        {
            "fields": {"track": "fast|slow"},
            "transitions": [{"from": "a", "to": "b", "guard": {"field": "track", "equals": "x"}}],
        },
        "a -> b: equals: track: expected fast|slow, found 'x'",
    ),
    "a status that no item ever has": (
        {
            "fields": {"reviews": {"*": {"status": "good|bad"}}},
            "transitions": [
                {"from": "a", "to": "b", "guard": {"every": "reviews", "status": ["fine"]}}
            ],
        },
        "no item of reviews can have the status fine; expected some of good, bad",
    ),
    "a condition on the items of a text": (
        {
            "fields": {"note": "text"},
            "transitions": [{"from": "a", "to": "b", "guard": {"some": "note", "status": ["x"]}}],
        },
        "note is text: expected a list or an object",
    ),
    "a count that no loop reaches": (
        {
            "phases": THREE,
            "fields": {"x": "text"},
            "loops": {"again": {"limit": 2, "on_limit": "b"}},
            "transitions": [
                *COUNTED[:2],
                {"from": "a", "to": "b", "guard": {"counter": "again", "at_least": 3}},
            ],
        },
        "the loop again stops at 2, so the count never reaches 3",
    ),
    "a name that nothing is put in for": (
        {"files": {"state": "{name}.json"}},
        "files.state: only {id}, the id of the machine, can be used in the path; found '{name}'",
    ),
    "a file that nobody writes": (
        {"files": {"state": "{id}.state.json", "log": "{id}.log"}},
        "files.log: wfctl cannot write this file; the protocol exarchos has: state",
    ),
    "a file of a guard with braces": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"file": "{id}.md"}}]},
        "a -> b: file: braces are not supported",
    ),
    "its own cancelled phase": (
        {"phases": {"a": {}, "b": {"final": True}, "cancelled": {"final": True}}},
        "every machine has this phase",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_unsound_definition_is_refused(name: str) -> None:
    """wfctl refuses the definition and names the place of the fault."""
    more, expected = FAULTS[name]
    with pytest.raises(InvalidDefinition) as refused:
        load_definition(small_data(**more))
    assert any(expected in problem for problem in refused.value.data["problems"]), refused.value


def test_all_problems_of_a_definition_are_reported_together() -> None:
    """wfctl reports two problems for a definition with two faults."""
    with pytest.raises(InvalidDefinition) as refused:
        load_definition(small_data(initial="z", files={"state": "/etc/passwd"}))
    assert len(refused.value.data["problems"]) == 2


def test_cycle_without_a_limit_is_allowed_if_declared() -> None:
    """A transition with `unbounded: true` may repeat forever and needs no loop."""
    free = [{**way, "unbounded": True} if way["to"] == "a" else way for way in CYCLE]
    known = load_definition(small_data(phases=THREE, transitions=free, fields={"x": "text"}))
    assert known.loops == {}


@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
def test_definition_survives_the_log(known: Any) -> None:
    """A shipped definition loads unchanged from its stored form."""
    assert load_definition(known.dumped()) == known


def test_field_with_the_limit_of_a_loop_cannot_be_updated() -> None:
    """wfctl refuses the update, because it could raise the limit of the loop."""
    loops = {"again": {"limit": 2, "on_limit": "b", "limit_from": "most"}}
    fields = {"x": "text", "most": "number"}
    known = small(phases=THREE, transitions=COUNTED, fields=fields, loops=loops)
    with pytest.raises(ReservedField):
        when(begun(known), set_(most=900))
