"""List everything in a workflow that needs attention, and the origin of its results.

The items are changed files, outdated results, open decisions and failures. They are derived from
the state and from a check of the files. All commands use this list, so that they agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lifecycle.state.conditions import (
    describe_failure,
    downstream,
    has_failed_result_check,
    has_run_rejected_points,
    is_failure_caused_by_plan,
    open_amendments_of_failed_stage,
)
from lifecycle.state.status import Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from projections.words.result_origin import (
    AttentionItem,
    add_acceptance_to_item,
    list_edit_decision_items,
    list_origin_items,
)
from projections.words.text import truncate_utc_to_seconds

_PAST = {"changed": "has changed", "missing": "is missing", "touched": "was touched"}


class Deviation(NamedTuple):
    """A file that differs from its record in the log.

    ``what`` is ``result`` or ``input``. ``kind`` is ``changed``, ``missing``, ``deleted``, or
    ``touched``. Touched means that only the time of the file is new, so only a check of the content
    can tell.
    """

    stage: str
    attempt: str | None
    what: str
    path: str
    kind: str
    since: str
    #: Seconds between ``since`` and the last change of the file, or None for a missing file.
    after: float | None = None

    @property
    def is_changed_input(self) -> bool:
        """Return whether an input has changed, so that the stage's results are outdated."""
        return self.what == "input" and self.kind != "touched"

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as a dict of JSON values."""
        fields = ("stage", "attempt", "what", "path", "kind", "since", "after")
        return {name: getattr(self, name) for name in fields}

    def __str__(self) -> str:
        return f"{self.stage}: {self.said}"

    @property
    def said(self) -> str:
        """A description of the difference, without the name of the stage."""
        if self.kind == "deleted":
            return f"{self.path} was recorded as deleted on {truncate_utc_to_seconds(self.since)}"
        how = f"{self.stage} left it" if self.what == "result" else f"{self.attempt} read it"
        what = f"{_PAST[self.kind]} since"
        if self.after is not None and self.kind != "missing":
            kind = self.kind if self.kind == "changed" else "was touched"
            what = f"{kind} {_format_span(self.after)} after"
        return f"{self.path} {what} {how} ({truncate_utc_to_seconds(self.since)})"


def _format_span(seconds: float) -> str:
    """Return a time span in its largest unit, such as ``2 h``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


#: Maximum number of characters of the reason for a failure.
_REASON = 400
#: Description of a generated file that another program or a person has edited.
EDITED = "was changed by hand or by another program; `wfctl drift show` prints the change"


class FileCheckResult(NamedTuple):
    """The results of a check of the files in the workflow folder.

    - ``deviations``: results and inputs that differ from the log.
    - ``files``: each generated file that differs from the log, with a description.
    - ``verdicts``: each failed stage whose checking scripts have changed since, with the reason.
    - ``gone``: the missing outputs of each stage that was imported as completed.
    - ``times``: the modification times of results that were not recorded at the end of their job.
    """

    deviations: Sequence[Deviation] = ()
    files: Mapping[str, str] = MappingProxyType({})
    verdicts: Mapping[str, str] = MappingProxyType({})
    times: Mapping[str, float] = MappingProxyType({})
    gone: Mapping[str, Sequence[str]] = MappingProxyType({})
    #: Failed sweep that has finished tasks → its inputs that changed since its newest attempt.
    changed_inputs: Mapping[str, Sequence[str]] = MappingProxyType({})
    #: Scripts that have changed since a person approved them, or since an attempt started.
    scripts: Sequence[AttentionItem] = ()
    #: Signs that the log itself was changed, and warnings about an edited plan file and a full
    #: file system.
    log: Sequence[AttentionItem] = ()

    @property
    def edited(self) -> list[str]:
        """The generated files that were edited by hand or by another program."""
        return [file for file, text in self.files.items() if text == EDITED]


def list_attention_items(
    state: Workflow, seen: FileCheckResult | None = None
) -> list[AttentionItem]:
    """Return all items of a workflow that need attention, with open decisions first.

    Without a check of the files (``seen``), return only the items that follow from the log.
    """
    found = list_recorded_deviations(state) if seen is None else seen.deviations
    seen = seen or FileCheckResult()
    return [
        *seen.log,
        *_list_decisions(state, seen.edited),
        *(
            AttentionItem(
                f"{one.kind} result", one.path, one.said, one.stage, one.kind != "touched"
            )
            for one in found
            if one.what == "result"
        ),
        *_list_stale(state, found),
        *(AttentionItem("verdict", id_, why, id_) for id_, why in seen.verdicts.items()),
        *_of_stages(state),
        *_list_waiting_loop_items(state),
        *list_result_origin_items(state, seen),
        *list_edit_decision_items(state.edits),
    ]


def list_result_origin_items(state: Workflow, seen: FileCheckResult) -> list[AttentionItem]:
    """Return an item for each result that was not produced exactly as the log records."""
    found = [*list_origin_items(state, seen.times, seen.gone), *seen.scripts]
    return [add_acceptance_to_item(one, state.agreed) for one in found]


def list_waiting_items(state: Workflow, seen: FileCheckResult | None = None) -> list[AttentionItem]:
    """Return the items that wait for a person."""
    return [one for one in list_attention_items(state, seen) if one.person]


def to_dicts(items: Iterable[AttentionItem]) -> list[dict[str, Any]]:
    """Return each item as a dict of JSON values."""
    dicts = (one._asdict() for one in items)
    return [{name: value for name, value in one.items() if name != "file_entry"} for one in dicts]


def _list_decisions(state: Workflow, edited: Iterable[str]) -> Iterator[AttentionItem]:
    for amendment in state.pending_amendments:
        from projections.words.amendments import summarise_changes

        text = f"{amendment.kind}: {summarise_changes(amendment)}"
        if amendment.is_plan:
            waits = "was rejected" if amendment.status == "rejected" else "waits for a person"
            text = f"the plan {waits}; nothing starts before it is approved"
        yield AttentionItem("amendment", amendment.id, text, amendment.stage)
    for drift in state.drifts:
        yield AttentionItem("drift", drift.file, f"{drift.kind}; adopt or revert the change")
    for file in edited:
        yield AttentionItem("drift", file, "changed; adopt or revert the change")


def _list_stale(state: Workflow, found: Iterable[Deviation]) -> Iterator[AttentionItem]:
    for id_, why in find_stale_stages(state, found).items():
        yield AttentionItem("stale", id_, ", ".join(why), id_)
    for stage in state.stages.values():
        loop = state.loops.get(state.loop_of(stage.id) or "")
        # In rounds after the first, the optimization loop itself invalidates its stages, so this
        # needs no attention.
        if stage.status is Status.INVALIDATED and (loop is None or loop.round.number == 1):
            yield AttentionItem(
                "stale", stage.id, "its results are no longer valid", stage.id, False
            )


def _of_stages(state: Workflow) -> Iterator[AttentionItem]:
    stages = state.stages.values()
    for stage in stages:
        # The success criteria are a text, and no command checks them. A person or agent must state
        # that they are met.
        prose = bool(stage.success_criteria) and not stage.parameters.get("verify")
        if stage.status is Status.POST_PROCESSING and prose:
            yield AttentionItem("judgement", stage.id, stage.success_criteria, stage.id)
    for stage in stages:
        if stage.attempts and stage.attempts[-1].is_to_stop:
            text = f"{stage.attempts[-1].id} has ended, but nothing confirmed that its job stopped"
            yield AttentionItem("stop", stage.id, text, stage.id)
    for stage in (one for one in stages if one.status is Status.FAILED):
        if open_amendments_of_failed_stage(state, stage):
            continue  # the amendment's decision answers the failure
        text = describe_failure(stage)[:_REASON]
        if not (has_failed_result_check(stage) or is_failure_caused_by_plan(state, stage)):
            limit = retry_limit(state.backend_type(stage))
            text = f"{text} ({stage.retry_count} of {limit} retries used)"
        yield AttentionItem("failure", stage.id, text, stage.id)


def _list_waiting_loop_items(state: Workflow) -> Iterator[AttentionItem]:
    """Yield an item for each optimization loop that waits for new points from outside."""
    for name, loop in state.loops.items():
        definition = state.loop(name)
        if not loop.is_due or state.pending_amendments:
            continue
        text = f"waits for the points of round {loop.round.number + 1}"
        if definition.has_external_proposer:
            yield AttentionItem("round", name, text)
        elif has_run_rejected_points(state, name):
            yield AttentionItem(
                "round", name, f"{text}; the points in {definition.ask} were refused"
            )


def find_stale_stages(state: Workflow, found: Iterable[Deviation]) -> dict[str, list[str]]:
    """Return the completed stages with outdated results, each with the reasons.

    A reason is a changed input, or a dependency whose results are outdated.
    """
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.is_changed_input:
            reasons.setdefault(one.stage, []).append(one.said)
    graph = {id_: stage.depends_on for id_, stage in state.stages.items()} if reasons else {}
    for source in list(reasons):
        for id_ in downstream(graph, [source]):
            if state.stages[id_].status is Status.COMPLETED:
                reasons.setdefault(id_, []).append(
                    f"{source}, on which the stage depends, is stale"
                )
    return {id_: reasons[id_] for id_ in state.stages if id_ in reasons}


def list_recorded_deviations(state: Workflow) -> list[Deviation]:
    """Return the changed results in the log, and the attempts that read these files."""
    gone = {one["path"]: one["kind"] for stage in state.stages.values() for one in stage.changed}
    if not gone:
        return []
    return [one for stage in state.stages.values() for one in _list_stage_deviations(stage, gone)]


def _list_stage_deviations(stage: Stage, gone: dict[str, str]) -> Iterator[Deviation]:
    attempt = stage.source
    id_ = attempt.id if attempt is not None else None
    for one in stage.changed:
        yield Deviation(stage.id, id_, "result", one["path"], one["kind"], stage.completed_at or "")
    if stage.status is not Status.COMPLETED or attempt is None or attempt.taken_over:
        return
    for one in attempt.inputs:
        if one["path"] in gone:
            kind, since = gone[one["path"]], attempt.started_at
            yield Deviation(stage.id, attempt.id, "input", one["path"], kind, since)
