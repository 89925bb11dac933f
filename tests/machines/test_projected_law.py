"""After any random history, the files of a machine agree with its state."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extensions.machines.rules import payload as p
from extensions.machines.rules.decide import compute_state_after, decide
from extensions.machines.rules.definition import CANCELLED, Definition
from extensions.machines.rules.errors import MachineError
from extensions.machines.rules.guard import FileFact
from extensions.machines.rules.machine import Machine
from extensions.machines.views.documents import build_documents
from lifecycle.errors import NeedsConsent
from lifecycle.payload.base import Payload
from tests.machines.place import MachinePlace
from tests.machines.support import AT, PROOF, World, every, meet

FILE = "conductor/tracks/auth/metadata.json"
STEPS = {
    *("BRAINSTORM", "PLAN", "EVALUATE_PLAN", "EXECUTE", "EVALUATE_EXECUTION"),
    *("FIX", "BUSINESS_SYNC", "COMPLETE"),
}
STATUSES = {"NOT_STARTED", "IN_PROGRESS", "PASSED", "FAILED", "BLOCKED"}
#: Fields of other programs in a track's file, in an unusual order.
THEIRS: dict[str, Any] = {
    "zeta": 1,
    "loop_state": {
        "mode": "fast",
        "checkpoints": {"PLAN": {"reviewer": "ada", "cost": 3}, "EXTRA": {"x": 1}},
        "alpha": [1],
    },
    "beta": {"b": 1, "a": 2},
}


def begun(known: Definition, draw: Any) -> Machine:
    """Return an imported machine with foreign fields. Each loop is unused or at its limit."""
    own = known.protocol == "conductor"
    document = THEIRS if own else {key: THEIRS[key] for key in ("zeta", "beta")}
    sources = [way.source for way in known.transitions if way.source in STEPS]
    command = p.MachineImported(
        machine="task-001",
        definition=known.dumped(),
        phase=draw(st.sampled_from(sources)) if own else known.initial,
        status=known.statuses.initial if known.statuses is not None else None,
        document=document,
        counts={name: draw(st.sampled_from([0, loop.limit])) for name, loop in known.loops.items()},
    )
    return compute_state_after(None, decide(None, command, AT), AT)


def any_command(known: Definition, draw: Any) -> tuple[list[Payload], dict[str, FileFact]]:
    """Return random commands, and the files that exist at that time."""
    kind = draw(st.sampled_from(["event", "event", "way", "way", "approve", "cancel"]))
    if kind == "event":
        name = draw(st.sampled_from(list(known.events)))
        required = known.events[name].required
        data: dict[str, Any] = dict.fromkeys(required, f"said {draw(st.integers(0, 9))}")
        return [p.MachineRecorded(name=name, data=data)], {}
    if kind == "approve" and known.approvals:
        name = draw(st.sampled_from(list(known.approvals)))
        return [p.MachineApproved(approval=name, proof=PROOF)], {}
    if kind == "cancel":
        return ([p.MachineCancelled(reason="no use")] if draw(st.integers(0, 20)) == 0 else []), {}
    way = draw(st.sampled_from(known.transitions))
    world = World(known)
    meet(way.guard, world)
    changes = [p.Change(path=path, value=value) for path, value in world.document.items()]
    written: list[Payload] = [p.MachineUpdated(changes=changes)] if changes else []
    return [*written, p.MachineTransitioned(to=way.to)], world.files


def check(state: Machine) -> None:
    """Check the files of a machine against its state."""
    shown = build_documents(state)
    match state.definition.protocol:
        case "conductor":
            check_track(state, shown["metadata"])
        case "dotagent":
            check_phases(state, shown["phase"])
        case _:
            assert shown["state"]["phase"] == state.phase
    first = next(iter(shown.values()))
    assert [key for key in first if key in ("zeta", "beta")] == ["zeta", "beta"]
    assert list(first["beta"]) == ["b", "a"]


def check_track(state: Machine, shown: dict[str, Any]) -> None:
    """Check the track file: its step, status, limits, blockers, checkpoints and foreign fields."""
    loop = shown["loop_state"]
    assert loop["current_step"] in STEPS
    assert loop["step_status"] in STATUSES
    assert loop["fix_cycle_count"] <= loop["max_fix_cycles"]
    held = state.phase in ("BLOCKED", CANCELLED) or state.status == "BLOCKED"
    assert (loop["step_status"] == "BLOCKED") == held
    assert bool(shown.get("blockers")) == held
    for step, one in loop["checkpoints"].items():
        visit = state.visits.get(step)
        if visit is not None and (visit.has_recorded_events or visit.went):
            assert one["status"] in STATUSES
            assert (one["completed_at"] is not None) == (
                one["status"] in ("PASSED", "FAILED", "BLOCKED")
            )
            said = str(one.get("notes") or "")
            assert one["status"] in ("FAILED", "BLOCKED") or not said, one
            assert said.startswith("ERROR: ") == (one["status"] == "FAILED")
    entered = [move.to for move in state.moves]
    for step in STEPS & set(state.visits):
        if entered.count(step) > 1 and loop["checkpoints"].get(step):
            assert loop["checkpoints"][step]["history"]
    assert [key for key in loop if key in ("mode", "alpha")] == ["mode", "alpha"]
    plan = loop["checkpoints"]["PLAN"]
    assert (plan["reviewer"], plan["cost"], loop["checkpoints"]["EXTRA"]) == ("ada", 3, {"x": 1})


def check_phases(state: Machine, shown: dict[str, Any]) -> None:
    """Check the file phase.json: its phase, its status and its completed phases."""
    assert shown["phase_status"] in ("pending", "in_progress", "complete", "failed")
    assert (state.phase == CANCELLED) == ("cancelled_at" in shown)
    if not state.is_final:
        assert (shown["current_phase"], shown["phase_status"]) == (state.phase, state.status)
    done = [one["phase"] for one in shown["completed_phases"]]
    assert len(done) == len(set(done))
    order = list(state.definition.phases)
    assert [order.index(one) for one in done] == list(range(len(done)))


@pytest.mark.slow
@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_files_agree_with_the_state_after_any_history(
    known: Definition, data: st.DataObject
) -> None:
    """The test checks the files after each of up to forty random commands."""
    state = begun(known, data.draw)
    for _ in range(data.draw(st.integers(1, 40))):
        commands, files = any_command(known, data.draw)
        for command in commands:
            try:
                decided = decide(state, command, AT, files)
            except (MachineError, NeedsConsent):
                continue
            state = compute_state_after(state, decided, AT) if decided else state
            check(state)


@pytest.fixture
def track(place: MachinePlace) -> MachinePlace:
    """Return a root with a track (a piece of work in the conductor protocol)."""
    place.init("auth", "conductor")
    return place


def step(place: MachinePlace, name: str, notes: str | None = None) -> None:
    """Record an event such as `step.started` for the current step of the track."""
    data = ["--data", json.dumps({"notes": notes})] if notes is not None else []
    place.done("append", "auth", f"step.{name}", *data)


def checkpoint(place: MachinePlace, name: str) -> dict[str, Any]:
    """Return the checkpoint of the named step from the track file."""
    found: dict[str, Any] = place.json(FILE)["loop_state"]["checkpoints"][name]
    return found


def onward(place: MachinePlace, *steps: str) -> None:
    """For each name, pass the current step and move to the named step."""
    for name in steps:
        step(place, "started")
        step(place, "passed")
        place.done("transition", "auth", name)


def test_blocked_track_takes_no_steps(track: MachinePlace) -> None:
    """When the limit of fixes is reached, wfctl refuses all events of steps."""
    onward(track, "PLAN", "EVALUATE_PLAN", "EXECUTE", "EVALUATE_EXECUTION")
    for _ in range(4):
        step(track, "started")
        step(track, "failed", "bad")
        if track.done("transition", "auth", "FIX")["phase"] == "FIX":
            onward(track, "EVALUATE_EXECUTION")
    before = track.json(FILE)
    data = track.refused("INVALID_TRANSITION", 5, "append", "auth", "step.started")
    assert data["validTargets"] == ["PLAN", "FIX"]
    track.refused("INVALID_TRANSITION", 5, "append", "auth", "step.passed")
    assert track.json(FILE) == before
    assert before["loop_state"]["step_status"] == "BLOCKED"
    assert before["blockers"]


def test_cancelled_track_is_blocked_in_its_file(track: MachinePlace) -> None:
    """wfctl writes the status BLOCKED and the reason of the cancellation to the track file."""
    step(track, "started")
    track.done("cancel", "auth", "--reason", "no longer wanted")
    shown = track.json(FILE)
    assert shown["loop_state"]["step_status"] == "BLOCKED"
    assert "no longer wanted" in shown["blockers"][0]["reason"]
    assert track.done("list")[0]["status"] is None


def test_checkpoint_keeps_its_history(track: MachinePlace) -> None:
    """If a step fails and then passes, the history has the notes of the failure."""
    onward(track, "PLAN")
    step(track, "started")
    step(track, "failed", "again bad")
    failed = checkpoint(track, "PLAN")
    assert (failed["status"], failed["notes"]) == ("FAILED", "ERROR: again bad")
    assert failed["completed_at"]
    onward(track, "EVALUATE_PLAN")
    passed = checkpoint(track, "PLAN")
    assert (passed["status"], passed.get("notes")) == ("PASSED", None)
    assert [one["notes"] for one in passed["history"]] == ["ERROR: again bad"]


def test_checkpoint_stays_when_its_step_is_entered_again(track: MachinePlace) -> None:
    """If a passed plan is sent back, the history of its checkpoint has the earlier pass."""
    onward(track, "PLAN", "EVALUATE_PLAN")
    step(track, "started")
    step(track, "failed", "the plan has gaps")
    track.done("transition", "auth", "PLAN")
    again = checkpoint(track, "PLAN")
    assert again["status"] == "NOT_STARTED"
    assert [one["status"] for one in again["history"]] == ["PASSED"]
