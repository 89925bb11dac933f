"""`blame` names the event that set each field, for every field of every history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from lifecycle.payload import models as p
from projections.files import document_paths
from projections.files.document_paths import ABSENT
from projections.files.state_document import build_document
from service.errors import NotFound
from service.questions.blame import FieldChange, find_blame, is_same_json
from service.reading.log import WorkflowLog
from tests.adoption import support as s
from tests.history.chronicle import AGREE, CHRONICLES, Chronicle
from tests.history.support import imported_log
from tests.service.test_any_history import plan


def check_changes(trees: list[document_paths.Tree], changes: list[FieldChange]) -> None:
    """Check each change against the state at its version, at the previous version, and now."""
    for change in changes:
        version = change.event.version
        assert is_same_json(document_paths.get_at_path(trees[-1], change.path), change.new), change
        assert is_same_json(document_paths.get_at_path(trees[version], change.path), change.new), (
            change
        )
        assert is_same_json(
            document_paths.get_at_path(trees[version - 1], change.path), change.old
        ), change
        assert not is_same_json(change.old, change.new)


def check_every_field(log: WorkflowLog) -> int:
    """Blame every part of the state, and check that no field is missing.

    Return the number of checked fields.
    """
    trees: list[document_paths.Tree] = [{}]
    for _, state in log.steps():
        trees.append(orjson.loads(orjson.dumps(document_paths.build_tree(build_document(state)))))
    count = 0
    for name, value in trees[-1].items():
        changes = [found.change for found in find_blame(log, name)]
        assert {change.path for change in changes} == {
            path for path, _ in document_paths.iterate_leaves(value, (name,))
        }
        check_changes(trees, changes)
        count += len(changes)
    return count


@settings(max_examples=25)
@given(CHRONICLES)
def test_blame_names_the_event_that_set_each_field(chronicle: Chronicle) -> None:
    """The state at the event has the new value, and the state before it has the old value."""
    assert check_every_field(chronicle.log) > 30


@settings(max_examples=25)
@given(CHRONICLES)
def test_blame_of_a_single_field_matches_blame_of_its_stage(chronicle: Chronicle) -> None:
    """The answers are equal, also for a field whose name contains a key with dots."""
    for name in ("stage-1", "stage-2"):
        for found in find_blame(chronicle.log, name):
            alone = find_blame(chronicle.log, document_paths.format_path(found.change.path))
            assert [one.to_dict() for one in alone] == [found.to_dict()]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*s.STATES[4:5], *s.STATES[6:]])
def test_blame_covers_every_field_of_an_imported_history(name: str, tmp_path: Path) -> None:
    """`blame` names events of a log that was kept by hand and imported."""
    with imported_log(name, tmp_path) as log:
        assert check_every_field(log) > 50


def amended() -> Chronicle:
    """Return a workflow with a number that was set, changed and removed by amendments."""
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


def test_blame_names_proposer_approver_and_reason() -> None:
    """For an amended field, the answer also has the consent policy and both values."""
    log = amended().log
    (found,) = find_blame(log, "stage-2.parameters.solver_tolerance", log.current().head - 2)
    told = found.to_dict()
    assert (told["value"], told["old"], told["type"]) == (1e-8, 1e-6, "amendment.approved")
    assert (told["proposed_by"], told["agreed_by"]) == ("agent:ralph", "user:ada")
    assert (told["policy"], told["why"], told["amendment"]) == ("trust", "energy drifts", "amend-2")


def test_blame_of_a_removed_field_names_the_removal() -> None:
    """`blame` names the event that removed the field, and the value that it had before."""
    (found,) = find_blame(amended().log, "stage-2.parameters.solver_tolerance")
    assert (found.change.old, found.change.new) == (1e-8, ABSENT)
    assert found.to_dict()["is_there"] is False


def test_blame_of_an_unknown_field_is_refused() -> None:
    """The error for an unknown field lists the existing fields."""
    with pytest.raises(NotFound, match="success_criteria"):
        find_blame(amended().log, "stage-2.solver")
