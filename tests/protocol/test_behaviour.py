"""The protocol checker accepts logs that wfctl's rules wrote, and rejects invented logs."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from extensions.protocol_check.behaviour import first_breach
from extensions.protocol_check.derived_state import Breach
from tests.adversary.raw import append
from tests.cli.support import Place, attempt_data, call, write_plan
from tests.rounds import some

Event = dict[str, Any]

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt.",
    "stages": [
        {"id": f"stage-{n}", "name": f"Step {n}", "depends_on": [f"stage-{n - 1}"] if n > 1 else []}
        for n in range(1, 4)
    ],
}


def _run(place: Place, stage: str, number: int, *, fails: bool = False) -> None:
    attempt = f"att-{number:04d}"
    place.done("stage", "prepare", stage)
    place.done("append", "attempt.started", "--data", attempt_data(stage, mode="setsid"))
    launched = {"stage": stage, "mode": "setsid", "attempt": attempt, "job_ids": [str(number)]}
    place.done("append", "stage.launched", "--data", json.dumps(launched))
    if fails:
        place.done("stage", "fail", stage, "--error", "it diverged")
        return
    place.done("stage", "compute", stage)
    place.done("stage", "complete", stage, "--evidence", "it was looked at")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """Return the events of a workflow with failures, amendments and two sessions."""
    folder = tmp_path_factory.mktemp("history")
    root = folder / "root"
    root.mkdir()
    plan = str(write_plan(folder, PLAN))
    assert call("--root", str(root), "init", plan, "--consent", "trust").code == 0
    place = Place(root)
    place.done("session", "start")
    _run(place, "stage-1", 1)
    _run(place, "stage-2", 1, fails=True)
    place.done("stage", "retry", "stage-2", "--fix", "a smaller step")
    _run(place, "stage-2", 2)
    place.done("session", "end", "--reason", "waiting")
    place.done("session", "start")
    place.done(
        "amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--reason", "seed"
    )
    place.done("--actor", "user:ann", "amend", "approve", "amend-1")
    _run(place, "stage-1", 2)
    _run(place, "stage-2", 3)
    place.done(
        "amend", "propose", "--stage", "stage-3", "--set", "parameters.n=1", "--reason", "so"
    )
    place.done("amend", "reject", "amend-2", "--reason", "no")
    _run(place, "stage-3", 1)
    place.done("session", "end", "--reason", "completed")
    assert place.done("fsck", "--protocol")["findings"] == []
    lines = place.call("events", "--stored").out.splitlines()
    return [json.loads(line) for line in lines]


def _judged(events: list[Event]) -> Breach | None:
    return first_breach((event, event["hash"]) for event in events)


def _linked(events: list[Event]) -> list[Event]:
    """Return copies of the events with correct versions and hashes, like a forger."""
    before, made = "0" * 64, []
    for number, event in enumerate(deepcopy(events), 1):
        event |= {"version": number, "prev_hash": before, "hash": f"{number:064x}"}
        before = event["hash"]
        made.append(event)
    return made


def test_log_written_by_the_rules_is_accepted(history: list[Event]) -> None:
    """The checker finds nothing wrong in a log with failures, retries, a rerun and two sessions."""
    assert len({event["type"] for event in history}) >= 15
    assert _judged(history) is None
    assert _judged(_linked(history)) is None
    assert all(_judged(history[:n]) is None for n in range(len(history)))


#: Types of events without which a later event of the log is not allowed.
_NEEDED = (
    "workflow.created",
    "stage.readied",
    "stage.prepared",
    "attempt.started",
    "stage.launched",
    "stage.computed",
    "amendment.proposed",
    "amendment.approved",
    "stage.retried",
    "stage.invalidated",
    "stage.failed",
)
_OF_STAGES = {type_ for type_ in _NEEDED if type_.startswith(("stage.", "attempt."))}
#: Types of events that cannot be repeated immediately.
_ONCE = (
    *_NEEDED,
    "stage.completed",
    "session.started",
    "session.ended",
    "amendment.rejected",
    "workflow.completed",
)
_OTHER: dict[str, tuple[tuple[str, ...], ...]] = {
    "attempt.started": (("attempt",), ("stage",)),
    "stage.launched": (("attempt",), ("stage",), ("mode",)),
    "stage.computed": (("exit_code",), ("stage",), ("attempt",)),
    "stage.completed": (("stage",), ("attempt",), ("evidence",)),
    "stage.prepared": (("stage",),),
    "stage.readied": (("stage",),),
    "stage.retried": (("retry",), ("stage",)),
    "stage.failed": (("stage",), ("attempt",)),
    "stage.invalidated": (("amendment",), ("stage",)),
    "amendment.approved": (
        ("amendment",),
        ("version",),
        ("proof", "policy"),
        ("proof", "statement"),
    ),
    "amendment.rejected": (("amendment",),),
    "session.started": (("number",),),
    "cost.charged": (("stage",),),
}


def _lacking(history: list[Event], dice: random.Random) -> tuple[int, list[Event]]:
    # The log stays valid without the launch before a failure, so this launch is never removed.
    fails = {i - 1 for i, one in enumerate(history) if one["type"] == "stage.failed"}
    needed = [i for i, one in enumerate(history) if one["type"] in _NEEDED and i not in fails]
    at = dice.choice(needed)
    return at, [*history[:at], *history[at + 1 :]]


def _doubled(history: list[Event], dice: random.Random) -> tuple[int, list[Event]]:
    at = dice.choice([i for i, one in enumerate(history) if one["type"] in _ONCE])
    return at + 1, [*history[: at + 1], _anew(history[at], dice), *history[at + 1 :]]


def _anew(event: Event, dice: random.Random) -> Event:
    name = f"made-up-{dice.random()}"
    return {**deepcopy(event), "event_id": name, "command_id": name}


def _earlier(history: list[Event], dice: random.Random) -> tuple[int, list[Event]]:
    """Move an event of a stage before an event on which it depends."""
    pairs = [
        (i, j)
        for j, late in enumerate(history)
        for i in [_last(history, j)]
        if i is not None and {late["type"], history[i]["type"]} <= _OF_STAGES
    ]
    i, j = dice.choice(pairs)
    moved = [*history[:i], _anew(history[j], dice), *history[i:j], *history[j + 1 :]]
    return i, moved


def _last(history: list[Event], at: int) -> int | None:
    stage = history[at]["data"].get("stage")
    before = [i for i in range(at) if stage and history[i]["data"].get("stage") == stage]
    return before[-1] if before else None


def _changed(history: list[Event], dice: random.Random) -> tuple[int, list[Event]]:
    at = dice.choice([i for i, one in enumerate(history) if one["type"] in _OTHER])
    event = deepcopy(history[at])
    *way, last = dice.choice(_OTHER[event["type"]])
    place = event["data"]
    for key in way:
        place = place[key]
    number = dice.randrange(50, 10_000)
    place[last] = {
        "exit_code": number,
        "retry": number,
        "version": number,
        "number": number,
        "mode": "sync",
        "evidence": None,
        "statement": f"{number}",
    }.get(last, f"{'att-' if last == 'attempt' else 'no-'}{number:04d}")
    return at, [*history[:at], event, *history[at + 1 :]]


def _foreign(history: list[Event], dice: random.Random) -> tuple[int, list[Event]]:
    """Give an event the id of another event, a wrong stream, or an unknown type or actor."""
    at = dice.randrange(3, len(history))
    event, other = deepcopy(history[at]), history[dice.randrange(at - 2)]
    what = dice.choice(["event_id", "stream", "type", "actor"])
    event[what] = {
        "event_id": other["event_id"],
        "stream": "workflow-another",
        "type": f"stage.made-up-{dice.random()}",
        "actor": {"kind": "nobody", "name": "x"},
    }[what]
    return at, [*history[:at], event, *history[at + 1 :]]


MUTATIONS = (_lacking, _doubled, _earlier, _changed, _foreign)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.__name__.strip("_"))
def test_thousand_impossible_logs_are_rejected(history: list[Event], mutation: Any) -> None:
    """The checker rejects each log at the invented event or later; all hashes are correct."""
    for seed in range(some(200)):
        at, events = mutation(history, random.Random(seed))
        found = _judged(_linked(events))
        assert found is not None, (seed, at, history[at]["type"])
        assert found.version > at, (seed, at, found)


def test_wrong_link_or_version_is_rejected(history: list[Event]) -> None:
    """The checker rejects a log if a version or the hash of a previous event is wrong."""
    for at in range(1, len(history)):
        for name, value in (("prev_hash", "f" * 64), ("version", at + 2)):
            events = deepcopy(history)
            events[at][name] = value
            found = _judged(events)
            assert found is not None
            assert found.version == at + 1


@pytest.mark.forged
def test_fsck_protocol_names_the_first_impossible_event(tmp_path: Path) -> None:
    """`fsck --protocol` exits with 7 and names the version; `fsck` alone exits with 0."""
    root = tmp_path / "root"
    root.mkdir()
    assert (
        call(
            "--root", str(root), "init", str(write_plan(tmp_path, PLAN)), "--consent", "trust"
        ).code
        == 0
    )
    place = Place(root)
    append(root, "session.ended", {"reason": "completed", "next": None})
    assert place.json("fsck").code == 0
    answer = place.json("fsck", "--protocol")
    assert answer.code == 7
    assert [(f["kind"], f["version"]) for f in answer.data["findings"]] == [("protocol", 3)]


_SEEN: dict[str, Any] = {
    "stage": "stage-1",
    "attempt": "att-0001",
    "row": 9,
    "verdict": "FAILED",
    "action": "failed",
    "reason": "exit code 3",
    "evidence": {},
}
_COMPUTED = {"stage": "stage-1", "attempt": "att-0001", "exit_code": 0}
_LAUNCHED = {"stage": "stage-1", "attempt": "att-0001", "mode": "setsid"}


@pytest.mark.parametrize(
    ("mode", "before", "type_", "data", "code"),
    [
        ("setsid", "launched and seen", "stage.computed", _COMPUTED, "missing_evidence"),
        ("sync", "seen", "stage.computed", _COMPUTED, "missing_evidence"),
        ("sync", "", "stage.launched", _LAUNCHED, "illegal_transition"),
        ("tmux", "", "stage.launched", {**_LAUNCHED, "mode": "sync"}, "illegal_transition"),
        (
            "setsid",
            "",
            "cost.charged",
            {"stage": "stage-1", "weight": 1.5, "work_class": "async"},
            "no_command",
        ),
    ],
)
def test_append_refuses_events_that_break_the_protocol(
    tmp_path: Path, mode: str, before: str, type_: str, data: dict[str, Any], code: str
) -> None:
    """`wfctl append` refuses each event that the protocol checker would reject."""
    root = tmp_path / "root"
    root.mkdir()
    assert (
        call(
            "--root", str(root), "init", str(write_plan(tmp_path, PLAN)), "--consent", "trust"
        ).code
        == 0
    )
    place = Place(root)
    place.done("append", "attempt.started", "--data", attempt_data("stage-1", mode=mode))
    if "launched" in before:
        place.done("append", "stage.launched", "--data", json.dumps(_LAUNCHED))
    if "seen" in before:
        place.done("append", "attempt.observed", "--data", json.dumps(_SEEN))
    answer = place.json("append", type_, "--data", json.dumps(data))
    assert (answer.code, answer.error["code"]) == (5, code)
    assert place.done("fsck", "--protocol")["findings"] == []
