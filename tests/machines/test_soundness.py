"""A definition is checked whole when it is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.machines.errors import InvalidDefinition, ReservedField
from lifecycle.machines.soundness import load
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
    "a phase that no way leads to": ({"phases": THREE}, "phases.c: no way leads here"),
    "a phase that no way leads from": (
        {"phases": THREE, "transitions": TO_C},
        "phases.c: no way leads from here",
    ),
    "a guard on an unknown field": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"present": "artifacts.x"}}]},
        "artifacts.x, which is not among the fields",
    ),
    "a guard inside of others": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"not": {"any": [{"present": "y"}]}}}]},
        "y, which is not among the fields",
    ),
    "a guard on an invalid path": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"present": "x[id=1]"}}]},
        "is no path",
    ),
    "a loop that nothing counts": (
        {"phases": THREE, "transitions": CYCLE, "fields": {"x": "text"}},
        "loop without an exit",
    ),
    "a limit that leads back": (
        {
            "phases": THREE,
            "transitions": COUNTED,
            "fields": {"x": "text"},
            "loops": {"again": {"limit": 2, "on_limit": "c"}},
        },
        "it is no exit",
    ),
    "a count that nobody's agreement begins anew": (
        {
            "phases": THREE,
            "transitions": BEGUN_ANEW,
            "fields": {"x": "text"},
            "loops": {"again": {"limit": 2, "on_limit": "b"}},
        },
        "c -> a: only where a person agrees does a count begin anew",
    ),
    "a limit in an unknown field": (
        {
            "phases": THREE,
            "transitions": COUNTED,
            "fields": {"x": "text"},
            "loops": {"again": {"limit": 2, "on_limit": "b", "limit_from": "most"}},
        },
        "loops.again.limit_from: it looks at most, which is not among the fields",
    ),
    "a reserved field that is no path": (
        {"reserved": {"a b": "ask"}},
        "reserved: 'a b' is no path",
    ),
    "a status that no task has": ({"tasks": TASKS}, "tasks.failed: no status 'lost'"),
    "an approval that is given elsewhere": (
        {
            "transitions": [{"from": "a", "to": "b", "guard": {"approved": "end"}}],
            "approvals": {"end": {"phase": "b", "asks": "End?"}},
        },
        "a -> b: end is given in b, never here",
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
    "no end": ({"phases": {"a": {}, "b": {}}}, "none is final"),
    "a way from an end": (
        {"transitions": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]},
        "nothing leaves a final phase",
    ),
    "the same way twice": (
        {"transitions": [{"from": "a", "to": "b"}, {"from": "a", "to": "b"}]},
        "appears 2 times",
    ),
    "an unknown condition": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"python": "True"}}]},
        "transitions.0.guard",
    ),
    "an unknown field": ({"on_enter": "rm -rf"}, "on_enter"),
    "an unknown shape": ({"fields": {"x": "integer"}}, "no shape 'integer'"),
    "a default that does not fit": (
        {"fields": {"x": "flag"}, "defaults": {"x": "yes"}},
        "x: expected flag",
    ),
    "a file outside of the root": ({"files": {"state": "../x.json"}}, "inside the root"),
    "a file of ours": ({"files": {"state": ".wfctl/config.toml"}}, "inside the root"),
    "no file to write": ({"files": {}}, "files.state: the protocol exarchos writes this file"),
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
        "no item of reviews is ever fine; expected some of good, bad",
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
        "again is taken at most 2 times, never 3",
    ),
    "a name that nothing is put in for": (
        {"files": {"state": "{name}.json"}},
        "files.state: only {id} is put in, the machine's id; found '{name}'",
    ),
    "a file that nobody writes": (
        {"files": {"state": "{id}.state.json", "log": "{id}.log"}},
        "files.log: nobody writes it; the protocol exarchos has: state",
    ),
    "a file of a guard with braces": (
        {"transitions": [{"from": "a", "to": "b", "guard": {"file": "{id}.md"}}]},
        "a -> b: file: nothing is put in for braces here",
    ),
    "its own cancelled phase": (
        {"phases": {"a": {}, "b": {"final": True}, "cancelled": {"final": True}}},
        "every machine has it by itself",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_unsound_definition_is_refused(name: str) -> None:
    """Given the fault, when it is loaded, then the problem is named with its place."""
    more, expected = FAULTS[name]
    with pytest.raises(InvalidDefinition) as refused:
        load(small_data(**more))
    assert any(expected in problem for problem in refused.value.data["problems"]), refused.value


def test_every_problem_is_named_at_once() -> None:
    """Nobody corrects a file ten times."""
    with pytest.raises(InvalidDefinition) as refused:
        load(small_data(initial="z", files={"state": "/etc/passwd"}))
    assert len(refused.value.data["problems"]) == 2


def test_a_cycle_may_be_without_a_limit_where_it_says_so() -> None:
    """The step loop's plan is revised as often as it takes."""
    free = [{**way, "unbounded": True} if way["to"] == "a" else way for way in CYCLE]
    known = load(small_data(phases=THREE, transitions=free, fields={"x": "text"}))
    assert known.loops == {}


@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
def test_a_definition_reads_back_as_it_was_written(known: Any) -> None:
    """What the log holds of it is all of it."""
    assert load(known.dumped()) == known


def test_a_limit_that_a_field_holds_is_nobodys_to_change() -> None:
    """Given a loop whose limit a field holds, then no update raises it on the way."""
    loops = {"again": {"limit": 2, "on_limit": "b", "limit_from": "most"}}
    fields = {"x": "text", "most": "number"}
    known = small(phases=THREE, transitions=COUNTED, fields=fields, loops=loops)
    with pytest.raises(ReservedField):
        when(begun(known), set_(most=900))
