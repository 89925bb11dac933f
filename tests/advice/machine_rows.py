"""Errors of phase machines."""

from __future__ import annotations

import json
from pathlib import Path

from tests.advice.table import root_in, row
from tests.cli.support import Answer
from tests.machines.place import MachinePlace
from tests.machines.support import small_data


def login(folder: Path, type_: str = "feature") -> MachinePlace:
    """Create a phase machine named `login`."""
    place = MachinePlace(root_in(folder))
    place.init("login", type_)
    return place


@row("INVALID_TRANSITION", 5, "ideate cannot change to review: no transition leads to review")
def no_way(folder: Path) -> Answer:
    """Request a phase that no transition leads to."""
    return login(folder).call("transition", "login", "review")


@row("GUARD_FAILED", 5, "plan")
def shut(folder: Path) -> Answer:
    """Request a transition whose guard is not met."""
    return login(folder).call("transition", "login", "plan")


@row("RESERVED_FIELD", 5, "phase", names="transition")
def reserved(folder: Path) -> Answer:
    """Write a machine field that only wfctl itself may write."""
    return login(folder).call("update", "login", "phase=review")


@row("INVALID_INPUT", 2, "nothing.known")
def unknown_event(folder: Path) -> Answer:
    """Append a machine event that the machine's definition does not contain."""
    return login(folder).call("append", "login", "nothing.known")


@row("INVALID_DEFINITION", 1, "has errors", names="Correct the definition")
def no_definition(folder: Path) -> Answer:
    """Create a machine with an invalid definition."""
    path = root_in(folder) / "own.json"
    path.write_text(json.dumps(small_data(initial="nowhere")))
    return MachinePlace(path.parent).call("init", "one", "--definition", str(path))


@row("STATE_NOT_FOUND", 3, "nothing")
def no_machine(folder: Path) -> Answer:
    """Request a machine that does not exist."""
    return login(folder).call("get", "nothing")


@row("STATE_ALREADY_EXISTS", 4, "login")
def second_machine(folder: Path) -> Answer:
    """Create a second machine with the same id."""
    return login(folder).call("init", "login", "--type", "debug")


@row("VERSION_CONFLICT", 4, "7")
def stale_machine(folder: Path) -> Answer:
    """Run a machine command with a wrong expected version."""
    return login(folder).call("update", "login", "track=x", "--expected-version", "7")


@row("ALREADY_CANCELLED", 5, "cancelled")
def cancelled_twice(folder: Path) -> Answer:
    """Cancel a machine twice."""
    place = login(folder)
    place.done("cancel", "login")
    return place.call("cancel", "login")


@row("CIRCUIT_OPEN", 6, "has used 3 of 3")
def circuit(folder: Path) -> Answer:
    """Repeat a loop more often than its limit allows."""
    place = login(folder)
    place.done("update", "login", "artifacts.design=d")
    place.done("transition", "login", "plan")
    for _ in range(4):
        place.done("update", "login", "artifacts.plan=p")
        place.done("transition", "login", "plan-review")
        place.done("update", "login", "planReview.gapsFound=true")
        place.done("transition", "login", "plan")
    return place.call("transition", "login", "plan-review")


@row("TASK_HELD", 4, "agent:a")
def held(folder: Path) -> Answer:
    """Change a task that another agent claimed."""
    place = login(folder)
    place.done("task", "login", "T-1", "--title", "The form")
    place.wfctl("--actor", "agent:a", "machine", "task", "claim", "login", "T-1")
    return place.call("task", "login", "T-1", "--status", "complete")
