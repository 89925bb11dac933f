"""Why a stage stands where it stands, and what would help the workflow on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from lifecycle import payload as p
from lifecycle.errors import UnknownStage
from service.causes import Causes, causes_of
from tests.adoption import support as s
from tests.cli.support import PLAN, Place, call, write_plan
from tests.history.chronicle import AGREE, CHRONICLES, FAIL, ONWARD, Chronicle
from tests.history.support import imported_log
from tests.service.test_any_history import plan

IN_A_ROW = (["stage-1"], ["stage-2"])


def types(causes: Causes) -> list[str]:
    """Return the types of the chain's events, from the newest."""
    return [link.type for link in causes.chain]


def check(causes: Causes) -> None:
    """Check that a chain goes back in time to a root, and so do those it waits for."""
    versions = [link.version for link in causes.chain]
    assert versions == sorted(set(versions), reverse=True)
    assert versions[-1] == 1
    assert all(link.sentence for link in causes.chain)
    for dependency in causes.waits_for:
        assert dependency.status != "completed"
        check(dependency)


@settings(max_examples=40)
@given(CHRONICLES)
def test_every_chain_ends_at_the_root(chronicle: Chronicle) -> None:
    """Whatever happened, for every stage there is."""
    for stage in chronicle.log.current().stages:
        check(*causes_of(chronicle.log, stage))


def test_a_stage_that_waits_leads_to_the_failure_it_waits_for() -> None:
    """Through what it depends on, down to the attempt, the retry and the failure before."""
    chronicle = Chronicle(plan(IN_A_ROW))
    for deed in (ONWARD, FAIL, ONWARD, ONWARD, FAIL):
        assert chronicle.do(deed)
    (found,) = causes_of(chronicle.log, "stage-3")
    assert found.sentence == "stage-3 (stage-3) is pending: it waits for stage-2, which is pending"
    between, failed = found.waits_for
    assert between.sentence.endswith("it waits for stage-1, which is failed")
    assert failed.sentence == "stage-1 (stage-1) is failed: exit 137"
    assert types(failed) == [
        *("stage.failed", "attempt.started", "stage.prepared", "stage.retried"),
        *("stage.failed", "attempt.started", "stage.prepared", "stage.readied"),
        "workflow.created",
    ]


@pytest.mark.parametrize("breadth", [1, 2])
def test_a_stage_that_waits_for_many_tells_each_of_them_once(breadth: int, tmp_path: Path) -> None:
    """A chain of hundreds, and as many that are joined to each other in every way there is."""
    rows = [[f"stage-{row * breadth + n + 1}" for n in range(breadth)] for row in range(300)]
    stages = [
        {"id": id_, "name": "Go", "depends_on": above}
        for above, row in zip([[], *rows], rows, strict=False)
        for id_ in row
    ]
    chosen = write_plan(tmp_path, {**PLAN, "stages": stages})
    assert call("--root", str(tmp_path), "init", str(chosen)).code == 0
    told = Place(tmp_path).done("why", rows[-1][0])["waits_for"]
    assert [one["stage"] for one in told] == [id_ for row in rows[-2::-1] for id_ in row]


def test_a_stage_that_became_stale_leads_to_who_proposed_that() -> None:
    """The cause recorded in the append, then the proposal."""
    chronicle = Chronicle(plan(IN_A_ROW))
    for deed in (ONWARD,) * 6:
        assert chronicle.do(deed)
    proposal = p.AmendmentProposed(kind="stage_rerun", stage="stage-1", description="again")
    assert chronicle.do(proposal)
    assert chronicle.do(AGREE)
    (found,) = causes_of(chronicle.log, "stage-2")
    assert found.status == "invalidated"
    assert types(found) == [
        "stage.invalidated", "amendment.approved", "amendment.proposed", "workflow.created"
    ]  # fmt: skip
    assert types(found.waits_for[0])[:2] == ["stage.readied", "amendment.approved"]


def test_a_stage_made_ready_leads_to_what_it_waited_for() -> None:
    """The completion of the stage before it, and so on."""
    chronicle = Chronicle(plan(IN_A_ROW))
    for deed in (ONWARD,) * 3:
        assert chronicle.do(deed)
    found = types(*causes_of(chronicle.log, "stage-2"))
    assert found[:4] == ["stage.readied", "stage.completed", "stage.computed", "attempt.started"]


def test_an_unknown_stage_is_not_found() -> None:
    """As everywhere."""
    with pytest.raises(UnknownStage):
        causes_of(Chronicle(plan(IN_A_ROW)).log, "stage-9")


def test_a_blocked_workflow_names_what_would_unblock_it(place: Place) -> None:
    """And why it is so; one that goes on says what is ready."""
    assert place.done("why")["ready"] == ["stage-1"]
    then = place.done("why", "--at", "session:1")
    assert then["status"] == "blocked"
    (hindrance,) = then["hindrances"]
    assert "wfctl stage retry stage-1" in hindrance["unblock"]
    assert hindrance["causes"]["chain"][0]["type"] == "stage.failed"
    text = place.call("why", "--at", "session:1").out
    assert "to unblock: `wfctl stage retry stage-1" in text


@pytest.mark.slow
def test_every_stage_of_an_imported_history_has_its_causes(tmp_path: Path) -> None:
    """Back to the beginning of the import."""
    with imported_log(s.STATES[6], tmp_path) as log:
        for stage in log.current().stages:
            check(*causes_of(log, stage))
