"""A workflow of six stages that a scripted agent runs, and its expected result."""

from __future__ import annotations

import random
import shlex
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.loop.background_runner import find_running_runner
from service.root.root import Root
from tests.cli.support import Place
from tests.crash.support import Workflow
from tests.crash.victims import kill, processes

SCRIPTED = Path(__file__).with_name("scripted.py")
AGENT = shlex.join([sys.executable, str(SCRIPTED)])
NAMED = ("--agent-name", "scripted", "--between", "0")
VICTIMS = ("runner", "loop", "agent")
#: Maximum duration in seconds of one round (one complete run of the workflow).
_PATIENCE = 600.0
#: The number of attempts of each stage; the second stage fails twice.
ATTEMPTS = {1: 1, 2: 3, 3: 1, 4: 1, 5: 1, 6: 1}


def stages(root: Path) -> list[dict[str, Any]]:
    """Return the six stages: an agent's, one that fails twice, one to be amended, a far one, one
    to be judged, and one that needs them all.
    """
    trace = f'echo "$WFCTL_ATTEMPT" >> {shlex.quote(str(root))}/trace'
    mended = f"test $(cat {shlex.quote(str(root))}/mended) -ge 2"
    short = {"expected_seconds": 1}
    everything = "cat " + " ".join(f"../stage-{n}/out.txt" for n in range(1, 6))
    parameters: dict[int, dict[str, Any]] = {
        1: {"text": "one"},
        2: {"command": f"{trace}; {mended} && echo two > out.txt", **short},
        3: {"text": "three", "tolerance": "coarse"},
        4: {"command": f"{trace}; echo four > out.txt"},
        5: {"command": f"{trace}; echo five > out.txt", **short},
        6: {
            "command": f"{trace}; {everything} > out.txt",
            "verify": "grep -q three stage-6/out.txt",
        },
    }
    found = [_stage(number, own) for number, own in parameters.items()]
    found[3]["backend"] = "far"
    found[4]["success_criteria"] = "It says five."
    found[5]["depends_on"] = [f"stage-{n}" for n in range(1, 6)]
    found[5]["inputs"] = [f"stage-{n}/out.txt" for n in range(1, 6)]
    return found


def _stage(number: int, parameters: dict[str, Any]) -> dict[str, Any]:
    id_ = f"stage-{number}"
    return {
        "id": id_,
        "name": f"Part {number}",
        "outputs": [f"{id_}/out.txt"],
        "parameters": parameters,
    }


@dataclass(frozen=True)
class Blow:
    """A kill: its victim, the number of events before it, and a delay in seconds.

    The number of events spreads the kills over a round on fast and slow machines.
    """

    victim: str
    after: int
    delay: float


def blows(dice: random.Random, whole: int) -> list[Blow]:
    """Return up to three kills in order.

    The agent is killed at most once, because a task that loses its agent twice fails by the rules.
    """
    victims = [dice.choice(VICTIMS[:2]), dice.choice(VICTIMS[:2]), "agent"]
    found = [Blow(victim, dice.randint(8, whole), dice.uniform(0, 1)) for victim in victims]
    return sorted(dice.sample(found, dice.randint(1, 3)), key=lambda blow: blow.after)


def find(workflow: Workflow, victim: str) -> list[int]:
    """Return the ids of the processes of a kind: runner, loop or agent."""
    return [pid for pid, line in processes(workflow).items() if _is(line, victim)]


def _is(line: str, victim: str) -> bool:
    ours = "-m cli.main" in line and not line.startswith("tmux ")
    match victim:
        case "runner":
            return ours and " runner serve " in line
        case "loop":
            return ours and " runner serve " not in line and "--attended" in line
        case _:
            return (
                not ours and not line.startswith("tmux ") and line.rstrip().endswith(SCRIPTED.name)
            )


def events(workflow: Workflow) -> int:
    """Return the number of committed events, read directly from the database."""
    database = f"file:{workflow.root.as_posix()}/.wfctl/events.db?mode=ro"
    with closing(sqlite3.connect(database, uri=True)) as opened:
        return int(opened.execute("SELECT count(*) FROM events").fetchone()[0])


def drive(workflow: Workflow, key: Path, falling: list[Blow]) -> None:
    """Start the runner, and restart it after each end, until the workflow is completed.

    A person approves pending amendments. A due kill hits the victim that is running or starts next.
    """
    began = time.monotonic()
    due = list(falling)
    idle = 0
    while idle < 3 and time.monotonic() - began < _PATIENCE:
        before = (len(due), workflow.committed("amendment.approved"))
        done = workflow.call("run", "--autonomous", "--agent", AGENT, *NAMED)
        assert done.returncode in (0, 4), (done.stdout, done.stderr)
        # Also wait for the run loop, because it continues to run after its runner was killed.
        while find_running_runner(Root(workflow.root)) or find(workflow, "loop"):
            if due and events(workflow) >= due[0].after:
                time.sleep(due[0].delay)
                found = find(workflow, due[0].victim)
                if found:
                    kill(found)
                    due.pop(0)
            time.sleep(0.05)
        if workflow.committed("workflow.completed"):
            return
        # The number of approvals includes the approval of the plan, for which no proposal event
        # exists.
        if workflow.committed("amendment.proposed") >= workflow.committed("amendment.approved"):
            workflow.succeed("amend", "approve", "amend-1", "--key", str(key))
        moved = before != (len(due), workflow.committed("amendment.approved"))
        idle = 0 if moved else idle + 1
    raise AssertionError(f"it never came through: {workflow.call('log').stdout}")


def fold(workflow: Workflow) -> dict[str, Any]:
    """Return the final state without times, ids of sessions and jobs, and locations."""
    place = Place(workflow.root)
    replayed = place.done("replay")
    kept = ("id", "status", "retry_count", "parameters", "outputs")
    found = [{name: stage[name] for name in kept} for stage in replayed["stages"]]
    for stage in found:
        attempts = place.done("show", stage["id"])["attempts"]
        stage["attempts"] = [attempt["outcome"] for attempt in attempts]
    amendments = [
        {name: one[name] for name in ("id", "version", "type", "stage_id", "changes")}
        for one in replayed["amendments"]
    ]
    return {"version": replayed["version"], "stages": found, "amendments": amendments}


def check(workflow: Workflow) -> None:
    """Check that every stage is completed and that each attempt's command started once."""
    starts = Counter(workflow.trace())
    expected = {
        f"w-agents/stage-{stage}/att-{number:04d}": 1
        for stage, count in ATTEMPTS.items()
        for number in range(1, count + 1)
    }
    assert starts == expected, f"{starts}\n{(workflow.root / 'progress.log').read_text()}"
    words = (workflow.root / "stage-6/out.txt").read_text().split()
    assert words == ["one", "two", "three", "four", "five"]
    place = Place(workflow.root)
    place.done("replay", "--check")
    place.done("fsck")
