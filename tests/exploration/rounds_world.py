"""A loop of up to three rounds, whose points are proposed, computed, refused or changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage
from tests.exploration import worlds
from tests.exploration.search import Move, Place, Step, World
from tests.lifecycle import support as s

OUTPUT = "next/points.csv"
_LOOP: dict[str, Any] = {
    "stages": ["run", "next"],
    "points": "run",
    "ask": OUTPUT,
    "each": 1,
    "at_most": 3,
    "until": {"metric": "next.f", "below": 0},
    "within": {"x": {"from": 0, "to": 40, "step": 1}},
}
_METRICS = {"f": {"at": "f.json#/f", "better": "lower"}}
_STAGES = [
    {
        "id": "run",
        "name": "Run",
        "outputs": ["run/tasks.csv"],
        "parameters": {"command": "run", "map": {"points": [{"x": 0}]}},
    },
    {
        "id": "next",
        "name": "Next",
        "depends_on": ["run"],
        "outputs": [OUTPUT, "next/f.json"],
        "parameters": {"command": "next", "metrics": _METRICS},
    },
]


def check_rounds_use_current_points(step: Step) -> str | None:
    """Return a problem if a round starts too early, or with points of an earlier result."""
    before, after = (one.flow.loops["search"] for one in (step.before, step.after))
    if len(after.rounds) == len(before.rounds):
        return None
    stages = step.before.flow.stages
    if any(stages[id_].status != "completed" for id_ in ("run", "next")):
        return "a round started before the stages of the previous round were completed"
    if before.over is not None or len(after.rounds) > step.before.flow.rounds["search"]["at_most"]:
        return "a round started after the loop was over"
    digests = [one["sha256"] for one in stages["next"].results if one["path"] == OUTPUT]
    if [after.round.data.get(OUTPUT)] != digests:
        return "a round started with points that the current attempt did not write"
    return None


def stage_moves(place: Place, stage: Stage, most: int) -> Iterator[Move]:
    """Yield the moves that run a stage of the loop, check it, or report its failure."""
    id_, number = stage.id, len(stage.attempts)
    if number < most:
        yield Move(f"dispatch {id_}", worlds.start(place, stage, mode="sync"))
    for attempt in stage.attempts[-2:]:
        yield Move(f"{id_} {attempt.id} has succeeded", s.computed(id_, attempt.id))
        failure = p.StageFailed(stage=id_, attempt=attempt.id, error="exit code 1")
        yield Move(f"{id_} {attempt.id} has failed", failure)
    yield Move(f"retry {id_}", p.StageRetried(stage=id_, fix="corrected"))
    out = p.FileDigest(path=stage.outputs[0], size=1, sha256=f"{number:064x}")
    check = p.Check(name="out", passed=True)
    for value in (1, -1) if id_ == "next" else (None,):
        measured: dict[str, Any] = {"name": "f", "path": "next/f.json", "pointer": "/f"}
        metrics = [] if value is None else [p.MeasuredNumber(**measured, value=value)]
        command = p.StageCompleted(stage=id_, checks=[check], outputs=[out], metrics=metrics)
        yield Move(f"the checks of {id_} pass" + (f", f is {value}" if metrics else ""), command)


def round_moves(place: Place) -> Iterator[Move]:
    """Yield proposals of points: right points, and points that no round may use."""
    loop = place.flow.loops["search"]
    number, written = loop.round.number, place.flow.stages["next"].results
    digest = written[0]["sha256"] if written else "0" * 64
    older = f"{int(digest, 16) - 1:064x}" if written else "f" * 64

    def begin(text: str, x: int, of: str, *, row: bool = False, **more: Any) -> Move:
        known: dict[str, Any] = {"source": OUTPUT, "data": {OUTPUT: of}, "round": number + 1}
        command = p.RoundBegun(loop="search", points=[{"x": x}], by="next", **{**known, **more})
        return Move(text, command, is_raw=row, has_effect=False if row else None)

    yield begin("start a round with the points that next wrote", number, digest)
    wrong: dict[str, tuple[int, str, dict[str, Any]]] = {
        "the points of an earlier result": (number, older, {}),
        "points of a user": (number, digest, {"source": None, "data": {}}),
        "a point of an earlier round": (number - 1, digest, {}),
        "a point outside the limits": (41, digest, {}),
        "the number of a later round": (number, digest, {"round": number + 2}),
    }
    for text, (x, of, more) in wrong.items():
        yield begin(f"start a round with {text}", x, of, **more)
        yield begin(f"write the start of a round with {text}", x, of, row=True, **more)
    yield Move("stop the loop", p.LoopStopped(loop="search", reason="enough"))


def build_rounds_world(most: int = 4, amendments: int = 1) -> World:
    """Return a workflow with a loop, at most ``most`` attempts of each stage, and amendments."""
    shorter = {"rounds": {"search": {"new": {**_LOOP, "at_most": 2}}}}
    proposals = {
        "another value in run": worlds.change_parameter("run", "y", 1),
        "a rerun of next": {"kind": "stage_rerun", "stage": "next"},
        "at most two rounds": {"kind": "parameter_change", "changes": shorter},
    }

    def list_moves(place: Place) -> Iterator[Move]:
        for stage in place.flow.stages.values():
            yield from stage_moves(place, stage, most)
        yield from round_moves(place)
        yield from worlds.amendment_moves(place, proposals, amendments)

    world = worlds.build_world("rounds", list_moves, *_STAGES, rounds={"search": _LOOP})
    return replace(world, invariants=(*world.invariants, check_rounds_use_current_points))
