"""How often a loop may be taken: by the definition, by the beginning, by a field of the machine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines.place import MachinePlace
from tests.machines.support import small_data


def tries(place: MachinePlace, most: int) -> None:
    """Fail the tests as often as the loop may be taken, and once more."""
    for round_ in range(most + 1):
        place.done("update", "bug", "validation.testsPass=false")
        phase = place.done("transition", "bug", "hotfix-implement")["phase"]
        assert phase == ("hotfix-implement" if round_ < most else "blocked")
        if round_ < most:
            place.done("transition", "bug", "hotfix-validate")


def test_a_limit_is_given_as_a_machine_begins(place: MachinePlace) -> None:
    """Given --limit, then it holds in place of that of the definition; the others stay."""
    place.init("bug", "debug", "--limit", "fix-cycle=3")
    place.done("update", "bug", "triage.symptom=x", "track=hotfix")
    for phase in ("investigate", "hotfix-implement", "hotfix-validate"):
        place.done("transition", "bug", phase)
    tries(place, 3)
    loops = place.events("bug")[0]["data"]["definition"]["loops"]
    assert {name: loop["limit"] for name, loop in loops.items()} == {
        "fix-cycle": 3,
        "synthesis-retry": 3,
    }


@pytest.mark.parametrize("said", ["fix-cycle", "fix-cycle=0", "fix-cycle=x", "other=3", "=3"])
def test_a_limit_that_can_be_none_is_refused(place: MachinePlace, said: str) -> None:
    """Nothing is begun."""
    line = ("init", "bug", "--type", "debug", "--limit", said)
    place.refused("INVALID_INPUT", 2, *line)
    assert not (place.path / ".wfctl").exists()


def own(place: MachinePlace) -> str:
    """Write a definition whose loop has its limit from a field."""
    data: dict[str, Any] = small_data(
        phases={"a": {}, "b": {}, "c": {"final": True}, "stuck": {"person": "decides"}},
        transitions=[
            {"from": "a", "to": "b"},
            {"from": "b", "to": "a", "loop": "again", "guard": {"field": "bad", "equals": True}},
            {"from": "b", "to": "c", "guard": {"field": "bad", "equals": False}},
            {"from": "stuck", "to": "a", "resets": ["again"], "guard": {"approved": "go-on"}},
        ],
        loops={"again": {"limit": 3, "on_limit": "stuck", "limit_from": "plan.rounds"}},
        approvals={"go-on": {"phase": "stuck", "asks": "Shall it go on?"}},
        fields={"bad": "flag", "plan": {"rounds": "number"}},
    )
    place.write("own.json", data)
    return str(place.path / "own.json")


def test_a_limit_comes_from_a_field_of_the_machine(place: MachinePlace) -> None:
    """Given the field in the first state, then it is the limit, and nobody changes it."""
    path = own(place)
    place.done("init", "one", "--definition", path, "--consent", "trust", "plan.rounds=1")
    place.refused("RESERVED_FIELD", 5, "update", "one", "plan.rounds=9")
    place.refused("RESERVED_FIELD", 5, "update", "one", 'plan={"rounds": 9}')
    place.done("update", "one", "bad=true")
    for to, phase in (("b", "b"), ("a", "a"), ("b", "b"), ("a", "stuck")):
        assert place.done("transition", "one", to)["phase"] == phase


@pytest.mark.parametrize("value", ["0", "1.5", "true", '"3"', "1001", "[3]"])
def test_a_field_that_can_be_no_limit_is_refused(place: MachinePlace, value: str) -> None:
    """In either protocol; a limit is a whole number."""
    place.refused(
        "INVALID_INPUT", 2, "init", "one", "--definition", own(place), f"plan.rounds={value}"
    )
    line = ("init", "t", "--type", "conductor", f"loop_state.max_fix_cycles={value}")
    place.refused("INVALID_INPUT", 2, *line)


@pytest.mark.parametrize("how", ["--limit", "field"])
def test_a_track_has_the_limit_that_it_begins_with(place: MachinePlace, how: str) -> None:
    """And its file shows it."""
    word = "loop_state.max_fix_cycles=5"
    place.init("track", "conductor", *(("--limit", "fix-cycle=5") if how == "--limit" else (word,)))
    shown = place.json("conductor/tracks/track/metadata.json")["loop_state"]
    assert shown["max_fix_cycles"] == 5
