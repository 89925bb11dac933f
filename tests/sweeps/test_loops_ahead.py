"""The impact of a changed loop lists the rounds and tasks that the change adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once
from tests.cli.support import Place, write_plan
from tests.sweeps.looped import amended, give, plan

#: Criterion to end the loop, which no round fulfils.
NEVER = {"metric": "next.best", "below": 0}


@built_once
def _walked(folder: Path) -> Place:
    """Return a loop that ended after two rounds.

    A further round has at most three tasks, and a task takes at most 90 s.
    """
    given = plan(folder, at_most=2, until=NEVER, tasks=40, core_hours=2, time_limit=60)
    place = Place(folder / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(folder, given)), "--consent", "trust")
    give(folder, 1, "x\n1\n")
    give(folder, 2, "x\n2\n")
    place.done("run")
    return place


@pytest.fixture
def walked(tmp_path: Path) -> Place:
    """Return a loop that has ended after two rounds."""
    return _walked(tmp_path)


def _brings(place: Place, *changes: str) -> tuple[dict[str, Any], str]:
    """Propose changes of the loop as a dry run; return their impact as data and as text."""
    words = [word for change in changes for word in ("--set", f"rounds.walk.{change}")]
    asked = ("amend", "propose", "--reason", "More.", "--dry-run", *words)
    told: dict[str, Any] = place.done(*asked)["impact"]["loops"]
    return told.get("walk", {}), place.call(*asked).out


@pytest.mark.long
@pytest.mark.slow
def test_impact_of_continuing_an_ended_loop_states_its_limits(walked: Place) -> None:
    """The impact has the rounds, tasks and core hours that the tightest limit allows."""
    told, text = _brings(walked, "at_most=9")
    assert told["goes_on"] == {"rounds": 7, "tasks": 21, "core_hours": 0.525}
    assert (
        "walk (ended in round 2) continues: at most 7 rounds, 21 tasks, 0.525 core hours more"
        in (text)
    )
    told, text = _brings(walked, "at_most=9", "tasks=7")
    assert (told["goes_on"]["rounds"], told["goes_on"]["tasks"]) == (1, 2)
    assert "at most 1 round, 2 tasks, " in text
    for change in ("tasks=6", "core_hours=0.01"):
        assert _brings(walked, "at_most=9", change)[0] == {}
    assert _brings(walked, "at_most=1")[0] == {}


@pytest.mark.slow
def test_impact_of_other_limits_on_an_active_loop(walked: Place) -> None:
    """The impact lists the remaining rounds, or why the loop ends or stays stopped."""
    amended(walked, "--set", "rounds.walk.ask=agent", "--set", "rounds.walk.at_most=4")
    told, text = _brings(walked, "at_most=9")
    assert told["goes_on"] == {"rounds": 7, "tasks": 21, "core_hours": 0.525}
    assert not told["was_over"]
    most = "at most 7 rounds, 21 tasks, 0.525 core hours more"
    assert f"The loop walk (in round 2) continues: {most}" in text
    told, _ = _brings(walked, "tasks=7")
    assert (told["goes_on"]["rounds"], told["goes_on"]["tasks"]) == (1, 2)
    told, _ = _brings(walked, "core_hours=0.01")
    assert "no further round is within its limits" in told["ends"]
    assert _brings(walked, 'until={"metric": "next.best", "below": -1}')[0] == {}
    walked.done("round", "stop", "walk", "--reason", "Enough.")
    told, text = _brings(walked, "at_most=9")
    assert (told["goes_on"], told["stays_stopped"]) == (None, "Enough.")
    assert "The loop walk (ended in round 2) stays stopped: Enough." in text


@pytest.mark.slow
def test_impact_states_why_a_change_ends_a_loop(walked: Place) -> None:
    """The proposal, `amend show` and `inbox` state the criterion or limit."""
    shown = amended(walked, "--set", "rounds.walk.at_most=9")
    assert shown["impact"]["loops"]["walk"]["goes_on"]["rounds"] == 7
    told, text = _brings(walked, 'until={"metric": "next.best", "below": 2.5}')
    assert (told["goes_on"], told["ends"]) == (None, "next.best below 2.5")
    assert "The loop walk (in round 2) ends: next.best below 2.5" in text
    for most, limit in ((2, "2 rounds"), (1, "1 round")):
        words = ("--set", f"rounds.walk.at_most={most}", "--reason", "Enough.")
        id_ = walked.done("amend", "propose", *words)["amendment"]["id"]
        text = walked.call("amend", "show", id_).out
        ends = f"The loop walk (in round 2) ends: its limit of {limit}"
        assert f"{ends}\n" in text
        assert f"{ends} (" in walked.call("inbox").out


@pytest.mark.slow
def test_impact_lists_rounds_whose_numbers_become_invalid(walked: Place) -> None:
    """Without `--from-round`, the change makes the numbers of earlier rounds invalid."""
    change = ("--stage", "run", "--set", "parameters.n=2", "--reason", "Others.", "--dry-run")
    loops = walked.done("amend", "propose", *change)["impact"]["loops"]
    assert loops["walk"]["count_no_longer"] == [1]
    text = walked.call("amend", "propose", *change).out
    assert "The loop walk: the numbers of 1 of its 2 rounds are no longer valid" in text
    later = walked.done("amend", "propose", *change, "--from-round", "2")["impact"]["loops"]
    assert later == {}
