"""A mandate (permission given in advance) must cover each changed entry of a list."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from lifecycle.words.mandates import RULE
from tests.amendments.forgery import proof as bound
from tests.amendments.mandated import BO, Mandated, made, plan_with
from tests.cli.support import Answer

pytestmark = pytest.mark.slow

#: Bounds of a mandate that apply to a number, or to each entry of a list.
RANGE = {"from": 300, "to": 400, "step": 10}
#: For each case: the old and new value of `parameters.p`, the bounds of the mandate by parameter,
#: and the expected objection (empty if the mandate covers the change).
CASES: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a shorter list within a range": ([300, 310], [300], {"p": RANGE}, "a shorter list"),
    "an empty list": ([300, 310], [], {"p": RANGE}, "a shorter list"),
    "a number instead of a list": ([300, 310], 300, {"p": RANGE}, "300 has another shape"),
    "a later entry takes the value of the first": ([1, 2], [1, 1], {}, "no bounds are given"),
    "a first entry that nobody changes": ([1, 300], [1, 310], {"p": RANGE}, ""),
    "an added entry without a bound": ([300], [300, 300], {}, "no bounds are given"),
    "an added entry beyond the range": ([300], [300, 500], {"p": RANGE}, "500 is not within"),
    "an added entry within the range": ([300], [300, 400], {"p": RANGE}, ""),
    "an added list within a list of numbers": ([300], [300, [310]], {"p": RANGE}, "[310] is not"),
    "a shorter list inside a list": ([[300, 310]], [[300]], {"p": RANGE}, "a shorter list"),
    "an added list": ([[300, 310]], [[300, 310], [320]], {"p": RANGE}, ""),
    "an added empty list": ([[300, 310]], [[300, 310], []], {"p": RANGE}, "[] has another shape"),
    "a key of a later object": ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 1}], {}, "p.a: no bounds"),
    "a key taken from an object": ([{"a": 1, "b": 2}], [{"a": 1}], {"p.a": RANGE}, "take it away"),
    "an added object with a free key": (
        [{"a": 300, "b": 1}],
        [{"a": 300, "b": 1}, {"a": 310, "b": 1}],
        {"p.a": RANGE},
        "p.b: no bounds",
    ),
    "an added object with bounds for all keys": (
        [{"a": 300, "b": 300}],
        [{"a": 300, "b": 300}, {"a": 310, "b": 320}],
        {"p.a": RANGE, "p.b": RANGE},
        "",
    ),
    "a shorter list that the mandate lists": ([1, 2, 3], [1], {"p": [[1], [1, 2]]}, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_each_place_of_a_list_needs_a_bound(name: str, tmp_path: Path) -> None:
    """A mandate covers a changed list only if it has bounds for each changed entry."""
    old, new, bounds, why = CASES[name]
    place = _made(tmp_path, {"p": old}, bounds)
    told = place.done(*BO, *_words("p", new), "--dry-run")
    assert told["mandate"] == (None if why else "sampling"), told
    assert why in str(told["not_within"].get("sampling", "")), told


def test_mandate_for_one_parameter_cannot_remove_sweep_points(
    tmp_path: Path,
) -> None:
    """The amendment waits for a person."""
    place = _made(tmp_path, {"map": {"grid": {"T": [300, 310, 320]}}, "x": 1}, {"x": RANGE})
    told = place.done(*BO, *_words("map.grid.T", [300]))
    assert (told["mandate"], told["amendment"]["status"]) == (None, "proposed")
    assert "map.grid.T: no bounds allow a shorter list" in str(told["not_within"]["sampling"])


@pytest.mark.forged
def test_approval_by_an_older_rule_version_stays_valid(tmp_path: Path) -> None:
    """An approval by older rules is valid until newer rules are used in the same log."""
    place = _made(tmp_path, {"p": [300, 310, 320], "q": 300}, {"q": RANGE})
    _append_old_approval(place, [300])
    assert _parameters(place)["p"] == [300]
    assert place.call("fsck", "--protocol").code == 0
    assert "ineffective" not in [one["kind"] for one in place.bypasses()]
    assert place.done(*BO, *_words("q", 310))["mandate"] == "sampling"
    place.is_sound()
    _append_old_approval(place, [300, 300])
    assert _parameters(place)["p"] == [300]
    assert "version 1 of the rules of mandates" in str(place.bypasses())


@pytest.mark.forged
@pytest.mark.parametrize("version", [RULE + 1, 0, True, "1", None])
def test_approval_by_an_unknown_rule_version_is_ignored(version: Any, tmp_path: Path) -> None:
    """wfctl ignores the approval, because unknown rules might allow less."""
    place = _made(tmp_path, {"p": [300, 310, 320], "q": 300}, {"q": RANGE})
    _append_old_approval(place, [300], mandate_rule=version)
    assert _parameters(place)["p"] == [300, 310, 320]


def _made(folder: Path, parameters: dict[str, Any], bounds: dict[str, Any]) -> Mandated:
    values = {f"stage-1.parameters.{path}": one for path, one in bounds.items()}
    plan = copy.deepcopy(plan_with(values=values, amendments=9))
    plan["stages"][0]["parameters"] |= parameters
    if "map" in parameters:
        plan["stages"][0]["outputs"] = ["stage-1/tasks.json"]
    return made(folder, "trust", plan)


def _words(path: str, value: Any) -> list[str]:
    change = f"parameters.{path}={json.dumps(value)}"
    return ["amend", "propose", "--stage", "stage-1", "--set", change, "--reason", "other values"]


def _parameters(place: Mandated) -> dict[str, Any]:
    found: dict[str, Any] = place.document()["stages"][0]["parameters"]
    return found


def _append_old_approval(place: Mandated, value: list[int], **more: Any) -> None:
    """Propose a value of `p`, and record its approval as an older wfctl did."""
    change = {"parameters": {"p": {"new": value}}}
    asked = {"kind": "parameter_change", "stage": "stage-1", "description": "p", "reason": "x"}
    data = json.dumps({**asked, "changes": change})
    place.done(*BO, "append", "amendment.proposed", "--data", data)
    id_ = place.done("amend", "list", "--state", "proposed")[-1]["id"]
    answer: Answer = place.call("amend", "show", id_, "--statement")
    known = json.loads(answer.out)
    proof = {**bound(answer.out, policy="mandate"), "mandate": "sampling"}
    row = {
        "amendment": id_,
        "version": place.document()["version"] + 1,
        "invalidated_stages": known["impact"]["affected"],
        "approved_by": "mandate sampling",
        "proof": {**proof, "by": "mandate sampling", **more},
        "kept": {},
        "scripts": known["scripts"],
    }
    place.write_row("amendment.approved", row, actor={"kind": "agent", "name": "bo"})
