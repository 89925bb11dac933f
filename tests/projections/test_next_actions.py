"""The rules accept each action that wfctl suggests, except actions that need a person."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.payload.models import Check, Payload
from lifecycle.rules.decide import decide
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import Surroundings, next_actions
from projections.words.text import NextAction
from tests.history.chronicle import CHRONICLES, Chronicle
from tests.projections.story import attempt
from tests.projections.support import folded

AT = "2026-04-01T00:00:00.000000Z"
PREPARED = Surroundings(prepared=frozenset({"stage-1", "stage-2", "stage-3", "stage-4"}))
#: Arguments that replace the placeholders in a suggested command, such as TEXT.
WORDS = {"TEXT": "a smaller step", "PATH=VALUE": "parameters.other=1", "JSON": "[]"}


def of_stage(state: Workflow, id_: str, deed: str, words: list[str]) -> Payload:
    """Return the command that `wfctl stage DEED` would give to the rules."""
    words = [word for word in words if word != "--or-fail"]
    text = words[1] if words else ""
    passed = [] if words else [Check(name="out", passed=True)]
    ways: dict[str, Callable[[], Payload]] = {
        "ready": lambda: p.StageReadied(stage=id_),
        "complete": lambda: p.StageCompleted(stage=id_, checks=passed, evidence=text or None),
        "fail": lambda: p.StageFailed(stage=id_, error=text),
        "retry": lambda: p.StageRetried(stage=id_, fix=text),
    }
    return ways[deed]()


def proposal(stage: str, option: str, value: str) -> Payload:
    """Return the command that `wfctl amend propose` would give to the rules."""
    whole = value.startswith("depends_on")
    new: Any = {"depends_on": {"new": []}} if whole else {"parameters": {"other": {"new": 1}}}
    rerun = option == "--type"
    return p.AmendmentProposed.of(
        {
            "kind": value if rerun else "parameter_change",
            "stage": stage,
            "description": "so that it goes on",
            "changes": {} if rerun else new,
        }
    )


def commands_of(state: Workflow, action: NextAction) -> list[Payload]:
    """Return the commands that a suggested action would give to the rules."""
    words = [WORDS.get(word, word) for word in shlex.split(action.command)[1:]]
    match words:
        case ["stage", deed, id_, *rest]:
            return [of_stage(state, id_, deed, rest)]
        case ["dispatch", id_]:
            return [attempt(id_, len(state.stage(id_).attempts) + 1, "sync")]
        case ["run"]:
            able = [s for s in state.stages.values() if s.status is Status.READY]
            return [attempt(able[0].id, len(able[0].attempts) + 1, "sync")]
        case ["amend", "propose", "--stage", id_, option, value, "--reason", _]:
            return [proposal(id_, option, value)]
    assert words[0] in ("wait", "reconcile"), action
    assert all(state.stage(id_).open_attempt is not None for id_ in words[1:])
    return []


def destroys_nothing(command: str) -> bool:
    """Return whether a suggested command neither stops nor deletes anything."""
    words = shlex.split(command)[1:]
    grown = {"stage": {"ready", "complete", "fail", "retry"}, "amend": {"propose", "show"}}
    plain = {"dispatch", "run", "wait", "reconcile", "report", "rehydrate"}
    shown = {"drift": {"show"}, "runner": {"resume"}}
    deed = {**grown, **shown}.get(words[0], set())
    return "--stop" not in words and (words[0] in plain or words[1] in deed)


def check(state: Workflow) -> int:
    """Check each action that wfctl suggests for a state, and return the number of actions."""
    actions = next_actions(state, PREPARED)
    for action in actions:
        assert destroys_nothing(action.command), action
        if action.person or state.workflow_status == "completed":
            continue
        assert ("TEXT" in action.command) == ("TEXT" in action.needs)
        for command in commands_of(state, action):
            assert decide(state, command, AT), action
    return len(actions)


@settings(max_examples=25, derandomize=True)
@given(CHRONICLES)
def test_suggested_actions_are_accepted_by_the_rules(chronicle: Chronicle) -> None:
    """For random states, the rules accept every suggested command with its placeholders filled."""
    check(chronicle.log.current())


@pytest.mark.long
@settings(max_examples=500)
@given(CHRONICLES)
def test_suggested_actions_of_many_states_are_accepted(chronicle: Chronicle) -> None:
    """The long test run repeats this check for more random states."""
    check(chronicle.log.current())


@settings(max_examples=10, derandomize=True)
@given(CHRONICLES, st.booleans())
def test_no_start_is_suggested_while_driven_or_paused(chronicle: Chronicle, driven: bool) -> None:
    """During a pause or the work of a runner, wfctl suggests neither `dispatch` nor `run`."""
    state = chronicle.log.current()
    around = Surroundings(driven=driven, paused=not driven, prepared=PREPARED.prepared)
    for action in next_actions(state, around):
        assert action.command != "wfctl run"
        assert not action.command.startswith("wfctl dispatch")


def test_many_ready_stages_are_started_by_one_command() -> None:
    """For 33 ready stages, wfctl suggests only `wfctl run`."""
    stages = [
        {"id": f"stage-{n}", "name": "s", "parameters": {"command": "true"}} for n in range(1, 34)
    ]
    ready = [p.StageReadied(stage=f"stage-{n}") for n in range(1, 34)]
    state = folded(ready, {"workflow_id": "w", "stages": stages})
    [action] = next_actions(state)
    assert action.command == "wfctl run"


def test_placeholder_dots_are_refused_as_text() -> None:
    """The rules refuse a fix, an error or evidence that consists only of dots."""
    state = folded([p.StageReadied(stage="stage-1"), p.StagePrepared(stage="stage-1")])
    with pytest.raises(LifecycleError) as refusal:
        decide(state, p.StageFailed(stage="stage-1", error="…"), AT)
    assert "Describe in a sentence" in str(refusal.value)
