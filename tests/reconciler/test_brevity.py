"""The shortened briefing: no attempt, decision or contradiction is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.settings import Settings
from cli.terminal.briefing import format_briefing
from cli.terminal.output import Output
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Attempt, Drift, Stage, Workflow
from reconciler.attempt.markers import Marker, MarkerState
from reconciler.briefing.briefing import Briefing, count_tokens, fit_briefing, join_names_as_ranges
from reconciler.briefing.rehydrate import briefing_of
from reconciler.control.judge_attempts import AttemptFinding
from reconciler.evidence.evidence import Evidence
from reconciler.verdict.table import derive_verdict
from service.questions.recent_events import PastEvent
from tests.reconciler.support import IN_PLACE, JOB, NOW, own, seen, submitted

#: Number of tokens into which a briefing of 1,000 stages always fits.
ENOUGH = 4_000

#: Examples of evidence, some of them contradictory.
EVIDENCE: tuple[Evidence, ...] = (
    seen(monitor_locked=True),
    seen(root_recorded="/elsewhere"),
    seen(exit_marker=Marker(MarkerState.OTHER, 0, "wf/stage-1/att-0000", 1)),
    seen(exit_marker=own(0), done_marker=own(0), outputs=(IN_PLACE,)),
    seen(exit_marker=own(0)),
    submitted(replace(JOB, lock_held=True)),
    submitted(replace(JOB, exit_code=3, ended_at=5)),
    submitted(),
)
IN_FLIGHT = (Status.PREPARING, Status.RUNNING)


def spelled_out(text: str) -> list[str]:
    """Return the full names that `join_names_as_ranges` shortened."""
    return [name for word in text.split() for name in _names(word)]


def _names(word: str) -> list[str]:
    prefix, dash, numbers = word.rpartition("-")
    if not dash or not re.fullmatch(r"[1-9][0-9]*(\.\.[0-9]+)?(,[0-9]+(\.\.[0-9]+)?)*", numbers):
        return [word]
    runs = (part.split("..") for part in numbers.split(","))
    return [f"{prefix}-{n}" for run in runs for n in range(int(run[0]), int(run[-1]) + 1)]


def render_text(briefing: Briefing) -> str:
    """Return the briefing as text."""
    return format_briefing(briefing, Output(Settings()), dry_run=False)


def render_json(briefing: Briefing) -> str:
    """Return the briefing as JSON."""
    return json.dumps(briefing.to_dict(), indent=2, ensure_ascii=False)


def stage_of(number: int, status: Status, attempt: int) -> Stage:
    """Return a stage with this status, with an open attempt if the stage is running."""
    stage = Stage(f"stage-{number}", f"the {number}th", status, last_error="it broke " * 9)
    if status in IN_FLIGHT:
        place = ("root", "work", "submission.json", "0" * 64, "dpdisp-run.sh")
        stage.attempts.append(Attempt(f"att-{attempt:04d}", NOW, "setsid", *place))
    return stage


def workflow_of(stages: list[Stage], amendments: int, drifts: int) -> Workflow:
    """Return a workflow with this many pending amendments and edited files."""
    waiting = [f"amend-{number}" for number in range(1, amendments + 1)]
    return Workflow(
        "wf",
        NOW,
        NOW,
        stages={stage.id: stage for stage in stages},
        amendments={
            id_: Amendment(id_, "stage_rerun", "stage-1", "again, please", NOW, {})
            for id_ in waiting
        },
        drifts=[Drift(n, f"file-{n}.json", "changed", 0, "x") for n in range(1, drifts + 1)],
    )


def finding_of(stage: Stage, evidence: Evidence) -> AttemptFinding:
    """Return the finding for this evidence."""
    found = derive_verdict(evidence)
    return AttemptFinding(stage.id, stage.attempts[-1].id, evidence, found, ("do what follows",))


@st.composite
def briefings(draw: st.DrawFn, most: int = 60) -> Briefing:
    """Draw a briefing of random stages, some of which have findings."""
    kinds = st.tuples(st.sampled_from(Status), st.integers(1, 3), st.sampled_from(EVIDENCE))
    drawn = draw(st.lists(kinds, min_size=1, max_size=most))
    stages = [stage_of(number, kind[0], kind[1]) for number, kind in enumerate(drawn, 1)]
    state = workflow_of(stages, draw(st.integers(0, 4)), draw(st.integers(0, 2)))
    looked_at = draw(st.integers(0, len(stages)))
    findings = [
        finding_of(stage, kind[2])
        for stage, kind in zip(stages[:looked_at], drawn, strict=False)
        if stage.open_attempt
    ]
    past = [PastEvent(n, NOW, "user:me", f"it was {n}") for n in range(draw(st.integers(0, 40)))]
    return briefing_of(state, state, findings, [], past)


def attempts_of(data: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the attempts that the JSON data of a briefing names."""
    return {(stage, f["attempt"]) for f in data["found"] for stage in spelled_out(f["stages"])}


def named(data: dict[str, Any], key: str) -> set[tuple[str, str]]:
    """Return the subjects of one part of the JSON data, each with its kind."""
    return {(one["kind"], name) for one in data[key] for name in spelled_out(one["subjects"])}


@settings(max_examples=150)
@given(briefing=briefings(), budget=st.integers(1, 3_000))
def test_short_json_keeps_all_attempts_decisions_and_contradictions(
    briefing: Briefing, budget: int
) -> None:
    """For any token limit, the shortened JSON names the same ones as the full briefing."""
    short = fit_briefing(briefing, lambda form: count_tokens(render_json(form)) <= budget).to_dict()
    full = briefing.to_dict()
    assert attempts_of(short) == attempts_of(full)
    assert named(short, "waiting") == named(full, "waiting")
    assert named(short, "contradictions") == named(full, "contradictions")


@settings(max_examples=100)
@given(briefing=briefings(), budget=st.integers(1, 3_000))
def test_short_text_names_everything_in_its_data(briefing: Briefing, budget: int) -> None:
    """Each finding, decision and contradiction of the short briefing has a line."""
    short = fit_briefing(briefing, lambda form: count_tokens(render_text(form)) <= budget)
    lines = [line.strip() for line in render_text(short).splitlines()]
    for found in short.found:
        start = f"{join_names_as_ranges(found.stages)} {found.attempt} {found.verdict}"
        assert any(line.startswith(start) for line in lines), start
    named_so = [f"{w.kind} {join_names_as_ranges(w.subjects)}" for w in short.waiting]
    named_so += [f"{c.kind} {join_names_as_ranges(c.subjects)}" for c in short.contradictions]
    for start in named_so:
        assert any(line.startswith(start) for line in lines), start


@settings(max_examples=15, suppress_health_check=[HealthCheck.data_too_large])
@given(seed=st.randoms(use_true_random=False))
@pytest.mark.parametrize("render", [render_text, render_json])
@pytest.mark.slow
def test_briefing_of_a_thousand_stages_fits_its_limit(
    render: Callable[[Briefing], str], seed: Any
) -> None:
    """Stages with random statuses and verdicts fit into 4,000 tokens."""
    stages = [
        stage_of(number, seed.choice(list(Status)), seed.randint(1, 2))
        for number in range(1, 1_001)
    ]
    state = workflow_of(stages, 5, 2)
    findings = [finding_of(s, seed.choice(EVIDENCE)) for s in stages if s.open_attempt]
    briefing = briefing_of(state, state, findings, [], [])
    short = fit_briefing(briefing, lambda form: count_tokens(render(form)) <= ENOUGH)
    assert count_tokens(render(short)) <= ENOUGH
    under_way = {(stage.id, stage.attempts[-1].id) for stage in stages if stage.open_attempt}
    assert attempts_of(short.to_dict()) == under_way


def test_small_briefing_is_not_shortened() -> None:
    """A briefing that fits the limit is returned unchanged."""
    state = workflow_of([stage_of(1, Status.RUNNING, 1)], 1, 0)
    briefing = briefing_of(state, state, [], [], [])
    assert (
        fit_briefing(briefing, lambda form: count_tokens(render_json(form)) <= ENOUGH) == briefing
    )


def test_short_briefing_lists_what_was_left_out() -> None:
    """The shortened briefing lists omitted events, stages, evidence and reasons."""
    state = workflow_of([stage_of(n, Status.RUNNING, 1) for n in range(1, 9)], 0, 0)
    past = [PastEvent(n, NOW, "user:me", "it was") for n in range(30)]
    findings = [finding_of(s, EVIDENCE[0]) for s in state.stages.values()]
    short = fit_briefing(briefing_of(state, state, findings, [], past), lambda _: False)
    assert {"29 events", "the list of stages", "evidence", "reasons"} <= set(short.left_out)


@given(
    st.lists(
        st.sampled_from(["stage-", "amend-", "a-b-"]).flatmap(
            lambda prefix: st.integers(1, 99).map(lambda n: f"{prefix}{n}")
        ),
        unique=True,
    )
)
def test_shortened_names_can_be_expanded(names: list[str]) -> None:
    """Ranges of names stand for exactly the original names."""
    assert sorted(spelled_out(join_names_as_ranges(names))) == sorted(names)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["stage-1"], "stage-1"),
        (["stage-1", "stage-2"], "stage-1,2"),
        (["stage-3", "stage-1", "stage-2", "stage-9"], "stage-1..3,9"),
        (["amend-2", "stage-1", "progress.log"], "amend-2 stage-1 progress.log"),
    ],
)
def test_consecutive_names_become_a_range(names: list[str], short: str) -> None:
    """`join_names_as_ranges` joins names with consecutive numbers; names without a number stay."""
    assert join_names_as_ranges(names) == short
