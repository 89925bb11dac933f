"""Loops on the command line: the points of each round, their proposer, and the next step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adversary.raw import append
from tests.built_once import built_once
from tests.cli.support import Place
from tests.exports.support import text_of
from tests.pages.support import served
from tests.sweeps.looped import amended, give, looped, points_of_rounds
from tests.sweeps.support import lines

REALS = {"x": {"from": 0, "to": 100}}
#: For each invalid proposal: the content of its file, a part of the error, and whether the audit
#: lists the attempt to use it.
REFUSED: dict[str, tuple[str | bytes, str, bool]] = {
    "outside": ("x\n7\n999\n", "point 2: x: 999 is not within", True),
    "twice": ("x\n7\n7\n", "have the same values (x=7 and x=7)", True),
    "computed already": ("x\n7\n50\n", "points 2 and 4 have the same values", True),
    "as a number with a point": ("x\n50.0\n", "x=50 and x=50.0", True),
    "too many": ("x\n7\n8\n9\n", "the round has 3 points; the loop allows at most 2", True),
    "a header alone": ("x\n", "has no points", True),
    "lines without a letter": ("\n\n", "has no points", True),
    "another name": ("X\n7\n", "point 1: expected values for x, found X", True),
    "a text": ("x\nseven\n", "is not within", True),
    "a name twice": ("x,x\n7,8\n", "each name must occur once, but the names are x, x", False),
    "no text": (b"\xff\xfex\x00", "expected CSV, JSON or JSON lines", False),
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_invalid_points_do_not_start_a_round(tmp_path: Path, name: str) -> None:
    """The error names the points; after a rerun of the proposer, the loop continues."""
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


#: For each reason why a loop waits: the proposal, the fields of the loop, and a part of the
#: message.
WAITS: dict[str, tuple[str, dict[str, Any], str]] = {
    "for an agent": ("x\n7\n", {"ask": "agent"}, "waits for the points of round 2"),
    "a point outside the envelope": ("x\n999\n", {}, "x: 999 is not within"),
    "an empty proposal": ("x\n", {}, "has no points"),
    "more points than tasks are left": ("x\n7\n8\n", {"tasks": 5}, "2 of its 5 are left"),
}


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("name", WAITS)
def test_run_is_blocked_while_the_last_loop_waits(tmp_path: Path, name: str) -> None:
    """All stages are completed, but wfctl refuses to end a session as completed."""
    given, loop, reason = WAITS[name]
    place = looped(tmp_path, given, is_last=True, **loop)
    ended = place.json("run")
    assert ended.code == 6
    assert reason in ended.out
    assert "round walk: waits for the points of round 2" in place.call("inbox").out
    place.done("session", "start")
    refused = place.json("session", "end", "--reason", "completed")
    assert (refused.code, refused.error["code"]) == (5, "not_finished")
    assert "loop walk" in refused.error["message"]
    place.done("session", "end", "--reason", "blocked", "--next", "Correct the proposer.")
    place.done("round", "stop", "walk", "--reason", "good enough")
    assert place.done("run")["exit_reason"] == "completed"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("limit", [{"tasks": 3}, {"core_hours": 0.05}])
def test_loop_ends_when_its_limit_allows_no_further_point(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    """The workflow completes without a person, and a higher limit lets the loop continue."""
    place = looped(tmp_path, "x\n7\n", "x\n8\n", "x\n9\n", is_last=True, time_limit=60, **limit)
    assert place.done("run")["exit_reason"] == "completed"
    assert "no further round is within its limits" in place.call("status").out
    (name,) = limit
    amended(place, "--set", f"rounds.walk.{name}=100")
    place.done("run")
    assert points_of_rounds(place) == [[7], [8]]


@pytest.mark.long
@pytest.mark.slow
def test_wider_envelope_accepts_the_existing_proposal(tmp_path: Path) -> None:
    """After an amendment widens the allowed range, the proposer does not run again."""
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


@built_once
def _refused(folder: Path) -> Place:
    """Return a loop that refused a proposed point, which an amendment then allows."""
    place = looped(folder, "x\n150\n", at_most=2)
    assert place.json("run").code == 6
    amended(place, "--set", "rounds.walk.within.x.to=200")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("change", [_edited, _pipe, _link, Path.unlink])
def test_unverified_points_file_does_not_start_a_round(
    tmp_path: Path, change: Callable[[Path], Any]
) -> None:
    """wfctl refuses a points file that was edited, deleted, or replaced by a pipe or link."""
    place = _refused(tmp_path)
    change(place.path / "next/next.csv")
    assert place.json("run").code == 6
    assert "unreadable_points" in place.json("round", "propose", "walk").out
    assert points_of_rounds(place) == []


#: For each invalid second proposal of an agent: a part of the error.
PROPOSED = {
    '[{"x": NaN}]': "Out of range float values",
    '[{"x": 1e400}]': "Out of range float values",
    '[{"x": "\\ud800"}]': "surrogates not allowed",
    "[" * 100_000: "expected CSV, JSON or JSON lines",
    '[{"x": "9"}]': 'x: \\"9\\" is not within',
    '[{"x": 9.0}]': "x: 9.0 is not within",
    '[{"x": true}]': "x: true is not within",
    '[{"x": [9]}]': "x: [9] is not within",
    '[{"x": 7}]': "have the same values (x=7 and x=7)",
    '[{"y": 1, "x": 9}]': "expected values for x, found y, x",
    '{"x": 9}': "must be a list of objects",
    "[9]": "must be a list of objects",
    "": "has no points",
}


@pytest.mark.long
@pytest.mark.slow
def test_agent_starts_a_round_once_with_valid_points(tmp_path: Path) -> None:
    """The agent may repeat its proposal, but wfctl refuses another one and invalid points."""
    place = looped(tmp_path, "", ask="agent")
    (tmp_path / "given/1").write_text("x\n0\n")
    (tmp_path / "given/2").write_text("x\n0\n")
    assert place.json("run").code == 6
    assert place.done("round", "ask", "walk")["asks_for"] == 2
    first = ("round", "propose", "walk", "--command-id", "one", "--points")
    for _ in range(2):
        place.done(*first, '[{"x": 7}]')
    assert place.json(*first, '[{"x": 8}]').code == 4
    assert place.json(*first[:3], "--points", '[{"x": 8}]').code == 5
    assert place.json("run").code == 6
    for points, said in PROPOSED.items():
        answer = place.json("round", "propose", "walk", "--points", points)
        assert (answer.code in (1, 5), said in answer.out) == (True, True), (points[:40], answer)
    (tmp_path / "next.jsonl").write_text('{"x": 9}\n{"x": Infinity}\n')
    answer = place.json("round", "propose", "walk", str(tmp_path / "next.jsonl"))
    assert answer.error["code"] == "unreadable_points"
    assert points_of_rounds(place) == [[7]]


def test_plan_approval_shows_the_envelope_of_a_loop(tmp_path: Path) -> None:
    """The approval shows each limit of the loop on its own line, whatever its description."""
    place = looped(tmp_path, consent="terminal", description="a" * 10_000)
    shown = place.call("amend", "show", "plan").out.splitlines()
    assert '  within x: {"from": 0, "to": 100, "step": 1}' in shown
    assert {"  at_most: 3", "  each: 2", '  ask: "next/next.csv"'} <= {*shown}


@pytest.mark.long
@pytest.mark.slow
def test_tolerated_failure_is_not_retried_in_later_rounds(tmp_path: Path) -> None:
    """The failed task does not run again and stays listed as failed."""
    place = looped(tmp_path, *(f"x\n{n}\n" for n in (1, 2, 3)))
    fails = f'echo "$WFCTL_TASK" >> {tmp_path}/begun; test $WFCTL_PARAM_x != 1 && echo 1 > f.json'
    amended(
        place,
        *("--stage", "run", "--set", f"parameters.command={fails}"),
        *("--set", "parameters.tolerate=0.5", "--unset", "parameters.metrics"),
    )
    place.done("run")
    assert points_of_rounds(place) == [[1], [2]]
    assert lines(tmp_path / "begun") == ["x=0", "x=1", "x=2", "x=50"]
    assert [one["state"] for one in place.done("tasks", "run")["tasks"]].count("failed") == 1


@pytest.mark.long
@pytest.mark.slow
def test_ended_loop_continues_with_a_higher_limit(tmp_path: Path) -> None:
    """wfctl keeps the earlier tasks, and reruns the stage after the loop at the end."""
    place = looped(tmp_path, "x\n1\n", "x\n2\n", "x\n3\n", at_most=2)
    place.done("run")
    assert place.done("status")["status"] == "completed"
    amended(place, "--set", "rounds.walk.at_most=3")
    assert place.json("status").data["status"] != "completed"
    place.done("run")
    assert points_of_rounds(place) == [[1], [2]]
    assert lines(tmp_path / "trace") == ["x=0", "x=1", "x=2", "x=50"]
    told = [
        len((place.path / of / "all.csv").read_text().splitlines()) for of in ("tell.v1", "tell")
    ]
    assert told == [4, 5]
    assert not place.done("events", "--type", "attempt.left")  # No job printed anything.


@pytest.mark.long
@pytest.mark.slow
def test_first_round_points_can_change_after_later_rounds(tmp_path: Path) -> None:
    """wfctl refuses a point that another round has, and computes only the new point."""
    place = looped(tmp_path, "x\n1\n", "x\n2\n", at_most=2)
    place.done("run")
    change = ("amend", "propose", "--stage", "run", "--reason", "Others.", "--set")
    refused = place.json(*change, 'parameters.map.points=[{"x": 0}, {"x": 1}]')
    assert (refused.code, "have the same values" in refused.out) == (5, True)
    shown = amended(place, *change[2:4], "--set", 'parameters.map.points=[{"x": 0}, {"x": 49}]')
    tasks = shown["impact"]["tasks"]["run"]
    assert (tasks["kept"], tasks["computed"]) == (2, 1)
    place.done("run")
    assert lines(tmp_path / "trace") == ["x=0", "x=1", "x=49", "x=50"]


#: For each forged event: the fields that differ from a valid event, and the proposer of the loop.
FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "beyond the envelope": ({"points": [{"x": 999}]}, "agent"),
    "more than each": ({"points": [{"x": 7}, {"x": 8}, {"x": 9}]}, "agent"),
    "no points": ({"points": []}, "agent"),
    "a point twice": ({"points": [{"x": 7}, {"x": 7.0}]}, "agent"),
    "a point of an earlier round": ({"points": [{"x": 50}]}, "agent"),
    "a round too far": ({"round": 3}, "agent"),
    "another loop": ({"loop": "run"}, "agent"),
    "points of nobody": ({}, "next/next.csv"),
    "another digest": (
        {"source": "next/next.csv", "data": {"next/next.csv": "0" * 64}},
        "next/next.csv",
    ),
}


@pytest.mark.slow
@pytest.mark.forged
@pytest.mark.long
@pytest.mark.parametrize("name", FORGED)
def test_forged_round_event_starts_no_round(tmp_path: Path, name: str) -> None:
    """wfctl ignores the forged event when it folds the log, and the audit reports it."""
    change, ask = FORGED[name]
    place = looped(tmp_path, "x\n999\n", ask=ask)
    assert place.json("run").code == 6
    data = {"loop": "walk", "round": 2, "points": [{"x": 7}], "by": "user:pi", "data": {}, **change}
    told = place.json("append", "round.begun", "--data", json.dumps(data))
    assert (told.code, told.error["code"]) == (5, "no_command")
    append(place.path, "round.begun", data)
    assert place.done("round", "list")[0]["round"] == 1
    assert [one["status"] for one in place.done("status")["stages"][:2]] == ["completed"] * 2
    assert "ineffective" in [one["kind"] for one in place.json("audit", "bypasses").data]
    assert lines(tmp_path / "trace") == ["x=0", "x=50"]


@pytest.mark.slow
def test_loop_continues_after_a_forged_round_with_a_duplicate_point(tmp_path: Path) -> None:
    """wfctl ignores the forged event, and the next valid proposal starts the round."""
    place = looped(tmp_path, "x\n0\n", ask="agent")
    assert place.json("run").code == 6
    forged = {"loop": "walk", "round": 2, "points": [{"x": 7}, {"x": 7}], "by": "user:pi"}
    append(place.path, "round.begun", {**forged, "data": {}})
    place.done("round", "propose", "walk", "--points", '[{"x": 8}]')
    assert place.done("round", "list")[0]["round"] == 2
    place.json("run")
    assert lines(tmp_path / "trace") == ["x=0", "x=50", "x=8"]


@pytest.mark.long
@pytest.mark.slow
def test_reports_plot_the_criterion_of_a_loop(tmp_path: Path) -> None:
    """The page, both reports and the terminal plot the loop's metric over its rounds."""
    until = [{"metric": "next.best", "below": 0.5}, {"metric": "next.best", "above": 8}]
    place = looped(tmp_path, "x\n7\n", "x\n8\n", "x\n9\n", until=until)
    place.done("run")
    for words in (["round", "show", "walk"], ["report", "-"]):
        told = place.call(*words).out
        assert "⠤" in told
        assert "lines: next.best, best so far, below 0.5\n" in told
        assert "off the scale: ↑ above 8" in told
    with served(tmp_path, "--root", str(place.path)) as pages:
        shown = pages.get("/w/loop-2026-11-26/").text
    # The report also has a plot of the sweep's numbers.
    for page, plots in ((text_of(place, "report"), 2), (shown, 1)):
        assert page.count('class="plot"') == plots
        assert "next.best over round" in page
        assert "below 0.5" in page
