"""wfctl displays an amendment proposal that was inserted with SQL as not applicable."""

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
    "no changes": (lambda data: data.update(changes={}), "must change at least one field"),
    "another old value": (
        lambda data: data.update(changes={"parameters": {"n": {"old": 42, "new": 7}}}),
        "expects the value 42",
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
def test_raw_proposal_is_shown_with_the_reason_it_is_invalid(what: str, trusted: Place) -> None:
    """A person can show and reject the inserted proposal, but cannot approve it."""
    edit, why = UNFIT[what]
    _raw(trusted, edit)
    shown = trusted.done("amend", "show", "amend-2")
    assert (shown["takes_effect"], why in shown["why"]) == (False, True), shown
    assert "can no longer be applied" in trusted.call("amend", "show", "amend-2").out
    before = trusted.document()["stages"]
    assert trusted.call("amend", "approve", "amend-2").code != 0
    assert trusted.document()["stages"] == before
    trusted.done("amend", "reject", "amend-2")


def test_ignored_raw_proposal_is_named(trusted: Place) -> None:
    """`amend show` fails, and its error states the ignored event and the reason."""
    _raw(trusted, lambda data: data.update(kind="evil"))
    answer = trusted.json("amend", "show", "amend-2")
    assert (answer.code, answer.error["code"]) == (3, "unknown_amendment")
    assert "'amendment.proposed', is ignored: " in answer.error["message"]
