"""Compute a key of a workflow state that is equal for states with the same future.

The key omits times, hashes and texts that the rules never read. Of some times, it keeps only
whether they are set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from lifecycle.state.loops import LoopState, Round
from lifecycle.state.workflow import Amendment, Attempt, Stage, Workflow

#: Fields that cannot influence a later decision, or that only repeat the plan.
_OMITTED: dict[type, str] = {
    Workflow: "created updated head set_aside report completions root source purpose stages "
    "amendments loops edits agreed",
    Stage: "attempts started_at completed_at last_error failed_plan fix running_process kept "
    "keep_as",
    Attempt: "started_at root work_dir submission submission_sha256 wrapper session host boot_id "
    "launched_at relaunches relaunches_alike relaunched_for row verdict reason evidence ended_at "
    "exit_code stopped_at event action",
    Amendment: "description proposed_at decided_at approval reason database_user",
    LoopState: "rounds",
    Round: "began_at ended_at reason",
}
#: Fields of an attempt that matter after a newer attempt has started.
_OF_OLDER = "is_open recovers stop stopped_at taken_over basis results "
_OF_OLDER += "is_refuted metrics tasks tasks_given left charged round"
#: Fields of which only their presence matters.
_PRESENT: dict[type, str] = {
    Stage: "keep_as",
    Attempt: "launched_at ended_at stopped_at",
    Round: "ended_at",
}


def _build_reader(of: type) -> Callable[[Any], tuple[Any, ...]]:
    omitted, present = _OMITTED[of].split(), _PRESENT.get(of, "").split()
    read = attrgetter(*[one.name for one in fields(of) if one.name not in omitted])
    return lambda value: (*read(value), *(getattr(value, name) is not None for name in present))


_read_older = attrgetter(*_OF_OLDER.split())
_READERS = {of: _build_reader(of) for of in _OMITTED}


def _read(value: Any) -> tuple[Any, ...]:
    return _READERS[type(value)](value)


def _read_attempts(attempts: Sequence[Attempt]) -> list[tuple[Any, ...]]:
    """Return the fields of attempts that matter. An observation matters until the end.

    For an attempt that is charged to a mandate, it also matters whether its jobs may still run.
    """
    newest = attempts[-1] if attempts else None
    return [
        (
            one.name,
            _read(one) if one is newest else _read_older(one),
            one.is_open and one.action,
            bool(one.charged) and one.can_have_running_jobs,
        )
        for one in attempts
    ]


def compute_state_key(state: Workflow, *more: Any) -> bytes:
    """Return a digest of everything in a state that can influence a later decision.

    ``more`` are values outside the state that belong to the key.
    """
    stages = [(_read(stage), _read_attempts(stage.attempts)) for stage in state.stages.values()]
    amendments = [_read(one) for one in state.amendments.values()]
    loops = [(_read(one), [_read(each) for each in one.rounds]) for one in state.loops.values()]
    text = repr((_read(state), stages, amendments, loops, more))
    return blake2b(text.encode(), digest_size=16).digest()
