"""An attempt counts against every mandate and every loop that applies to its stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adversary.raw import append
from tests.amendments.mandated import BO, Mandated, made, plan_with
from tests.cli.support import Place, write_plan
from tests.sweeps.looped import looped, points_of_rounds

pytestmark = pytest.mark.slow

#: A second mandate that also covers stage-1, next to the mandate `sampling`.
OTHER: dict[str, Any] = {
    "stages": ["stage-1", "stage-2"],
    "amendments": 9,
    "values": {"stage-1.parameters.m": [1, 2, 3]},
}


def _walking(folder: Path, **limits: Any) -> Place:
    """Create a loop with one point per round, and a mandate for its sweep."""
    given = [f"x\n{value}\n" for value in (7, 8, 9, 10)]
    place = looped(folder, *given, at_most=5, **limits)
    bounds = {"stages": ["run", "next", "tell"], "values": {"run.parameters.n": [1, 2]}}
    source = write_plan(folder, {**bounds, "amendments": 9}, "mandate.json")
    place.done("mandate", "grant", "walker", str(source), "--reason", "Others.")
    return place


def _ask(place: Place) -> Any:
    words = ("amend", "propose", "--stage", "run", "--reason", "Why.", "--set", "parameters.n=2")
    return place.done(*BO, *words)


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("is_amended", [False, True])
def test_loop_ends_at_its_task_limit_despite_a_mandate(is_amended: bool, tmp_path: Path) -> None:
    """The loop starts no third round, which would exceed its limit of six tasks."""
    place = _walking(tmp_path, tasks=6)
    if is_amended:
        assert _ask(place)["mandate"] == "walker"
    place.json("run")
    assert points_of_rounds(place) == [[7]]
    assert "no further round is within its limits" in place.call("round", "list").out
    assert place.call("fsck", "--protocol").code == 0
    assert place.call("replay", "--check").code == 0


@pytest.mark.long
def test_loop_refuses_an_attempt_that_a_mandate_allows(tmp_path: Path) -> None:
    """The loop refuses the attempt, because it needs more tasks than the loop has left."""
    place = _walking(tmp_path, tasks=6)
    place.json("run")
    assert _ask(place)["mandate"] == "walker"
    refused = place.json(*BO, "dispatch", "run", "--sync")
    assert refused.code == 6
    assert "limits of the mandate rounds.walk do not allow" in refused.error["message"]
    assert "3 tasks may be computed, and 1 of its 6 is left" in refused.error["message"]
    assert "--set rounds.walk.NAME=VALUE" in place.call("status").out


def test_attempt_counts_against_each_mandate_of_its_stage(tmp_path: Path) -> None:
    """An attempt counts against both mandates whose amendments changed the stage."""
    place = _two_mandates(tmp_path, tasks=1)
    place.ask(2)
    assert place.ask(2, name="m")["mandate"] == "wide"
    place.done(*BO, "dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    used = {one["name"]: one["used"] for one in place.done("mandate", "list")}
    assert used["sampling"]["tasks"] == 1
    refused = place.agent("dispatch", "stage-2", "--sync")
    assert refused.code == 6
    assert "limits of the mandate sampling do not allow" in refused.error["message"]
    place.is_sound()


def test_stage_waits_for_each_revoked_mandate(tmp_path: Path) -> None:
    """A stage waits for a revoked mandate even if another mandate changed the stage later."""
    place = _two_mandates(tmp_path)
    place.ask(2)
    place.ask(2, name="m")
    place.agreed("mandate", "revoke", "sampling", "--reason", "too many")
    refused = place.agent("dispatch", "stage-1", "--sync")
    assert refused.code == 6
    assert "limits of the mandate sampling do not allow" in refused.error["message"]


def _two_mandates(folder: Path, **more: Any) -> Mandated:
    plan = plan_with(**more)
    plan["mandates"]["wide"] = OTHER
    return made(folder, "trust", plan)


@pytest.mark.forged
@pytest.mark.long
def test_round_started_by_an_older_version_stays_valid(tmp_path: Path) -> None:
    """A round beyond the limit stays valid if an older version recorded it."""
    place = _walking(tmp_path, tasks=5, ask="agent")
    _ask(place)
    place.json("run")
    place.done("round", "propose", "walk", "--points", '[{"x": 7}]', "--reason", "Why.")
    place.json("run")
    assert "no further round is within its limits" in place.call("round", "list").out
    known: dict[str, Any] = {"by": "user:pi", "data": {}}
    append(place.path, "round.begun", {"loop": "walk", "round": 3, "points": [{"x": 8}], **known})
    assert place.done("round", "list")[0]["round"] == 3
    assert "ineffective" not in [one["kind"] for one in place.json("audit", "bypasses").data]
    assert place.json("dispatch", "run", "--sync").code == 6


def test_exhausted_loop_blocks_only_its_own_stages(
    tmp_path: Path,
) -> None:
    """After failed tasks used up the loop's limit, only stages outside the loop continue."""
    sweep = {"command": "exit 3", "map": {"points": [{"x": 1}, {"x": 2}]}, "task_retries": 3}
    sweep |= {"task_outputs": ["y.json"], "time_limit": 20}
    stages: list[dict[str, Any]] = [
        {"id": "run", "name": "Run", "outputs": ["run/tasks.csv"], "parameters": sweep},
        {"id": "next", "name": "Next", "depends_on": ["run"], "outputs": ["next/next.csv"]},
        {"id": "other", "name": "Other", "outputs": ["other/o"]},
    ]
    stages[-1]["parameters"] = {"command": "sleep 0.5; echo 1 > o"}
    loop: dict[str, Any] = {
        "stages": ["run", "next"],
        "points": "run",
        "ask": "next/next.csv",
        "each": 2,
    }
    loop |= {"at_most": 5, "tasks": 4, "within": {"x": {"from": 0, "to": 9}}}
    place = made_in(tmp_path, {"stages": stages, "rounds": {"walk": loop}})
    blocked = place.json("run")
    assert (blocked.code, blocked.data["blocked"][0]["stage"]) == (6, "run")
    assert place.done("show", "other")["status"] == "completed"
    assert place.call("rehydrate").code == 0
    assert "2 tasks may be computed, and 0 of its 4 are left" in place.call("status").out
    place.done("amend", "propose", "--set", "rounds.walk.tasks=8", "--reason", "More.")
    place.done("--actor", "user:ada", "amend", "approve", "amend-1")
    place.json("run")
    assert len([one for one in place.types() if one == "attempt.started"]) == 5


def made_in(folder: Path, plan: dict[str, Any]) -> Place:
    """Create a workflow under the policy trust."""
    place = Place(folder / "root")
    place.path.mkdir()
    document = {"workflow_id": "walk", "purpose": "Walk.", **plan}
    place.done("init", str(write_plan(folder, document)), "--consent", "trust")
    return place
