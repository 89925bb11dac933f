"""Workflows with a loop of rounds, for which a test writes the proposals of points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.support import Place, write_plan

#: The allowed range of the points in the loop.
WITHIN = {"x": {"from": 0, "to": 100, "step": 1}}
_TASK = 'echo "{{\\"f\\": $WFCTL_PARAM_x}}" > f.json; echo "$WFCTL_TASK" >> {trace}'
_NEXT = (
    'cp {given}/$WFCTL_ROUND next.csv; echo "{{\\"f\\": $WFCTL_ROUND}}" > best.json; '
    "echo $WFCTL_ROUND >> {given}/asked"
)


def plan(
    folder: Path, *, is_last: bool = False, time_limit: int | None = None, **loop: Any
) -> dict[str, Any]:
    """Return a plan: a sweep and its proposer in a loop, and a stage after the loop.

    The proposer copies the points of round 2 from the file ``given/1``. A loop field whose value is
    None is removed. ``is_last`` omits the stage after the loop. ``time_limit`` in seconds applies
    to each stage of the loop.
    """
    (folder / "given").mkdir(exist_ok=True)
    known = {
        "stages": ["run", "next"],
        "points": "run",
        "ask": "next/next.csv",
        "each": 2,
        "at_most": 3,
        "within": WITHIN,
        **loop,
    }
    run = {
        "command": _TASK.format(trace=folder / "trace"),
        "map": {"points": [{"x": 0}, {"x": 50}]},
        "task_outputs": ["f.json"],
        "metrics": {"f": {"at": "f.json#/f", "better": "lower"}},
    }
    following = {
        "command": _NEXT.format(given=folder / "given"),
        "metrics": {"best": {"at": "best.json#/f", "better": "lower"}},
    }
    stages = [
        _stage("run", [], ["tasks.csv"], run),
        _stage("next", ["run"], ["next.csv", "best.json"], following),
        _stage("tell", ["next", "run"], ["all.csv"], {"command": "cp ../run/tasks.csv all.csv"}),
    ]
    if time_limit is not None:
        for stage in stages[:2]:
            stage["parameters"]["time_limit"] = time_limit
    return {
        "workflow_id": "loop-2026-11-26",
        "purpose": "Walk.",
        "session_config": {"session_budget": 1000},
        "stages": stages[:2] if is_last else stages,
        "rounds": {"walk": {key: value for key, value in known.items() if value is not None}},
    }


def _stage(
    id_: str, needs: list[str], outputs: list[str], parameters: dict[str, Any]
) -> dict[str, Any]:
    """Return a stage whose inputs are the outputs of the stages it depends on."""
    return {
        "id": id_,
        "name": id_.title(),
        "depends_on": needs,
        "inputs": ["run/tasks.csv"] if needs else [],
        "outputs": [f"{id_}/{name}" for name in outputs],
        "parameters": {"verify": "true", **parameters},
    }


def looped(folder: Path, *given: str | bytes, consent: str = "trust", **loop: Any) -> Place:
    """Create a workflow with a loop; ``given`` has the points of each later round."""
    place = Place(folder / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(folder, plan(folder, **loop))), "--consent", consent)
    for number, text in enumerate(given, 1):
        give(folder, number, text)
    return place


def give(folder: Path, number: int, text: str | bytes) -> None:
    """Write the points that the proposer proposes at the end of the given round."""
    content = text if isinstance(text, bytes) else text.encode()
    (folder / "given" / str(number)).write_bytes(content)


def amended(place: Place, *words: str) -> dict[str, Any]:
    """Propose and approve an amendment; return its record as it was before the approval."""
    id_ = place.done("amend", "propose", "--reason", "Others.", *words)["amendment"]["id"]
    shown: dict[str, Any] = place.done("amend", "show", id_)
    place.done("amend", "approve", id_)
    return shown


def points_of_rounds(place: Place) -> list[list[Any]]:
    """Return the values of x in each round after the first."""
    begun = place.done("events", "--type", "round.begun")
    return [[point.get("x") for point in one["data"]["points"]] for one in begun]
