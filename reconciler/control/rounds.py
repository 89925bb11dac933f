"""Rounds of loops: their points are read, and what the round before left is kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.private import read_regular
from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.rounds import LoopDefinition, folder_of
from reconciler.context import Jobs
from reconciler.errors import ReconcilerError
from service.root.disk import sync_folder
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome


class UnreadablePoints(ReconcilerError):
    """The file that is to say which points come next does not, or is not what was verified."""

    code = "unreadable_points"
    text = "round {round} of {loop} does not begin: {path}: {why}."
    loop: str
    round: int
    path: str
    why: str


def keep_round(root: Path, state: Workflow, stage: Stage, left: Iterable[str]) -> None:
    """Move what a stage left in the last round to a folder of that round.

    May be called again after a crash. Tasks of a sweep stay where they are, and its table grows.
    """
    name, before = state.loop_of(stage.id), stage.attempts[-1].round if stage.attempts else 0
    if (
        name is None
        or is_sweep(stage.parameters)
        or not 0 < before < state.loops[name].round.number
    ):
        return
    folder = root / folder_of(stage.id, before)
    for path in dict.fromkeys([*left, f"{stage.id}/log", f"{stage.id}/err"]):
        own = path.removeprefix(f"{stage.id}/")
        if own == path or not os.path.lexists(root / path):
            continue
        target = folder / own
        number = 0
        while os.path.lexists(target):
            number += 1
            target = (folder / own).with_name(f"{Path(own).name}.~{number}~")
        target.parent.mkdir(parents=True, exist_ok=True)
        (root / path).rename(target)
        sync_folder(target.parent)


def is_asked(state: Workflow, name: str) -> bool:
    """Whether a stage of a loop has said which points come next, and they may be taken."""
    due = state.loops[name].is_due and not state.pending_amendments
    return due and not state.loop(name).asks_somebody


def begin_asked(jobs: Jobs, name: str, options: WriteOptions | None = None) -> Outcome:
    """Begin the next round of a loop for the points that its stage wrote.

    Raises `UnreadablePoints`, and `OutsideEnvelope` for points that may not be computed, which is
    kept as a refusal.
    """
    state = jobs.service.state()
    command = proposed_by_stage(jobs.root, state, state.loop(name))
    return begin(jobs, command, options or WriteOptions())


def begin(jobs: Jobs, command: p.RoundBegun, options: WriteOptions) -> Outcome:
    """Begin a round; points that may not be computed are refused, and the refusal is kept."""
    outcome = jobs.service.handle(command, options=options)
    jobs.tell(outcome)
    return outcome


def proposed_by_stage(root: Path, state: Workflow, loop: LoopDefinition) -> p.RoundBegun:
    """Return the command that begins a round with the points of a stage's verified output."""
    number = state.loops[loop.name].round.number + 1
    try:
        content = read_regular(root / loop.ask)
    except OSError as error:
        raise UnreadablePoints(loop.name, number, loop.ask, str(error.strerror)) from error
    found = sha256(content).hexdigest()
    if found not in (one["sha256"] for one in state.stages[loop.asked].results):
        why = f"it is not as {loop.asked} left it; `wfctl verify {loop.asked}` says more"
        raise UnreadablePoints(loop.name, number, loop.ask, why)
    return p.RoundBegun(
        loop=loop.name,
        points=points_in(loop, number, loop.ask, content),
        by=f"stage:{loop.asked}",
        source=loop.ask,
        data={loop.ask: found},
    )


def points_in(loop: LoopDefinition, number: int, path: str, content: bytes) -> list[dict[str, Any]]:
    """Return the points of a file of CSV, of JSON, or of JSON lines; raises `UnreadablePoints`."""
    import json

    from lifecycle.sweeps.points import UnusableMap, rows_of

    try:
        text = content.decode("utf-8-sig")
        if not text.strip():
            return []
        are_rows = path.endswith((".csv", ".jsonl"))
        found = [*map(dict, rows_of(path, text))] if are_rows else json.loads(text)
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    except UnusableMap as error:
        why = str(error).removeprefix(f"{path}: ")
        raise UnreadablePoints(loop.name, number, path, why) from error
    except (ValueError, RecursionError) as error:
        why = f"expected CSV, JSON or JSON lines ({error})"
        raise UnreadablePoints(loop.name, number, path, why) from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UnreadablePoints(
            loop.name, number, path, f"expected a list of objects, found {text!r:.60}"
        )
    return found
