"""The impact of an amendment shows its losses, its cost and less expensive alternatives."""

from __future__ import annotations

from tests.amendments.support import LONGER, Place

SKIP = ("--type", "stage_skip", "--stage", "stage-2", "--reason", "not needed")


def test_impact_of_a_skip_lists_stages_that_can_never_run(trusted: Place) -> None:
    """The impact of skipping a stage lists the blocked stages and suggests --rewire."""
    trusted.finish("stage-1")
    told = trusted.propose(*SKIP, "--dry-run")["impact"]
    assert told["blocked_for_good"] == ["stage-3"]
    assert "--rewire" in told["cheaper"][0]
    text = trusted.call("amend", "propose", *SKIP, "--dry-run").out
    assert "Can no longer start: stage-3" in text
    assert "Results that stay valid: stage-1" in text
    rewired = trusted.propose(*SKIP, "--rewire", "--dry-run")["impact"]
    assert rewired["blocked_for_good"] == []


def test_impact_lists_stages_to_compute_and_their_last_duration(trusted: Place) -> None:
    """The impact shows the stages to compute and their last durations."""
    trusted.finish("stage-1", "stage-2")
    told = trusted.propose(*LONGER)["impact"]
    assert list(told["computed_again"]) == ["stage-1", "stage-2"]
    assert all(seconds >= 0 for seconds in told["computed_again"].values())
    assert told["results_kept"] == []
    assert (
        "Runs again from the start: stage-1 (the last run took "
        in trusted.call("amend", "show", "amend-1").out
    )


def test_second_approval_is_no_bypass(trusted: Place) -> None:
    """A second approval of an amendment is refused, but the audit does not list it."""
    trusted.propose(*LONGER)
    trusted.approve()
    again = trusted.json("amend", "approve", "amend-1")
    assert (again.code, again.error["code"]) == (5, "amendment_decided")
    assert trusted.json("audit", "bypasses").code == 0


def test_help_of_propose_explains_the_types(trusted: Place) -> None:
    """The help lists the amendment types, starting with the type that reruns a stage."""
    said = " ".join(trusted.call("amend", "propose", "--help").out.split())
    names = ("stage_rerun", "stage_skip", "stage_insert", "parameter_change", "criteria_change")
    places = [said.index(f"{name}") for name in names]
    assert places == sorted(places)
