"""Create random workflows with faults and various agents, reproducible by their seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.support import Place
from tests.sessions.support import WFCTL, agent, silent, stage, workflow

#: Kinds of faults that a stage of a random workflow can have.
FAULTS = (
    "fails", "flaky", "lacking", "empty", "unusable", "prose", "unproved", "silent", "unmet",
    "full", "no software", "sweep",
)  # fmt: skip
#: A backend profile whose scheduler is missing or does not answer.
SLURM = {
    "type": "remote",
    "config": {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."},
    "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 1},
}
#: The parameters of a sweep of three tasks.
MAP = {"map": {"grid": {"x": [1, 2, 3]}}, "task_outputs": ["out.txt"]}
LOCAL = {"type": "local", "config": {"batch_type": "Shell", "context_type": "LocalContext"}}
#: Shell scripts of agents, by the name of their kind.
AGENTS = {
    "able": f"""case $WFCTL_TASK in
repair) {WFCTL} stage retry $WFCTL_STAGE --fix "tried once more" ;;
judge) {WFCTL} stage complete $WFCTL_STAGE --evidence "it looks right" ;;
environment) touch ready ;;
esac""",
    "idle": "exit 0",
    "broken": "exit 9",
    "killed": "kill -9 $$",
}


@dataclass(frozen=True, slots=True)
class Wild:
    """A random workflow, with the fault of each stage and the kind of agent, if any."""

    place: Place
    faults: dict[str, str]
    helper: str | None
    unready: bool


def once(number: int) -> str:
    """Return a shell command that fails only when it runs for the first time."""
    mark = f"../../../../../../tried-{number}"
    return f"{{ [ -e {mark} ] || {{ touch {mark}; false; }}; }}"


def suffering(number: int, fault: str, after: list[int]) -> dict[str, Any]:  # noqa: C901 - one case per fault
    """Return a stage that has the given fault."""
    own: dict[str, Any] = {"expected_seconds": 1}
    fields: dict[str, Any] = {"after": after, "parameters": own}
    command = {
        "fails": "exit 3", "flaky": once(number), "full": "echo much > /dev/full",
    }.get(fault, "true")  # fmt: skip
    match fault:
        case "lacking" | "empty":
            fields["inputs"] = [f"{fault}.txt"]
        case "prose":
            fields["success_criteria"] = "it looks right"
        case "unproved":
            return stage(number, **{**fields, "outputs": [], "parameters": {"command": "true"}})
        case "silent" | "unusable":
            return silent(number, after=after)
        case "unmet":
            own.update({"tolerance": 1, "verify": "test $WFCTL_PARAM_tolerance -ge 2"})
        case "no scheduler":
            fields["backend"] = "hpc"
        case "sweep":
            own |= MAP
            fields["outputs"] = [f"stage-{number}/tasks.csv"]
        case "no software":
            own["environment"] = {"venv": "/nowhere/venv"}
    return stage(number, command, **fields)


def wild(folder: Path, chance: random.Random, faults: tuple[str, ...] = FAULTS) -> Wild:
    """Create a random workflow of two to five stages, most of which have a fault."""
    chosen: dict[str, str] = {}
    stages: list[dict[str, Any]] = []
    for number in range(1, chance.randint(2, 5) + 1):
        after = [n for n in range(1, number) if chance.random() < 0.35]
        fault = "none" if chance.random() < 0.35 else chance.choice(faults)
        chosen[f"stage-{number}"] = fault
        stages.append(suffering(number, fault, after))
    profiles = {"local": LOCAL, "hpc": SLURM}
    budget = chance.choice([2, 4, 6])
    place = workflow(folder, *stages, consent="trust", profiles=profiles, session_budget=budget)
    (place.path / "empty.txt").touch()
    for id_, fault in chosen.items():
        if fault == "unusable":
            (place.path / id_).mkdir(exist_ok=True)
            (place.path / id_ / "submission.json").write_text("[]")
    unready = chance.random() < 0.15
    if unready:
        (place.path / "init.sh").write_text("test -e ready\n")
    helper = chance.choice([None, *AGENTS])
    return Wild(place, chosen, helper, unready)


def words_of(found: Wild, folder: Path) -> list[str]:
    """Return the options of `wfctl run` that name the agent of a random workflow."""
    return [] if found.helper is None else ["--agent", agent(folder, AGENTS[found.helper])]
