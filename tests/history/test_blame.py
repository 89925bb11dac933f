"""Who changed this number: for every field of every history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from lifecycle.payload import models as p
from projections.files import document_diff
from projections.files.document_diff import ABSENT
from projections.files.state_document import document
from service.errors import NotFound
from service.questions.blame import FieldChange, blame, same
from service.reading.log import WorkflowLog
from tests.adoption import support as s
from tests.history.chronicle import AGREE, CHRONICLES, Chronicle
from tests.history.support import imported_log
from tests.service.test_any_history import plan


def check_changes(trees: list[document_diff.Tree], changes: list[FieldChange]) -> None:
    """Check each against the state at its version, just before, and now."""
    for change in changes:
        version = change.event.version
        assert same(document_diff.at(trees[-1], change.path), change.new), change
        assert same(document_diff.at(trees[version], change.path), change.new), change
        assert same(document_diff.at(trees[version - 1], change.path), change.old), change
        assert not same(change.old, change.new)


def check_every_field(log: WorkflowLog) -> int:
    """Blame every part of the state, and check that no field is left out; return how many."""
    trees: list[document_diff.Tree] = [{}]
    for _, state in log.steps():
        trees.append(orjson.loads(orjson.dumps(document_diff.tree(document(state)))))
    count = 0
    for name, value in trees[-1].items():
        changes = [found.change for found in blame(log, name)]
        assert {change.path for change in changes} == {
            path for path, _ in document_diff.leaves(value, (name,))
        }
        check_changes(trees, changes)
        count += len(changes)
    return count


@settings(max_examples=25)
@given(CHRONICLES)
def test_every_field_is_blamed_on_the_event_that_gave_it_its_value(chronicle: Chronicle) -> None:
    """The new value is the state's, and the state just before shows the old one."""
    assert check_every_field(chronicle.log) > 30


@settings(max_examples=25)
@given(CHRONICLES)
def test_a_field_alone_is_blamed_as_it_is_among_others(chronicle: Chronicle) -> None:
    """By its name, dots in its keys included."""
    for name in ("stage-1", "stage-2"):
        for found in blame(chronicle.log, name):
            alone = blame(chronicle.log, document_diff.spelt(found.change.path))
            assert [one.to_dict() for one in alone] == [found.to_dict()]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*s.STATES[4:5], *s.STATES[6:]])
def test_every_field_of_an_imported_history_is_blamed(name: str, tmp_path: Path) -> None:
    """On what the log that somebody else kept says."""
    with imported_log(name, tmp_path) as log:
        assert check_every_field(log) > 50


def amended() -> Chronicle:
    """Return a workflow with a number that was set, set again, and taken away."""
    chronicle = Chronicle(plan(([], [])))
    leaves: list[dict[str, Any]] = [{"new": 1e-6}, {"new": 1e-8}, {}]
    for change in leaves:
        proposal = p.AmendmentProposed(
            kind="parameter_change",
            stage="stage-2",
            description="tighter",
            reason="energy drifts",
            changes={"parameters": {"solver_tolerance": change}},
        )
        assert chronicle.do(proposal)
        assert chronicle.do(AGREE)
    return chronicle


def test_a_changed_number_tells_who_proposed_who_agreed_and_why() -> None:
    """With the proof, and both values."""
    log = amended().log
    (found,) = blame(log, "stage-2.parameters.solver_tolerance", log.current().head - 2)
    told = found.to_dict()
    assert (told["value"], told["old"], told["type"]) == (1e-8, 1e-6, "amendment.approved")
    assert (told["proposed_by"], told["agreed_by"]) == ("agent:ralph", "user:ada")
    assert (told["policy"], told["why"], told["amendment"]) == ("trust", "energy drifts", "amend-2")


def test_a_field_that_was_taken_away_is_blamed_on_that() -> None:
    """It is not there now, and held something before."""
    (found,) = blame(amended().log, "stage-2.parameters.solver_tolerance")
    assert (found.change.old, found.change.new) == (1e-8, ABSENT)
    assert found.to_dict()["is_there"] is False


def test_a_field_that_never_was_is_not_found() -> None:
    """The message names those there are."""
    with pytest.raises(NotFound, match="success_criteria"):
        blame(amended().log, "stage-2.solver")
