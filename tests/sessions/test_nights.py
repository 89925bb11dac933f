"""The background runner completes all possible work despite random faults."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.cli.support import HERE, Place, wfctl
from tests.rounds import first, rounds
from tests.sessions.support import workflow
from tests.sessions.wild import LOCAL, SLURM, Wild, suffering, wild, words_of

pytestmark = pytest.mark.slow

#: Options that let the runner finish within seconds.
BRISK = ("--between=0", "--max-sessions=30", "--session-seconds=60", "--rapid=2")
#: Seconds that a monitor waits for an answer of the scheduler.
PATIENCE = "1"


def night(found: Wild, folder: Path, *limits: str) -> str:
    """Let the background runner work until it ends, and return its reason."""
    root = ["--root", str(found.place.path), "-o", "json"]
    loop = [sys.executable, "-P", "-m", "cli.main", *root, "run", "--attended"]
    environ = {"WFCTL_PATIENCE": PATIENCE, "PYTHONPATH": str(HERE)}
    words = [*root, "runner", "serve", *BRISK, *limits, "--", *loop, *words_of(found, folder)]
    ended = wfctl(*words, cwd=found.place.path, environ=environ)
    assert ended.code == 0, ended
    return str(ended.data["ended"])


def left_open(place: Place) -> list[str]:
    """Return the unfinished stages whose dependencies are all completed or skipped."""
    stages = {stage["id"]: stage for stage in place.done("status")["stages"]}
    done = {id_ for id_, stage in stages.items() if stage["status"] in ("completed", "skipped")}
    needs = {id_: place.done("show", id_)["depends_on"] for id_ in stages}
    return [id_ for id_ in stages if id_ not in done and set(needs[id_]) <= done]


def check(found: Wild, why: str) -> None:
    """Check that each stage is completed, waits for another, or has a reported problem."""
    place = found.place
    if not why.startswith("blocked") and ("environment" in why or "init.sh" in why):
        assert found.unready, why
        assert found.helper != "able", why
        return
    hindered = left_open(place)
    assert why.partition(":")[0] == ("blocked" if hindered else "completed"), (
        why,
        found.faults,
        found.helper,
    )
    named = [text for text in place.notes() if text.startswith("Session ending: blocked. ")]
    for id_ in hindered:
        assert found.faults[id_] != "none", (id_, found.faults)
        assert any(f" {id_}: " in text for text in named), (id_, found.faults, named)


def whole_night(folder: Path, seed: int) -> None:
    """Create a random workflow with faults, let the runner work, and check the result."""
    found = wild(folder, random.Random(seed))
    check(found, night(found, folder))


@pytest.mark.long
@pytest.mark.parametrize("seed", first([2, 1]))
def test_runner_completes_all_possible_stages(tmp_path: Path, seed: int) -> None:
    """Random faults affect jobs, checks, init.sh, the agent, the disk or the scheduler."""
    whole_night(tmp_path, seed)


@pytest.mark.long
def test_silent_scheduler_blocks_only_its_own_stage(tmp_path: Path) -> None:
    """One stage waits for the scheduler, and an independent stage completes."""
    stages = [suffering(1, "no scheduler", []), suffering(2, "none", []), suffering(3, "none", [1])]
    place = workflow(tmp_path, *stages, profiles={"local": LOCAL, "hpc": SLURM})
    found = Wild(place, {"stage-1": "no scheduler"}, None, unready=False)
    ended = night(found, tmp_path, "--max-sessions=2", "--session-seconds=8")
    assert ended.partition(":")[0] in ("the maximum of 2 sessions is reached", "blocked")
    assert [stage["status"] for stage in place.done("status")["stages"]][1] == "completed"
    assert "stage-1: att-0001 found UNKNOWN" in place.log() or "stage-1: " in place.notes()[-2]


@pytest.mark.parametrize("seed", rounds(range(100, 300), few=10))
def test_runner_completes_all_possible_stages_in_two_hundred_nights(
    tmp_path: Path, seed: int
) -> None:
    """The runner works on more random workflows with faults."""
    whole_night(tmp_path, seed)
