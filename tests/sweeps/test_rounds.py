"""Loops through the command line: which points a round takes, from whom, and what leads on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.looped import amended, give, looped, points_of_rounds
from tests.sweeps.support import lines

REALS = {"x": {"from": 0, "to": 100}}
#: What a proposer writes → what is said of it, and whether it is a try to get round consent.
REFUSED: dict[str, tuple[str | bytes, str, bool]] = {
    "outside": ("x\n7\n999\n", "point 2: x: 999 is not within", True),
    "twice": ("x\n7\n7\n", "one and the same: x=7 and x=7", True),
    "computed already": ("x\n7\n50\n", "points 2 and 4 are one and the same", True),
    "as a number with a point": ("x\n50.0\n", "x=50 and x=50.0", True),
    "too many": ("x\n7\n8\n9\n", "it has 3 points; expected 2 at most", True),
    "a header alone": ("x\n", "it has no points", True),
    "lines without a letter": ("\n\n", "it has no points", True),
    "another name": ("X\n7\n", "point 1: expected values for x, found X", True),
    "a text": ("x\nseven\n", "is not within", True),
    "a name twice": ("x,x\n7,8\n", "expected each name once, found x, x", False),
    "a cell too many": ("x\n7,8\n", "expected 1 cells, found 2", False),
    "no text": (b"\xff\xfex\x00", "expected CSV, JSON or JSON lines", False),
}


@pytest.mark.slow
@pytest.mark.few(3)
@pytest.mark.parametrize("name", REFUSED)
def test_points_that_may_not_be_computed_begin_nothing(tmp_path: Path, name: str) -> None:
    """They are named, audited once for each try, and a rerun of the proposer leads on."""
    given, said, is_audited = REFUSED[name]
    place = looped(tmp_path, given, at_most=2, within=REALS)
    ended = place.json("run")
    assert ended.code == 6
    assert said in ended.out
    assert "wfctl rerun next" in ended.out
    assert points_of_rounds(place) == []
    assert place.json("round", "propose", "walk").code in (1, 5)
    tries = place.json("audit", "bypasses").data
    assert [one["what"] for one in tries] == ["round.begun"] * 2 * is_audited
    assert "walk waits for the points of round 2" in place.call("why").out
    give(tmp_path, 1, "\ufeffx\r\n7\r\n8\r\n")
    give(tmp_path, 2, "x\n9\n")
    place.done("rerun", "next", "--reason", "It was corrected.")
    place.done("run")
    assert points_of_rounds(place) == [[7, 8]]
    assert lines(tmp_path / "trace") == ["x=0", "x=50", "x=7", "x=8"]


@pytest.mark.slow
def test_a_wider_envelope_takes_the_same_file(tmp_path: Path) -> None:
    """Nothing is computed again for it."""
    place = looped(tmp_path, "x\n150\n", "x\n151\n", at_most=2)
    assert place.json("run").code == 6
    amended(place, "--set", 'rounds.walk.within={"x": {"from": 0, "to": 200, "step": 1}}')
    place.done("run")
    assert points_of_rounds(place) == [[150]]
    assert (tmp_path / "given/asked").read_text().split() == ["1", "2"]


def _edited(path: Path) -> None:
    path.write_text("x\n9\n")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.rename(path.with_name("other.csv"))
    path.symlink_to("/etc/hostname")


@pytest.mark.slow
@pytest.mark.parametrize("change", [_edited, _pipe, _link, Path.unlink])
def test_points_that_were_not_verified_begin_nothing(
    tmp_path: Path, change: Callable[[Path], Any]
) -> None:
    """Whatever stands in place of the file that the stage left."""
    place = looped(tmp_path, "x\n150\n", at_most=2)
    assert place.json("run").code == 6
    amended(place, "--set", "rounds.walk.within.x.to=200")
    change(place.path / "next/next.csv")
    assert place.json("run").code == 6
    assert "unreadable_points" in place.json("round", "propose", "walk").out
    assert points_of_rounds(place) == []
