"""`why` explains the status of a stage and the actions that would unblock the workflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from lifecycle.errors import UnknownStage
from lifecycle.payload import models as p
from reconciler.briefing.briefing import count_tokens
from service.questions.causes import Causes, find_causes
from tests.adoption import support as s
from tests.cli.support import PLAN, Place, call, write_plan
from tests.history.chronicle import AGREE, CHRONICLES, FAIL, ONWARD, Chronicle
from tests.history.support import imported_log
from tests.service.test_any_history import plan

IN_A_ROW = (["stage-1"], ["stage-2"])


def types(causes: Causes) -> list[str]:
    """Return the types of the events in the chain of causes, newest first."""
    return [link.type for link in causes.chain]


def check(causes: Causes) -> None:
    """Check that the causes go back in time to the first event, without repetition."""
    every = [causes, *causes.waits_for]
    for one in every:
        versions = [link.version for link in one.chain]
        assert versions == sorted(versions, reverse=True)
        assert all(link.sentence for link in one.chain)
    told = [link.version for one in every for link in one.chain]
    assert len(told) == len(set(told))
    assert causes.chain[-1].version == 1
    assert all(one.status != "completed" and not one.waits_for for one in causes.waits_for)


@settings(max_examples=40)
@given(CHRONICLES)
def test_every_causal_chain_ends_at_the_first_event(chronicle: Chronicle) -> None:
    """For each stage of any history, the chain of causes ends at the first event."""
    for stage in chronicle.log.current().stages:
        check(*find_causes(chronicle.log, stage))


def test_causes_of_a_waiting_stage_include_the_failure() -> None:
    """The chain leads through the dependencies to the failed attempt and its earlier retry."""
    chronicle = Chronicle(plan(IN_A_ROW))
    for deed in (ONWARD, FAIL, ONWARD, ONWARD, FAIL):
        assert chronicle.do(deed)
    (found,) = find_causes(chronicle.log, "stage-3")
    assert found.sentence == "stage-3 (stage-3) is pending: it waits for stage-2, which is pending"
    between, failed = found.waits_for
    assert between.sentence.endswith("it waits for stage-1, which is failed")
    assert failed.sentence == "stage-1 (stage-1) is failed: exit 137"
    assert types(failed) == ["stage.failed", "stage.retried", "stage.failed"]


@pytest.mark.parametrize("breadth", [1, 2])
def test_why_names_each_awaited_stage_once(breadth: int, tmp_path: Path) -> None:
    """`why` names each of hundreds of stages once, in a chain and in rows of two stages."""
    rows = [[f"stage-{row * breadth + n + 1}" for n in range(breadth)] for row in range(300)]
    stages = [
        {"id": id_, "name": "Go", "depends_on": above}
        for above, row in zip([[], *rows], rows, strict=False)
        for id_ in row
    ]
    chosen = write_plan(tmp_path, {**PLAN, "stages": stages})
    assert call("--root", str(tmp_path), "init", str(chosen), "--consent", "trust").code == 0
    told = Place(tmp_path).done("why", rows[-1][0])["waits_for"]
    assert [one["stage"] for one in told] == [id_ for row in rows[-2::-1] for id_ in row]


def test_causes_of_an_invalidated_stage_include_the_proposal() -> None:
    """The chain of causes has the approval of the amendment and then its proposal."""
    chronicle = Chronicle(plan(IN_A_ROW))
    for deed in (ONWARD,) * 6:
        assert chronicle.do(deed)
    proposal = p.AmendmentProposed(kind="stage_rerun", stage="stage-1", description="again")
    assert chronicle.do(proposal)
    assert chronicle.do(AGREE)
    (found,) = find_causes(chronicle.log, "stage-2")
    assert found.status == "invalidated"
    assert types(found) == [
        "stage.invalidated", "amendment.approved", "amendment.proposed", "workflow.created"
    ]  # fmt: skip
    assert types(found.waits_for[0]) == ["stage.readied", "stage.invalidated"]


def test_causes_of_a_ready_stage_include_the_completed_dependency() -> None:
    """The chain of causes has stage.readied, stage.completed and workflow.created."""
    chronicle = Chronicle(plan(IN_A_ROW))
    for deed in (ONWARD,) * 3:
        assert chronicle.do(deed)
    found = types(*find_causes(chronicle.log, "stage-2"))
    assert found == ["stage.readied", "stage.completed", "workflow.created"]


def test_causes_follow_all_dependencies_to_the_newest_event() -> None:
    """After a rerun, the chain names the reason for the rerun and no outdated completion."""
    chronicle = Chronicle(plan((["stage-1"], ["stage-1", "stage-2"])))
    for _ in range(9):
        chronicle.do(ONWARD)
    (found,) = find_causes(chronicle.log, "stage-3")
    done = [link.stage for link in found.chain if link.type == "stage.completed"]
    assert done == ["stage-3", "stage-2", "stage-1"]
    before = chronicle.log.current().head
    assert chronicle.do(
        p.AmendmentProposed(kind="stage_rerun", stage="stage-2", description="again")
    )
    assert chronicle.do(AGREE)
    for _ in range(6):
        chronicle.do(ONWARD)
    (again,) = find_causes(chronicle.log, "stage-3")
    newer = [(link.type, link.stage) for link in again.chain if link.version > before]
    assert newer[0] == ("stage.completed", "stage-3")
    assert ("stage.completed", "stage-2") in newer
    assert ("amendment.approved", "stage-2") in newer or "amendment.approved" in dict(newer)
    obsolete = [
        link
        for link in again.chain
        if link.version <= before and link.type == "stage.completed" and link.stage != "stage-1"
    ]
    assert obsolete == []


@pytest.mark.slow
def test_why_and_blame_fit_a_screen_or_the_token_budget(tmp_path: Path) -> None:
    """Even if 198 stages wait, the short output names the stage that needs an action."""
    stages = [
        {"id": f"stage-{n}", "name": "Go", "depends_on": [f"stage-{n - 1}"] if n > 1 else []}
        for n in range(1, 200)
    ]
    chosen = write_plan(tmp_path, {**PLAN, "stages": stages})
    assert call("--root", str(tmp_path), "init", str(chosen), "--consent", "trust").code == 0
    place = Place(tmp_path)
    for number in range(4):
        place.done("stage", "prepare", "stage-1")
        place.done("stage", "fail", "stage-1", "--error", f"broke {number} " * 200)
        if number < 3:
            place.done("stage", "retry", "stage-1", "--fix", "once more " * 50)
    for line in (["why", "stage-199"], ["why"], ["blame", "stage-1"]):
        told = place.call(*line).out
        assert len(told.splitlines()) <= 24, told
        assert "stage-1" in told
        for budget in (300, 600):
            for form in ("text", "json"):
                shown = place.call("-o", form, *line, "--brief", str(budget)).out
                assert count_tokens(shown) <= budget, (line, form, shown)


def test_causes_of_an_unknown_stage_raise_an_error() -> None:
    """Asking for the causes of an unknown stage raises UnknownStage."""
    with pytest.raises(UnknownStage):
        find_causes(Chronicle(plan(IN_A_ROW)).log, "stage-9")


def test_why_names_the_command_that_unblocks_a_workflow(place: Place) -> None:
    """`why` names the unblocking command. If nothing is blocked, it lists ready stages."""
    assert place.done("why")["ready"] == ["stage-1"]
    then = place.done("why", "--at", "session:1")
    assert then["status"] == "blocked"
    (hindrance,) = then["hindrances"]
    assert "wfctl stage retry stage-1" in hindrance["unblock"]
    assert hindrance["causes"]["chain"][0]["type"] == "stage.failed"
    text = place.call("why", "--at", "session:1").out
    assert "to unblock: `wfctl stage retry stage-1" in text


@pytest.mark.slow
def test_causes_of_imported_stages_end_at_the_import(tmp_path: Path) -> None:
    """Every stage of a real imported history has a chain of causes back to the import."""
    with imported_log(s.STATES[6], tmp_path) as log:
        for stage in log.current().stages:
            check(*find_causes(log, stage))
