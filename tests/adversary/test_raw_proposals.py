"""A proposal that somebody wrote past the program: a look at it says that it takes no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.adversary import raw
from tests.amendments.support import LONGER, Place

pytestmark = pytest.mark.forged

Edit = Callable[[dict[str, Any]], None]

UNFIT: dict[str, tuple[Edit, str]] = {
    "another stage": (lambda data: data.update(stage="stage-99"), "no stage 'stage-99'"),
    "no changes": (lambda data: data.update(changes={}), "changes at least one field"),
    "another old value": (
        lambda data: data.update(changes={"parameters": {"n": {"old": 42, "new": 7}}}),
        "it was 42",
    ),
}


def _raw(place: Place, edit: Edit) -> None:
    place.propose(*LONGER)
    honest = raw.bodies(place.path)[-1]
    place.done("amend", "reject", "amend-1")
    data = {**honest["data"], "amendment": "amend-2"}
    edit(data)
    raw.append(place.path, "amendment.proposed", data, schema_version=honest["schema_version"])


@pytest.mark.parametrize("what", UNFIT)
def test_a_raw_proposal_is_shown_with_why_it_takes_no_effect(what: str, trusted: Place) -> None:
    """It can be looked at and rejected, and nothing else."""
    edit, why = UNFIT[what]
    _raw(trusted, edit)
    shown = trusted.done("amend", "show", "amend-2")
    assert (shown["takes_effect"], why in shown["why"]) == (False, True), shown
    assert "takes no effect" in trusted.call("amend", "show", "amend-2").out
    before = trusted.document()["stages"]
    assert trusted.call("amend", "approve", "amend-2").code != 0
    assert trusted.document()["stages"] == before
    trusted.done("amend", "reject", "amend-2")


def test_a_raw_proposal_that_is_set_aside_is_named(trusted: Place) -> None:
    """Who asks for it learns which version is ignored, and why."""
    _raw(trusted, lambda data: data.update(kind="evil"))
    answer = trusted.json("amend", "show", "amend-2")
    assert (answer.code, answer.error["code"]) == (3, "unknown_amendment")
    assert "'amendment.proposed', is ignored: " in answer.error["message"]
