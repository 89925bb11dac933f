"""Collect the first part of a report: question, answers, reliability and decisions.

It contains only facts from the state and the log. The Markdown and HTML reports format them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import FileCheckResult, list_attention_items
from projections.words.amendments import summarise_changes as changes_of
from projections.words.format_results import list_named_results
from projections.words.result_origin import (
    describe_decision,
    describe_missing_outputs,
    is_imported_as_completed,
)

if TYPE_CHECKING:
    from projections.files.facts import StageResult, WorkflowFacts

#: File suffix → media type of the figures that browsers can show.
FIGURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
}


def is_figure(path: str) -> bool:
    """Return whether the suffix of a path is that of a figure."""
    return PurePosixPath(path).suffix.lower() in FIGURES


def figures_of(state: Workflow) -> list[str]:
    """Return the paths of the workflow's results that are figures recorded in the log."""
    known = {str(one["path"]) for stage in state.stages.values() for one in stage.results}
    paths = (one.path for one in list_named_results(state) if one.number is None)
    return [path for path in paths if path in known and is_figure(path)]


@dataclass(frozen=True, slots=True)
class StageSummary:
    """The results of a completed stage, its checks, and the source of the verdict on it."""

    stage: Stage
    said: str
    judged_by: str | None
    checks: int
    outputs: list[dict[str, Any]]
    gone: Sequence[str] = ()

    @property
    def trust(self) -> str:
        """The reason why the report calls the stage verified."""
        if self.gone:
            return f"taken over from an imported record, {describe_missing_outputs(self.gone)}"
        if is_imported_as_completed(self.stage):
            return "taken over from an imported record, and not verified"
        if self.checks:
            return f"{self.checks} checks passed" if self.checks > 1 else "1 check passed"
        return f"as stated by {self.judged_by or 'anyone who completed it'}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The first part of a report.

    ``answers`` has one line for each result that the plan names, and ``figures`` has the paths of
    the figures among them. ``outcomes`` contains the stages, starting with those that no other
    stage needs.
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
        """The sentence to print if the workflow has no decisions."""
        if self.waits:
            return "Nothing was decided yet. The list above shows what waits for a person."
        return "No decision of a person was needed."


def build_summary(facts: WorkflowFacts, seen: FileCheckResult | None = None) -> Summary:
    """Return the first part of a report, from the log and a check of the files."""
    state = facts.state
    needed = {id_ for stage in state.stages.values() for id_ in stage.depends_on}
    done = [stage for stage in state.stages.values() if stage.status is Status.COMPLETED]
    last = [stage for stage in done if stage.id not in needed]
    rest = [stage for stage in done if stage.id in needed]
    gone = (seen or FileCheckResult()).gone
    found = list_attention_items(state, seen)
    return Summary(
        standing=_describe_progress(state, len(done), gone),
        outcomes=[
            _build_stage_summary(stage, facts.result(stage), gone.get(stage.id, ()))
            for stage in [*last, *rest]
        ],
        doubts=[*map(str, found), *_list_doubts(facts)],
        decisions=[*_list_decisions(state), *_list_judged_stages(facts)],
        waits=any(one.person for one in found),
        answers=[str(one) for one in list_named_results(state, seen) if one.number or one.lacking],
        figures=figures_of(state),
    )


def _describe_progress(state: Workflow, done: int, gone: Mapping[str, Sequence[str]]) -> str:
    every = len(state.stages)
    if gone:
        lacking = "; ".join(
            f"{id_}: {describe_missing_outputs(paths)}" for id_, paths in gone.items()
        )
        return f"{done - len(gone)} of {every} stages are completed; taken over, {lacking}."
    if state.is_finished:
        skipped = every - done
        left_out = f", {skipped} skipped" if skipped else ""
        taken = sum(is_imported_as_completed(stage) for stage in state.stages.values())
        verified = f", {taken} of them taken over and not verified" if taken else " and verified"
        all_done = "The only stage is" if every == 1 else f"All {done} stages are"
        return f"{all_done} completed{verified}{left_out}."
    failed = [stage.id for stage in state.stages.values() if stage.status is Status.FAILED]
    told = f"; failed: {', '.join(failed)}" if failed else ""
    return f"Not finished: {done} of {every} stages are completed{told}."


def _build_stage_summary(stage: Stage, result: StageResult, gone: Sequence[str]) -> StageSummary:
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


def _list_doubts(facts: WorkflowFacts) -> Iterator[str]:
    """Yield reasons to doubt the results that `list_attention_items` does not include."""
    for id_, result in facts.results.items():
        for _, kind, text in result.troubles:
            if kind == "adopted":
                yield f"{id_}: results taken over as they are: {text}"
    for aside in facts.state.set_aside:
        yield f"version {aside['version']} of the log is ignored: {aside['why']}"


def _list_decisions(state: Workflow) -> Iterator[str]:
    if state.consent == "trust" and not state.is_plan_agreed:
        yield "nobody approved the plan (consent policy: trust)"
    for amendment in state.amendments.values():
        if amendment.status != "proposed":
            yield f"{amendment.id} {describe_decision(amendment)}: {changes_of(amendment)}"


def _list_judged_stages(facts: WorkflowFacts) -> Iterator[str]:
    """Yield the stages that were completed only because a person or agent claimed success.

    Each text contains the claim.
    """
    for stage in facts.state.stages.values():
        found = facts.result(stage).completed
        if stage.status is Status.COMPLETED and found.get("judged_by"):
            yield f"{stage.id} judged by {found['judged_by']}: {found.get('evidence')}"
