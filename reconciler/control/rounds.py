"""Start rounds of optimisation loops.

Each round reads its points from the output of a stage, and keeps the results of the previous round.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.regular_files import read_regular
from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.rounds import LoopDefinition, stage_folder_of_round
from reconciler.context import JobContext
from reconciler.errors import ReconcilerError
from service.root.atomic_files import sync_folder
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome


class UnreadablePoints(ReconcilerError):
    """The file with the next points of a loop is unreadable or was changed."""

    code = "unreadable_points"
    text = "round {round} of {loop} cannot start: {path}: {why}."
    loop: str
    round: int
    path: str
    why: str


def archive_previous_round(root: Path, state: Workflow, stage: Stage, left: Iterable[str]) -> None:
    """Move the results of a stage's previous round to a folder of that round.

    Does nothing if the stage is in no loop, or if its round has not ended. The tasks of a sweep
    stay in place, because their table grows with each round. Safe to call again after a crash.
    """
    name, before = state.loop_of(stage.id), stage.attempts[-1].round if stage.attempts else 0
    if (
        name is None
        or stage.work.grows_by_rounds
        or not 0 < before < state.loops[name].round.number
    ):
        return
    folder = root / stage_folder_of_round(stage.id, before)
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


def is_round_due(state: Workflow, name: str) -> bool:
    """Return whether the next round of the loop may start automatically.

    This requires that a stage has written the next points and that no amendment waits for a
    decision. A loop whose points come from a person or an agent never starts a round automatically.
    """
    due = state.loops[name].is_due and not state.pending_amendments
    return due and not state.loop(name).has_external_proposer


def begin_proposed_round(
    jobs: JobContext, name: str, options: WriteOptions | None = None
) -> Outcome:
    """Start the next round of a loop with the points that one of its stages wrote.

    Raises `UnreadablePoints` if the points cannot be read, or `OutsideEnvelope` for points outside
    the allowed range. The refusal is recorded in the log.
    """
    state = jobs.service.state()
    command = read_proposed_round(jobs.root, state, state.loop(name))
    return begin_round(jobs, command, options or WriteOptions())


def begin_round(jobs: JobContext, command: p.RoundBegun, options: WriteOptions) -> Outcome:
    """Record the start of a round of a loop, and print the result.

    If a point may not be computed, the start is refused with an error, and the refusal is recorded.
    """
    outcome = jobs.service.handle(command, options=options)
    jobs.tell(outcome)
    return outcome


def read_proposed_round(root: Path, state: Workflow, loop: LoopDefinition) -> p.RoundBegun:
    """Return the command that starts the next round with points from an output file.

    Raises `UnreadablePoints` if the file cannot be read or differs from the verified output.
    """
    number = state.loops[loop.name].round.number + 1
    try:
        content = read_regular(root / loop.ask)
    except OSError as error:
        raise UnreadablePoints(loop.name, number, loop.ask, str(error.strerror)) from error
    found = sha256(content).hexdigest()
    source = loop.points_source_stage
    if found not in (one["sha256"] for one in state.stages[source].results):
        why = (
            f"the file was changed after stage {source} wrote it; `wfctl verify {source}` "
            "shows the difference"
        )
        raise UnreadablePoints(loop.name, number, loop.ask, why)
    return p.RoundBegun(
        loop=loop.name,
        points=parse_points(loop, number, loop.ask, content),
        by=f"stage:{loop.points_source_stage}",
        source=loop.ask,
        data={loop.ask: found},
    )


def parse_points(
    loop: LoopDefinition, number: int, path: str, content: bytes
) -> list[dict[str, Any]]:
    """Return the points in a CSV, JSON or JSON lines file, as a list of dicts.

    An empty file gives an empty list. Raises `UnreadablePoints` if the content has another form.
    """
    import json

    from lifecycle.sweeps.points import UnusableMap, drop_missing_values, parse_points_file

    try:
        text = content.decode("utf-8-sig")
        if not text.strip():
            return []
        are_rows = path.endswith((".csv", ".jsonl"))
        found = [*map(dict, parse_points_file(path, text))] if are_rows else json.loads(text)
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    except UnusableMap as error:
        why = str(error).removeprefix(f"{path}: ")
        raise UnreadablePoints(loop.name, number, path, why) from error
    except (ValueError, RecursionError) as error:
        why = f"expected CSV, JSON or JSON lines ({error})"
        raise UnreadablePoints(loop.name, number, path, why) from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UnreadablePoints(
            loop.name, number, path, f"the points must be a list of objects, but are {text!r:.60}"
        )
    return [*map(drop_missing_values, found)]
