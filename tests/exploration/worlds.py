"""Small workflows that the search explores completely, and the moves that are tried in them.

A report of a monitor can arrive at any time and any number of times. The moves of one monitor
therefore cover any number of monitors that report late, twice or in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from lifecycle.payload import models as p
from lifecycle.plan.document import build_creation_payload
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage
from tests.exploration import invariants
from tests.exploration.search import AT, Move, Place, World
from tests.lifecycle import support as s

_TRUST: dict[str, Any] = {"policy": "trust", "statement": "0" * 64}
EVERY_INVARIANT = (
    invariants.check_attempts_start_once,
    invariants.check_one_attempt_runs,
    invariants.check_results_were_computed,
    invariants.check_finish_is_final,
    invariants.check_only_valid_events_have_effect,
)
OF_NEW_STATES = (invariants.check_something_can_be_done,)


def build_world(
    name: str, moves: Callable[[Place], Iterator[Move]], *stages: dict[str, Any], **more: Any
) -> World:
    """Return a world whose workflow has the given stages, and the consent policy `trust`."""
    plan = {"workflow_id": "w", "stages": [*stages], **more}
    creation = build_creation_payload(plan, created=AT, consent="trust")
    return World(name, creation, moves, invariants=EVERY_INVARIANT, of_new_states=OF_NEW_STATES)


def stage_definition(id_: str, *depends_on: str, **parameters: Any) -> dict[str, Any]:
    """Return the definition of a stage with one output and a parameter x."""
    return {
        "id": id_,
        "name": id_,
        "depends_on": [*depends_on],
        "outputs": [f"{id_}/out"],
        "parameters": {"command": "run", "x": 1, **parameters},
    }


def start(place: Place, stage: Stage, **more: Any) -> p.AttemptStarted:
    """Return the command that starts an attempt in a new folder with a mark of its log."""
    folder = f"{stage.id}/.attempts/att-{len(stage.attempts) + 1:04d}-{place.generation:08x}"
    return s.attempt(stage.id, submission=f"{folder}/submission.json", **more)


def user_moves(place: Place, stage: Stage, most: int) -> Iterator[Move]:
    """Yield the commands of a user that start a stage, with at most ``most`` attempts."""
    id_ = stage.id
    if len(stage.attempts) < most:
        yield Move(f"dispatch {id_}", start(place, stage))
    yield Move(f"retry {id_}", p.StageRetried(stage=id_, fix="corrected"))
    yield Move(f"cancel {id_}", p.StageFailed(stage=id_, error="cancelled", stop=True))


def further_user_moves(place: Place, stage: Stage, most: int) -> Iterator[Move]:
    """Yield the commands of a user that diagnose a failure or reuse earlier outputs."""
    id_ = stage.id
    if len(stage.attempts) < most:
        yield Move(f"diagnose {id_}", start(place, stage, diagnostic=True))
    for attempt in stage.attempts:
        command = p.OutputsReused.model_validate(
            {"stage": id_, "attempt": attempt.id, "outputs": attempt.results, "inputs": []}
        )
        yield Move(f"reuse the outputs of {id_} {attempt.id}", command)


def reconciler_moves(place: Place, stage: Stage, most: int) -> Iterator[Move]:
    """Yield the commands of the reconciler and of the verification for a stage."""
    id_, newest = stage.id, stage.attempt
    if newest is not None and len(stage.attempts) < most:
        command = start(place, stage, recovers=newest.id)
        yield Move(f"replace the lost attempt {id_} {newest.id}", command)
    for attempt in stage.attempts:
        if attempt.is_to_stop:
            stopped = p.AttemptStopped(stage=id_, attempt=attempt.id, ended=[], reason="cancelled")
            yield Move(f"{id_} {attempt.id} has stopped", stopped)
    number = len(stage.attempts)
    out = p.FileDigest(path=f"{id_}/out", size=1, sha256=f"{number:064x}")
    right, wrong = (p.Check(name="out", passed=passed) for passed in (True, False))
    yield Move(
        f"the checks of {id_} pass", p.StageCompleted(stage=id_, checks=[right], outputs=[out])
    )
    if stage.status is Status.POST_PROCESSING:
        failure = p.StageFailed(stage=id_, error="wrong", checks=[wrong], outputs=[out])
        yield Move(f"a check of {id_} fails", failure)


def monitor_moves(
    stage: str, attempt: str, name: str, verdicts: tuple[str, ...] = ("lost", "failed", "wait")
) -> Iterator[Move]:
    """Yield the reports of monitors about an attempt, which need not be in the log."""
    about = f"monitor: {stage} {name}"
    yield Move(f"{about} is launched", s.launched(stage, attempt))
    yield Move(f"{about} has succeeded", s.computed(stage, attempt))
    failure = p.StageFailed(stage=stage, attempt=attempt, error="exit code 1", exit_code=1)
    yield Move(f"{about} has failed", failure)
    for action in verdicts:
        yield Move(f"{about} is seen as {action}", s.observed(stage, attempt, action))


def amendment_moves(
    place: Place, proposals: dict[str, dict[str, Any]], most: int
) -> Iterator[Move]:
    """Yield at most ``most`` proposals, and the decisions on all amendments."""
    flow = place.flow
    if len(flow.amendments) < most:
        for text, fields in proposals.items():
            command = p.AmendmentProposed.of({"description": text, **fields})
            yield Move(f"propose: {text}", command)
    for id_ in flow.amendments:
        approval = p.AmendmentApproved(amendment=id_, proof=_TRUST)
        yield Move(f"approve {id_}", approval)
        yield Move(f"reject {id_}", p.AmendmentRejected(amendment=id_))


def build_proposals(id_: str) -> dict[str, dict[str, Any]]:
    """Return proposals that change, check, repeat or skip a stage."""
    return {
        f"another value of x in {id_}": change_parameter(id_, "x", 2),
        f"a rerun of {id_}": {"kind": "stage_rerun", "stage": id_},
        f"another check of {id_}": change_parameter(id_, "verify", "true"),
        f"to skip {id_}": {"kind": "stage_skip", "stage": id_},
    }


def change_parameter(id_: str, name: str, value: Any) -> dict[str, Any]:
    """Return the fields of a proposal that gives a parameter of a stage a new value."""
    return {
        "kind": "parameter_change",
        "stage": id_,
        "changes": {"parameters": {name: {"new": value}}},
    }


def build_attempts_world(most: int = 3, amendments: int = 1, kinds: int = 4) -> World:
    """Return a workflow of one stage: attempts, reports, cancellations, retries, amendments.

    ``kinds`` is the number of different amendments that can be proposed.
    """
    proposals = dict(islice(build_proposals("stage-1").items(), kinds))

    def list_moves(place: Place) -> Iterator[Move]:
        stage = place.flow.stages["stage-1"]
        yield from user_moves(place, stage, most)
        yield from further_user_moves(place, stage, most)
        yield from reconciler_moves(place, stage, most)
        for number in range(1, len(stage.attempts) + 2):
            yield from monitor_moves("stage-1", f"att-{number:04d}", f"att-{number:04d}")
        yield from amendment_moves(place, proposals, amendments)

    return build_world("attempts", list_moves, stage_definition("stage-1"))


def copy_moves(place: Place) -> Iterator[Move]:
    """Yield the moves that copy the log once, and that later replace the log by the copy."""
    if place.generation > 0:
        return
    if place.copy is None:
        yield Move("copy the log", change=lambda now: replace(now, copy=now))
    else:
        yield Move("restore the copy of the log", change=_restore_copy)


def _restore_copy(place: Place) -> Place:
    copied = place.copy
    assert copied is not None
    kept = {(id_, one.name) for id_, of in copied.flow.stages.items() for one in of.attempts}
    every = {(id_, one.name) for id_, of in place.flow.stages.items() for one in of.attempts}
    return Place(copied.flow, copied.log, None, 1, tuple(sorted(every - kept)))


def lost_attempt_moves(place: Place) -> Iterator[Move]:
    """Yield the reports about attempts that only the replaced log contained.

    A report names an attempt by its folder. It concerns another attempt with the same id only if
    both have the same folder. The reconciler can also record such an attempt again.
    """
    for id_, name in place.lost:
        attempt, stage = name[:8], place.flow.stages[id_]
        if any(one.name == name for one in stage.attempts):
            continue
        command = s.attempt(id_, submission=f"{id_}/.attempts/{name}/submission.json")
        yield Move(f"record the lost attempt {id_} {name} again", command)
        if all(one.id != attempt for one in stage.attempts):
            yield from monitor_moves(id_, attempt, name, ("lost",))


def build_restored_log_world(most: int = 2, amendments: int = 0) -> World:
    """Return a workflow of one stage whose log is replaced by an earlier copy at some time.

    Then another attempt may start, in addition to ``most`` attempts.
    """

    def list_moves(place: Place) -> Iterator[Move]:
        stage, limit = place.flow.stages["stage-1"], most + place.generation
        yield from copy_moves(place)
        yield from user_moves(place, stage, limit)
        yield from reconciler_moves(place, stage, limit)
        for attempt in stage.attempts:
            yield from monitor_moves("stage-1", attempt.id, attempt.name, ("lost",))
        yield from lost_attempt_moves(place)
        rerun = {"a rerun": {"kind": "stage_rerun", "stage": "stage-1"}}
        yield from amendment_moves(place, rerun, amendments)

    return build_world("restored log", list_moves, stage_definition("stage-1"))


def build_chain_world(most: int = 2, amendments: int = 1) -> World:
    """Return a workflow of two stages, of which the second needs the first."""

    def list_moves(place: Place) -> Iterator[Move]:
        for stage in place.flow.stages.values():
            yield from user_moves(place, stage, most)
            yield from further_user_moves(place, stage, most)
            yield from reconciler_moves(place, stage, most)
            for attempt in stage.attempts:
                yield from monitor_moves(stage.id, attempt.id, attempt.id)
        skip = {"kind": "stage_skip", "stage": "stage-1", "rewire": True}
        proposals = {**build_proposals("stage-1"), "to skip stage-1 and its results": skip}
        yield from amendment_moves(place, proposals, amendments)

    stages = stage_definition("stage-1"), stage_definition("stage-2", "stage-1")
    return build_world("chain", list_moves, *stages)
