"""What a person who decides is told beside the impact: what is lost, what it costs, what is not."""

from __future__ import annotations

from tests.amendments.support import LONGER, Place

SKIP = ("--type", "stage_skip", "--stage", "stage-2", "--reason", "not needed")


def test_a_skip_says_what_it_blocks_for_good_and_the_cheaper_way(trusted: Place) -> None:
    """Without rewiring the dependent could never run; with it nothing is blocked."""
    trusted.finish("stage-1")
    told = trusted.propose(*SKIP, "--dry-run")["impact"]
    assert told["blocked_for_good"] == ["stage-3"]
    assert "--rewire" in told["cheaper"][0]
    text = trusted.call("amend", "propose", *SKIP, "--dry-run").out
    assert "Blocked for good: stage-3" in text
    assert "Goes on to count: stage-1" in text
    rewired = trusted.propose(*SKIP, "--rewire", "--dry-run")["impact"]
    assert rewired["blocked_for_good"] == []


def test_a_change_says_what_is_computed_again_and_how_long_it_took(trusted: Place) -> None:
    """Of each stage that runs again; the person who approves is shown it too."""
    trusted.finish("stage-1", "stage-2")
    told = trusted.propose(*LONGER)["impact"]
    assert list(told["computed_again"]) == ["stage-1", "stage-2"]
    assert all(seconds >= 0 for seconds in told["computed_again"].values())
    assert told["results_kept"] == []
    assert "Computed again: stage-1 (took " in trusted.call("amend", "show", "amend-1").out


def test_who_agrees_twice_is_not_said_to_get_round_consent(trusted: Place) -> None:
    """A second approval of what is approved is refused, and no bypass."""
    trusted.propose(*LONGER)
    trusted.approve()
    again = trusted.json("amend", "approve", "amend-1")
    assert (again.code, again.error["code"]) == (5, "amendment_decided")
    assert trusted.json("audit", "bypasses").code == 0


def test_the_types_are_explained_where_one_asks_for_them(trusted: Place) -> None:
    """The one that computes again comes first."""
    said = " ".join(trusted.call("amend", "propose", "--help").out.split())
    names = ("stage_rerun", "stage_skip", "stage_insert", "parameter_change", "criteria_change")
    places = [said.index(f"{name}") for name in names]
    assert places == sorted(places)
