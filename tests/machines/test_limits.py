"""How often a loop may be taken: by the definition, by the beginning, by a field of the machine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adversary.test_machines import raw
from tests.cli.support import call
from tests.cli.terminal import answered
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


def used_up(place: MachinePlace, *how: str) -> None:
    """Begin a fix whose cycles are used up but for the last of them."""
    place.done("init", "bug", "--type", "debug", *how)
    place.done("update", "bug", "triage.symptom=x", "track=hotfix")
    for phase in ("investigate", "hotfix-implement", "hotfix-validate"):
        place.done("transition", "bug", phase)


def test_a_person_changes_a_limit_later(place: MachinePlace) -> None:
    """Then the loop goes as often as was said, and the log says by whom, and why."""
    used_up(place, "--consent", "trust")
    line = ("limit", "bug", "fix-cycle", "4", "--reason", "The cause is known.")
    place.done(*line)
    said = place.events("bug")[-1]["data"]
    assert {name: said[name] for name in ("loop", "before", "to", "reason")} == {
        "loop": "fix-cycle",
        "before": 2,
        "to": 4,
        "reason": "The cause is known.",
    }
    assert said["approved_by"] == "user:ada"
    assert place.done(*line)["events"] == []
    tries(place, 4)
    place.refused("INVALID_INPUT", 2, "limit", "bug", "other", "4", "--reason", "x")
    place.refused("INVALID_INPUT", 2, "limit", "bug", "fix-cycle", "0", "--reason", "x")
    place.done("cancel", "bug")
    place.refused("ALREADY_CANCELLED", 5, "limit", "bug", "fix-cycle", "9", "--reason", "x")
    assert place.wfctl("fsck").data["findings"] == []


def test_no_agent_changes_a_limit(place: MachinePlace) -> None:
    """Under terminal it is refused, and kept as a refusal; nothing is recorded."""
    used_up(place)
    words = ("machine", "limit", "bug", "fix-cycle", "9", "--reason", "more")
    refused = call("--root", str(place.path), "-o", "json", "--actor", "agent:bot", *words)
    assert (refused.code, refused.error["code"]) == (6, "needs_consent")
    assert "machine.limited" not in place.types("bug")
    assert place.done("limit", "bug", "fix-cycle", "9", "--reason", "more", "--dry-run")["dry_run"]
    line = ("--root", str(place.path), "-o", "json", "audit", "refused", "--machine", "bug")
    (kept,) = call(*line).data
    assert kept["command"] == "machine.limited"


@pytest.mark.forged
@pytest.mark.parametrize("proof", [{}, {"policy": "terminal", "statement": "0" * 64}])
def test_a_limit_past_the_program_counts_for_nothing(
    place: MachinePlace, proof: dict[str, Any]
) -> None:
    """No row without a proof of this decision at this head changes it."""
    used_up(place)
    data = {"loop": "fix-cycle", "before": 2, "to": 9, "reason": "x", "approved_by": "user:ada"}
    raw(place, "machine.limited", {**data, "proof": proof}, form=1)
    place.done("update", "bug", "validation.testsPass=false")
    place.done("transition", "bug", "hotfix-implement")
    assert "fix-cycle: 1 of 2" in call("--root", str(place.path), "machine", "get", "bug").out


@pytest.mark.slow
def test_a_person_types_the_answer(place: MachinePlace) -> None:
    """Shown the loop, both limits and the reason."""
    used_up(place)
    line = ("--root", str(place.path), "--actor", "user:ada", "machine", "limit", "bug")
    code, shown = answered("y\n", *line, "fix-cycle", "3", "--reason", "One more look.")
    assert code == 0, shown
    assert "the loop fix-cycle may go 3 times instead of 2" in shown
    assert "0 are used; because: One more look." in shown
    tries(place, 3)


def test_a_track_shows_the_limit_that_a_person_gave(place: MachinePlace) -> None:
    """In the file of its protocol."""
    place.init("track", "conductor")
    place.done("limit", "track", "fix-cycle", "5", "--reason", "A long one.")
    shown = place.json("conductor/tracks/track/metadata.json")
    assert shown["loop_state"]["max_fix_cycles"] == 5
