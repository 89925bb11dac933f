"""What a reader is told of the rounds of a loop: side by side, of each point, and with a proof."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.sweeps.looped import looped

pytestmark = pytest.mark.slow


def test_rounds_stand_beside_each_other_as_attempts_do(tmp_path: Path) -> None:
    """With numbers, points, proposer and cost; a loop alone is compared over its rounds."""
    place = looped(tmp_path, "x\n1\n2\n", "x\n3\n", at_most=2)
    place.done("run")
    one, two = "walk@1", "walk@2"
    found = {row["name"]: row for row in place.done("compare", one, two, "--all")["rows"]}
    assert found["next.best"]["difference"][two]["value"] == 1
    assert found["points"]["values"] == {one: [{"x": 0}, {"x": 50}], two: [{"x": 1}, {"x": 2}]}
    assert found["points added"]["values"] == {one: 2, two: 2}
    assert found["proposer"]["values"] == {one: "the plan", two: "stage:next"}
    assert min(found["core hours"]["values"].values()) > 0
    assert len(found["next/next.csv"]["values"][two]) == 64
    rows = csv.DictReader(io.StringIO(place.call("-o", "csv", "compare", one, two).out))
    assert {row["name"]: row[two] for row in rows}["next.best"] == "2.0"
    runs = place.done("compare", "walk", "--runs", "--sort", "-next.best")
    assert [(run["side"], run["next.best"]) for run in runs] == [(two, 2), (one, 1)]
    past = place.json("compare", one, "walk@3")
    assert (past.code, past.error["code"]) == (3, "not_found")
    other = place.json("compare", one, "talk@1")
    assert (other.code, other.error["code"]) == (3, "unknown_loop")
