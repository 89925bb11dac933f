"""What a report begins with: what was asked, what came out, how sure it is, what people decided.

Facts alone, from the state and the log; the report as Markdown and the one as HTML spell them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import Seen, account
from projections.words.amendments import summary as changes_of
from projections.words.answers import answers
from projections.words.came_about import decided, is_taken_over, missing

if TYPE_CHECKING:
    from projections.files.facts import StageResult, WorkflowFacts

#: Suffix → type of a figure that browsers draw.
FIGURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
}


def is_figure(path: str) -> bool:
    """Whether a path is that of a figure, by its suffix."""
    return PurePosixPath(path).suffix.lower() in FIGURES


def figures_of(state: Workflow) -> list[str]:
    """Return the paths of the results that are figures on record."""
    known = {str(one["path"]) for stage in state.stages.values() for one in stage.results}
    paths = (one.path for one in answers(state) if one.number is None)
    return [path for path in paths if path in known and is_figure(path)]


@dataclass(frozen=True, slots=True)
class StageSummary:
    """What came out of a completed stage, in whose words, by which checks."""

    stage: Stage
    said: str
    judged_by: str | None
    checks: int
    outputs: list[dict[str, Any]]
    gone: Sequence[str] = ()

    @property
    def trust(self) -> str:
        """On what it is called verified."""
        if self.gone:
            return f"taken over from an imported record, {missing(self.gone)}"
        if is_taken_over(self.stage):
            return "taken over from an imported record, and verified by nothing"
        if self.checks:
            return f"{self.checks} checks passed" if self.checks > 1 else "1 check passed"
        return f"on the word of {self.judged_by or 'anyone who completed it'}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The beginning of a report; ``outcomes`` has those first on which no other stage rests.

    ``answers`` are the results that the plan names, a line each; ``figures`` are the paths of those
    that are figures.
    """

    standing: str
    outcomes: list[StageSummary]
    doubts: list[str]
    decisions: list[str]
    waits: bool = False
    answers: Sequence[str] = ()
    figures: Sequence[str] = ()

    @property
    def undecided(self) -> str:
        """What is said where no decision is told."""
        if self.waits:
            return "Nothing was decided yet; what waits for a person stands above."
        return "Nothing was for a person to decide."


def summarised(facts: WorkflowFacts, seen: Seen | None = None) -> Summary:
    """Return what the facts and a look at the files come to."""
    state = facts.state
    needed = {id_ for stage in state.stages.values() for id_ in stage.depends_on}
    done = [stage for stage in state.stages.values() if stage.status is Status.COMPLETED]
    last = [stage for stage in done if stage.id not in needed]
    rest = [stage for stage in done if stage.id in needed]
    gone = (seen or Seen()).gone
    found = account(state, seen)
    return Summary(
        standing=_standing(state, len(done), gone),
        outcomes=[
            _outcome(stage, facts.result(stage), gone.get(stage.id, ())) for stage in [*last, *rest]
        ],
        doubts=[*map(str, found), *_doubts(facts)],
        decisions=[*_decisions(state), *_judged(facts)],
        waits=any(one.person for one in found),
        answers=[str(one) for one in answers(state, seen) if one.number or one.lacking],
        figures=figures_of(state),
    )


def _standing(state: Workflow, done: int, gone: Mapping[str, Sequence[str]]) -> str:
    every = len(state.stages)
    if gone:
        lacking = "; ".join(f"{id_}: {missing(paths)}" for id_, paths in gone.items())
        return f"{done - len(gone)} of {every} stages are completed; taken over, {lacking}."
    if state.is_finished:
        skipped = every - done
        left_out = f", {skipped} skipped" if skipped else ""
        taken = sum(is_taken_over(stage) for stage in state.stages.values())
        verified = f", {taken} of them taken over and not verified" if taken else " and verified"
        return f"All {done} stages are completed{verified}{left_out}."
    failed = [stage.id for stage in state.stages.values() if stage.status is Status.FAILED]
    told = f"; failed: {', '.join(failed)}" if failed else ""
    return f"Not finished: {done} of {every} stages are completed{told}."


def _outcome(stage: Stage, result: StageResult, gone: Sequence[str]) -> StageSummary:
    found = result.completed
    made = StageSummary(
        stage,
        found.get("evidence") or found.get("detail") or "",
        found.get("judged_by") or found.get("by"),
        len([check for check in found.get("checks") or [] if check.get("passed", True)]),
        stage.results or found.get("outputs") or [],
        gone,
    )
    return replace(made, said="") if made.said == made.trust else made


def _doubts(facts: WorkflowFacts) -> Iterator[str]:
    """Yield why a reader should look twice, beside the account of where the workflow stands."""
    for id_, result in facts.results.items():
        for _, kind, text in result.troubles:
            if kind == "adopted":
                yield f"{id_}: results taken over as they are: {text}"
    for aside in facts.state.set_aside:
        yield f"version {aside['version']} of the log is ignored: {aside['why']}"


def _decisions(state: Workflow) -> Iterator[str]:
    if state.consent == "trust" and not state.is_plan_agreed:
        yield "nobody agreed to the plan: consent is by trust"
    for amendment in state.amendments.values():
        if amendment.status != "proposed":
            yield f"{amendment.id} {decided(amendment)}: {changes_of(amendment)}"


def _judged(facts: WorkflowFacts) -> Iterator[str]:
    """Yield which stages are completed on somebody's word, and which word it was."""
    for stage in facts.state.stages.values():
        found = facts.result(stage).completed
        if stage.status is Status.COMPLETED and found.get("judged_by"):
            yield f"{stage.id} judged by {found['judged_by']}: {found.get('evidence')}"
