"""Deciding commands and folding events agree for any sequence of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle.errors import LifecycleError, NoWorkflow
from lifecycle.fold.evolve import evolve
from lifecycle.payload import models as p
from lifecycle.payload.event_types import STAGED, VERSIONS
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide, find_consequences
from lifecycle.state.workflow import Workflow
from projections.files import progress_log, state_document
from service.reading import stream_log
from tests.golden.events_on_file import EVERY, examples
from tests.projections.story import attempt
from tests.projections.support import Recorded

#: Ids of three stages, which depend on each other or not, and of an unknown stage.
STAGES = st.sampled_from(["stage-1", "stage-2", "stage-3", "stage-9"])
ATTEMPTS = st.sampled_from(["att-0001", "att-0002", "att-0003"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def of_stage(
    model: Callable[..., Payload], **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[Payload]:
    """Return a Hypothesis strategy for commands that concern a stage."""
    return st.builds(model, stage=STAGES, **fields)


def of_attempt(
    model: Callable[..., Payload], **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[Payload]:
    """Return a Hypothesis strategy for commands that concern an attempt."""
    return of_stage(model, attempt=ATTEMPTS, **fields)


#: One example payload of each event type, so that random histories cover every type.
ON_FILE = [
    EVERY[example.type].model_validate(example.data)
    for example in examples()
    if example.type in STAGED and VERSIONS[example.type] == example.version
]


def of_another(payload: Payload, stage: str, attempt_: str) -> Payload:
    """Return the payload with another stage and attempt in those fields that it has."""
    given_ = {"stage": stage, "attempt": attempt_}
    fields = type(payload).model_fields
    return payload.model_copy(update={k: v for k, v in given_.items() if k in fields})


MODES = st.sampled_from(["sync", "tmux"])
COMMANDS = st.one_of(
    of_stage(p.StageReadied),
    of_stage(p.StagePrepared),
    st.builds(attempt, STAGES, st.just(1), MODES, st.none() | ATTEMPTS),
    st.builds(attempt, STAGES, st.just(1), MODES),
    st.builds(attempt, STAGES, st.just(1), MODES).map(
        lambda asked: asked.model_copy(update={"diagnostic": True})
    ),
    of_attempt(
        p.StageLaunched,
        mode=st.just("tmux"),
        session=st.just("s"),
        job_ids=st.sampled_from([[], ["1"], ["2"]]),
    ),
    of_attempt(p.StageComputed, exit_code=st.sampled_from([0, 0, 0, 1])),
    of_stage(p.StageCompleted, evidence=st.none() | TEXTS),
    of_stage(p.StageFailed, error=TEXTS, stop=st.booleans()),
    of_attempt(p.AttemptStopped, ended=st.just(["process 1"]), reason=TEXTS),
    of_attempt(
        p.AttemptLeft,
        files=st.lists(
            st.builds(p.LeftFile, path=TEXTS, size=st.just(1), sha256=TEXTS), max_size=2
        ),
    ),
    of_stage(p.StageRetried, fix=TEXTS),
    of_attempt(
        p.AttemptObserved,
        row=st.integers(0, 9),
        verdict=st.just("SEEN"),
        action=st.sampled_from(["lost", "wait"]),
        reason=TEXTS,
        evidence=st.just({}),
    ),
    of_attempt(p.AttemptRelaunched, mode=MODES, reason=TEXTS),
    of_stage(p.OutputsRecorded, outputs=st.lists(TEXTS, max_size=2)),
    of_stage(p.CheckpointRecorded, checkpoint=st.none() | TEXTS | st.integers(0, 9)),
    of_stage(p.StageSkipped, amendment=st.just("amend-1")),
    of_stage(p.StageInvalidated, amendment=st.just("amend-1")),
    st.builds(p.NoteLogged, text=TEXTS, stage=st.none() | STAGES),
    st.just(p.SessionStarted()),
    st.builds(p.SessionEnded, reason=st.sampled_from(["blocked", "waiting"])),
    of_stage(p.CostCharged, weight=st.sampled_from([1, 1.5, 2]), work_class=st.just("sync")),
    st.builds(of_another, st.sampled_from(ON_FILE), STAGES, ATTEMPTS),
)
DEPENDENCIES = st.sampled_from([([], []), (["stage-1"], ["stage-2"]), ([], ["stage-1", "stage-2"])])


def plan(depends: tuple[list[str], list[str]]) -> dict[str, Any]:
    """Return a plan of three stages."""
    second, third = depends
    names = {"stage-1": [], "stage-2": second, "stage-3": third}
    stages = [{"id": id_, "name": id_, "depends_on": on} for id_, on in names.items()]
    return {"workflow_id": "w", "stages": stages}


class History:
    """A workflow changed by random commands, with the number of refused commands."""

    def __init__(self, depends: tuple[list[str], list[str]]) -> None:
        self.events: list[Recorded] = []
        self.refused = 0
        self.state: Workflow | None = None
        self.carry_out(build_creation_payload(plan(depends), created=self.now(), consent="trust"))

    def now(self) -> str:
        """Return the time of the next event, one second after the previous event."""
        n = len(self.events)
        return f"2026-03-31T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}.000000Z"

    def carry_out(self, command: Payload) -> None:
        """Decide a command, and fold its events into the state; a refusal changes nothing.

        Also checks that the command has recorded all of its consequences.
        """
        before = stream_log.to_bytes(self.state) if self.state is not None else None
        try:
            decision = decide(self.state, command, self.now())
        except LifecycleError:
            self.refused += 1
            decision = []
        assert before is None or stream_log.to_bytes(the(self.state)) == before
        for payload in decision:
            self.record(payload)
        assert not find_consequences(the(self.state), self.now())

    def record(self, payload: Payload) -> None:
        """Append an event, and fold it into the state."""
        data = payload.model_dump(mode="json")
        now = self.now()
        event = Recorded(payload.type, data, len(self.events) + 1, now, now)
        self.events.append(event)
        self.state = the(evolve(self.state, [event]))
        line = progress_log.format_line(event, self.state)
        assert line is None or line.splitlines() == [line.removesuffix("\n")]


def the(state: Workflow | None) -> Workflow:
    """Return the state, after checking that it is not None."""
    assert state is not None
    return state


def lived(depends: tuple[list[str], list[str]], commands: list[Payload]) -> History:
    """Return the history of a workflow after the given commands."""
    history = History(depends)
    for command in commands:
        history.carry_out(command)
    return history


HISTORIES = st.builds(lived, DEPENDENCIES, st.lists(COMMANDS, max_size=40))


@settings(max_examples=150)
@given(HISTORIES)
def test_decided_events_fold_to_one_state(history: History) -> None:
    """Folding events one by one, all together or from a stored state gives equal states."""
    whole = the(evolve(None, history.events))
    assert whole == the(history.state)
    half = len(history.events) // 2
    if half:
        first = the(evolve(None, history.events[:half]))
        kept = stream_log.from_bytes(stream_log.to_bytes(first))
        assert kept == first
        assert the(evolve(kept, history.events[half:])) == whole


@settings(max_examples=75)
@given(HISTORIES)
def test_every_state_can_be_rendered(history: History) -> None:
    """A state renders to the same bytes after it was stored and loaded."""
    state = the(history.state)
    kept = stream_log.from_bytes(stream_log.to_bytes(state))
    assert state_document.render_state(kept) == state_document.render_state(state)


@settings(max_examples=75)
@given(HISTORIES)
def test_every_state_obeys_the_invariants(history: History) -> None:
    """No stage exceeds its retries, runs too early, or completes by a diagnostic run."""
    state = the(history.state)
    for stage in state.stages.values():
        assert stage.retry_count <= 3
        finished = stage.status.value in ("post_processing", "completed")
        assert not (finished and stage.attempt is not None and stage.attempt.diagnostic)
        at_work = stage.status.value in ("ready", "preparing", "running", "post_processing")
        assert not (at_work and state.unmet_dependencies(stage))
        assert sum(attempt.is_open for attempt in stage.attempts) <= 1
    assert (state.workflow_status == "completed") == state.is_finished


def test_some_commands_complete_the_workflow() -> None:
    """A sequence of possible random commands leads a workflow to completion."""
    way: list[Payload] = [
        command
        for stage in ("stage-1", "stage-2", "stage-3")
        for command in (
            attempt(stage, 1, "sync"),
            p.StageComputed(stage=stage, attempt="att-0001", exit_code=0),
            p.StageCompleted(stage=stage, evidence="seen"),
        )
    ]
    history = lived((["stage-1"], ["stage-2"]), way)
    assert history.refused == 0
    assert the(history.state).workflow_status == "completed"


@settings(max_examples=25)
@given(st.lists(COMMANDS, min_size=1, max_size=5))
def test_commands_without_a_workflow_are_refused(commands: list[Payload]) -> None:
    """Every command except a creation or an import raises NoWorkflow."""
    for command in commands:
        if isinstance(command, p.WorkflowCreated | p.WorkflowImported):
            continue
        with pytest.raises(NoWorkflow):
            decide(None, command, "2026-03-31T10:00:00.000000Z")
