"""The limit of a loop comes from the definition, an option, a field, or a person's decision."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adversary.test_machines import raw
from tests.cli.support import call
from tests.cli.terminal import answered
from tests.machines.place import MachinePlace
from tests.machines.support import small_data


def tries(place: MachinePlace, most: int) -> None:
    """Repeat the loop until its limit, and check that the next repetition leads to `blocked`."""
    for round_ in range(most + 1):
        place.done("update", "bug", "validation.testsPass=false")
        phase = place.done("transition", "bug", "hotfix-implement")["phase"]
        assert phase == ("hotfix-implement" if round_ < most else "blocked")
        if round_ < most:
            place.done("transition", "bug", "hotfix-validate")


def test_limit_can_be_set_when_a_machine_starts(place: MachinePlace) -> None:
    """`init --limit LOOP=N` sets the limit of one loop. The other loops keep their limits."""
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
def test_invalid_limit_is_refused(place: MachinePlace, said: str) -> None:
    """`machine init` refuses an invalid limit and creates no machine."""
    line = ("init", "bug", "--type", "debug", "--limit", said)
    place.refused("INVALID_INPUT", 2, *line)
    assert not (place.path / ".wfctl").exists()


def own(place: MachinePlace) -> str:
    """Write a definition whose loop reads its limit from a field, and return the path."""
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


def test_limit_is_read_from_a_field(place: MachinePlace) -> None:
    """The field's value at the start is the limit. wfctl refuses later updates of the field."""
    path = own(place)
    place.done("init", "one", "--definition", path, "--consent", "trust", "plan.rounds=1")
    place.refused("RESERVED_FIELD", 5, "update", "one", "plan.rounds=9")
    place.refused("RESERVED_FIELD", 5, "update", "one", 'plan={"rounds": 9}')
    place.done("update", "one", "bad=true")
    for to, phase in (("b", "b"), ("a", "a"), ("b", "b"), ("a", "stuck")):
        assert place.done("transition", "one", to)["phase"] == phase


@pytest.mark.parametrize("value", ["0", "1.5", "true", '"3"', "1001", "[3]"])
def test_invalid_limit_in_a_field_is_refused(place: MachinePlace, value: str) -> None:
    """wfctl accepts only whole numbers from 1 to 1000 as a limit."""
    place.refused(
        "INVALID_INPUT", 2, "init", "one", "--definition", own(place), f"plan.rounds={value}"
    )
    line = ("init", "t", "--type", "conductor", f"loop_state.max_fix_cycles={value}")
    place.refused("INVALID_INPUT", 2, *line)


@pytest.mark.parametrize("how", ["--limit", "field"])
def test_track_file_shows_the_limit_from_the_start(place: MachinePlace, how: str) -> None:
    """The track file shows a limit that was given with `--limit` or as a field."""
    word = "loop_state.max_fix_cycles=5"
    place.init("track", "conductor", *(("--limit", "fix-cycle=5") if how == "--limit" else (word,)))
    shown = place.json("conductor/tracks/track/metadata.json")["loop_state"]
    assert shown["max_fix_cycles"] == 5


def used_up(place: MachinePlace, *how: str) -> None:
    """Create a debug machine, and move it to the phase in which its loop can repeat."""
    place.done("init", "bug", "--type", "debug", *how)
    place.done("update", "bug", "triage.symptom=x", "track=hotfix")
    for phase in ("investigate", "hotfix-implement", "hotfix-validate"):
        place.done("transition", "bug", phase)


def test_person_can_change_a_limit_later(place: MachinePlace) -> None:
    """`machine limit` changes how often the loop may run, and the log has the reason."""
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


def test_agent_cannot_change_a_limit(place: MachinePlace) -> None:
    """Under the policy `terminal`, wfctl refuses `machine limit`; the audit lists the refusal."""
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
def test_forged_limit_is_ignored(place: MachinePlace, proof: dict[str, Any]) -> None:
    """An event in the log without a valid proof of consent does not change the limit."""
    used_up(place)
    data = {"loop": "fix-cycle", "before": 2, "to": 9, "reason": "x", "approved_by": "user:ada"}
    raw(place, "machine.limited", {**data, "proof": proof}, form=1)
    place.done("update", "bug", "validation.testsPass=false")
    place.done("transition", "bug", "hotfix-implement")
    assert "fix-cycle: 1 of 2" in call("--root", str(place.path), "machine", "get", "bug").out


@pytest.mark.slow
def test_person_confirms_a_limit_at_a_terminal(place: MachinePlace) -> None:
    """wfctl asks the person a question that shows the loop, both limits and the reason."""
    used_up(place)
    line = ("--root", str(place.path), "--actor", "user:ada", "machine", "limit", "bug")
    code, shown = answered("y\n", *line, "fix-cycle", "3", "--reason", "One more look.")
    assert code == 0, shown
    assert "the loop fix-cycle may run 3 times instead of 2" in shown
    assert "0 are used; because: One more look." in shown
    tries(place, 3)


def test_track_file_shows_the_limit_set_by_a_person(place: MachinePlace) -> None:
    """After `machine limit`, the field `max_fix_cycles` of the track file has the new limit."""
    place.init("track", "conductor")
    place.done("limit", "track", "fix-cycle", "5", "--reason", "A long one.")
    shown = place.json("conductor/tracks/track/metadata.json")
    assert shown["loop_state"]["max_fix_cycles"] == 5
