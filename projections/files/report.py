"""Render the Markdown report of a workflow: results, inputs and origin.

The report depends only on the log, so the same log always gives the same bytes. The results of a
check of the files can be added.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from lifecycle.state.workflow import Stage
from projections.drawing.plots import draw_braille_plot, plots_of_rounds
from projections.files.facts import StageResult, WorkflowFacts
from projections.files.method import (
    Named,
    StageEnvironment,
    StageMethod,
    convert_values_to_text,
    describe_method,
)
from projections.files.sessions import SessionRecord
from projections.files.summary import Summary, build_summary, is_figure
from projections.words.account import FileCheckResult
from projections.words.decisions import AmendmentRecord
from projections.words.rounds import LoopProgress, list_loop_progress, round_rows
from projections.words.text import (
    collapse_whitespace,
    describe_requested_resources,
    describe_used_resources,
    describe_waiting_reason,
    format_duration,
    mark_invisible_in_each_line,
    name_approver,
    truncate_utc_to_seconds,
)

#: Characters that have a meaning in Markdown or HTML → their escaped form.
_ESCAPES = {ord("<"): "&lt;", ord("&"): "&amp;", **{ord(c): f"\\{c}" for c in "\\`[]"}}


#: Maximum number of characters of a value on the same line as its name. Longer values become
#: blocks.
_SHORT = 80


def render(facts: WorkflowFacts, seen: FileCheckResult | None = None, root: str = ".") -> bytes:
    """Return the report as UTF-8 Markdown.

    ``seen`` is the result of a check of the files, or None without a check. ``root`` is the path
    from the report's folder to the workflow folder. It is needed for links.
    """
    stages = facts.state.stages.values()
    parts = (
        _format_head(facts),
        _format_summary(build_summary(facts, seen), root),
        _format_stage_table(facts),
        *(_format_loop(facts, one) for one in list_loop_progress(facts.state)),
        *_format_method(facts),
        iter(["## Attempts"]),
        *(_format_attempts(facts, stage) for stage in stages),
        _format_amendments(facts.amendments),
        _format_sessions(facts.sessions),
        _format_source(facts, seen),
    )
    return ("\n\n".join("\n".join(part) for part in parts) + "\n").encode()


def _format_head(facts: WorkflowFacts) -> Iterator[str]:
    state = facts.state
    yield f"# {_escape_line(state.id)}: report"
    yield ""
    yield f"**Objective.** {_escape_line(state.purpose or 'not said')}"
    for name, path in (("Design", state.experiment_design), ("Plan", state.workflow_plan)):
        if path:
            yield f"**{name}.** {_escape_line(path)}"
    ends = [stage.completed_at for stage in state.stages.values() if stage.completed_at]
    end = max(ends, default=None)
    yield (
        f"**Status.** {_escape_line(state.workflow_status or 'active')}, "
        f"version {state.version} of the plan; created {truncate_utc_to_seconds(state.created)}, "
        f"last stage completed {truncate_utc_to_seconds(end) or 'never'}"
        f" ({format_duration(state.created, end)})"
    )


def _format_summary(found: Summary, root: str) -> Iterator[str]:
    yield "## Summary"
    yield ""
    for answer in found.answers:
        yield f"**{_escape_line(answer)}**"
        yield ""
    for path in found.figures:
        yield _format_figure(path, root)
        yield ""
    yield f"{_escape_line(found.standing)}"
    if found.outcomes:
        yield ""
    for one in found.outcomes:
        said = f": {_escape_line(one.said)}" if one.said else ""
        yield (
            f"- **{_escape_line(one.stage.name)}** ({_escape_line(one.stage.id)}){said} "
            f"({_escape_line(one.trust)})"
        )
        others = (str(output["path"]) for output in one.outputs)
        yield from (
            f"  {_format_figure(path, root)}"
            for path in others
            if is_figure(path) and path not in found.figures
        )
    yield ""
    yield "Please check:" if found.doubts else "Nothing is stale, changed or undecided in the log."
    yield from (f"- {_escape_line(one)}" for one in found.doubts)
    yield ""
    yield "Decisions:" if found.decisions else found.undecided
    yield from (f"- {_escape_line(one)}" for one in found.decisions)


def _format_figure(path: str, root: str) -> str:
    """Return a Markdown image of an output file, with its path relative to the report."""
    return f"![{_escape_line(path)}](<{quote(f'{root}/{path}'.removeprefix('./'))}>)"


def _format_stage_table(facts: WorkflowFacts) -> Iterator[str]:
    yield "| stage | name | status | attempts | retries | duration |"
    yield "|---|---|---|---|---|---|"
    for stage in facts.state.stages.values():
        yield (
            f"| {_escape_cell(stage.id)} | {_escape_cell(stage.name)} | {stage.status.value} | "
            f"{len(stage.attempts)} | {facts.retries_of(stage.id)} | "
            f"{format_duration(stage.started_at, stage.completed_at)} |"
        )


def _format_loop(facts: WorkflowFacts, told: LoopProgress) -> Iterator[str]:
    yield f"## Loop {_escape_line(told.loop.name)}"
    yield ""
    yield f"{_escape_line(str(told))}."
    yield ""
    yield "| round | points | from | numbers |"
    yield "|---|---|---|---|"
    for row in round_rows(facts.state, told.loop.name):
        yield f"| {' | '.join(map(_escape_cell, row))} |"
    for plot in plots_of_rounds(facts.state, told.loop.name):
        drawn = mark_invisible_in_each_line("\n".join(draw_braille_plot(plot)))
        fence = _get_fence(drawn, 3)
        yield from ("", fence, drawn, fence)


def _format_method(facts: WorkflowFacts) -> Iterator[Iterator[str]]:
    found = describe_method(facts)
    yield iter(["## Method", "", found.said])
    yield from map(_format_stage_method, found.stages)
    yield from map(_format_environment, found.environments)
    if found.session:
        yield iter(["### Session", "", *_format_values(found.session)])


def _format_stage_method(one: StageMethod) -> Iterator[str]:
    after = (
        f", after {', '.join(map(_escape_line, one.stage.depends_on))}"
        if one.stage.depends_on
        else ""
    )
    yield f"### {_escape_line(one.stage.id)}: {_escape_line(one.stage.name)}"
    yield ""
    yield (f"Runs in {_escape_line(one.place)}{after}." if one.place else f"No command{after}.")
    yield ""
    yield from _format_values(one.parameters)
    if one.files:
        yield ""
        yield "| file | is | bytes | sha256 |"
        yield "|---|---|---|---|"
        yield from (
            f"| {_escape_cell(path)} | {_escape_cell(role)} | {size} | `{digest or 'unknown'}` |"
            for role, path, size, digest in one.files
        )
    yield ""
    yield from _format_values(one.ran)


def _format_environment(one: StageEnvironment) -> Iterator[str]:
    yield f"### Environment of {', '.join(map(_escape_line, one.stages))}"
    yield ""
    yield from _format_values(one.values)
    if one.names:
        names = ", ".join(map(_format_code, one.names))
        yield f"- set to values that the log does not record: {names}"
    yield f"- SHA-256 of all: `{one.sha256}`"


def _format_values(values: Named) -> Iterator[str]:
    """Yield Markdown lines for names and their complete values.

    Long values and values with several lines become code blocks.
    """
    for name, value in values:
        if len(value) <= _SHORT and "\n" not in value:
            yield f"- {_escape_line(name)}: {_format_code(value)}"
            continue
        fence = _get_fence(value, 3)
        yield f"- {_escape_line(name)}:"
        yield ""
        yield from (
            f"  {line}".rstrip()
            for line in (fence, *mark_invisible_in_each_line(value).split("\n"), fence)
        )
        yield ""


def _format_code(text: str) -> str:
    """Return text as inline Markdown code on one line. The text may contain backticks."""
    shown, ticks = collapse_whitespace(text), _get_fence(text, 1)
    space = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{space}{shown}{space}{ticks}" if shown else "(empty)"


def _get_fence(text: str, least: int) -> str:
    return "`" * max(least, *(len(run) + 1 for run in re.findall("`+", text)), 0)


def _format_attempts(facts: WorkflowFacts, stage: Stage) -> Iterator[str]:
    result = facts.result(stage)
    yield f"### {_escape_line(stage.id)}: {_escape_line(stage.name)}"
    yield ""
    if stage.success_criteria:
        yield f"- Criteria: {_escape_line(stage.success_criteria)}"
    yield from _format_completion(result)
    for attempt in stage.attempts:
        jobs = f", jobs {', '.join(map(_escape_line, attempt.job_ids))}" if attempt.job_ids else ""
        purpose = ", diagnostic" if attempt.diagnostic else ""
        others = convert_values_to_text(result.differing(stage, attempt))
        given = "".join(
            f", with {_escape_line(name)} = {_format_code(value)}" for name, value in others
        )
        yield (
            f"- {attempt.id}: {attempt.outcome or 'under way'}, {attempt.mode}{purpose}, started "
            f"{truncate_utc_to_seconds(attempt.started_at)} "
            f"({format_duration(attempt.started_at, attempt.ended_at)}){jobs}{given}"
        )
        if attempt.requested:
            used = describe_used_resources(attempt.resources) or "unknown"
            requested = _escape_line(describe_requested_resources(attempt.requested))
            yield f"  - requested {requested}; used {used}"
        if waits := describe_waiting_reason(attempt):
            yield f"  - does not continue: {_escape_line(waits)}"
    for moment, kind, text in result.troubles:
        yield f"- {truncate_utc_to_seconds(moment)} {kind}: {_escape_line(text)}"


def _format_completion(result: StageResult) -> Iterator[str]:
    found = result.completed
    if not found:
        return
    said = found.get("evidence") or found.get("detail") or "no statement about the criteria"
    judge = found.get("judged_by")
    yield f"- Result: {_escape_line(said)}" + (
        f" (judged by {_escape_line(judge)})" if judge else ""
    )
    checks = found.get("checks")
    if checks:
        yield f"- Checks passed: {', '.join(_escape_line(check['name']) for check in checks)}"


def _format_amendments(found: Sequence[AmendmentRecord]) -> Iterator[str]:
    yield "## Amendments"
    yield ""
    if not found:
        yield "None."
    for one in found:
        by = _escape_line(f"Proposed by {one.proposed_by}" if one.proposed_by else "Imported")
        yield (
            f"- {one.id} {one.type} of {one.stage or 'the workflow'}: "
            f"{_escape_line(one.change)}. {by}"
            + (f": {_escape_line(one.reason)}" if one.reason else "")
            + f". {_format_consent(one)}"
        )


def _format_consent(one: AmendmentRecord) -> str:
    if one.decided_by is None:
        return f"{one.state.capitalize()}."
    policy = f", consent by {one.policy}" if one.policy else ""
    affected = f"; affected: {', '.join(one.affected)}" if one.affected else ""
    who = name_approver(one.signer or one.decided_by, one.database_user)
    by = f"{_escape_line(str(who))} at {truncate_utc_to_seconds(one.decided_at)}"
    return f"{one.state.capitalize()} by {by}{policy}{affected}."


def _format_sessions(found: Sequence[SessionRecord]) -> Iterator[str]:
    yield "## Sessions"
    yield ""
    if not found:
        yield "None."
        return
    yield "| session | started | duration | by | end | cost | stages completed |"
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        yield (
            f"| {one.number} | {truncate_utc_to_seconds(one.started_at)} | "
            f"{format_duration(one.started_at, one.ended_at)} | "
            f"{_escape_cell(one.started_by)} | {one.end} | "
            f"{one.cost:g}/{one.budget:g} | {', '.join(one.completed) or '-'} |"
        )
    yield ""
    yield f"Cost of all sessions: {sum(one.cost for one in found):g}."


def _format_source(facts: WorkflowFacts, seen: FileCheckResult | None) -> Iterator[str]:
    yield "## Source"
    yield ""
    found = seen is not None and (seen.deviations or seen.edited)
    others = "a check of the files" if found else "nothing else"
    yield f"Made from version {facts.version} of the log, hash `{facts.head}`, and {others}."
    yield "`wfctl fsck` checks the log, `wfctl report` makes this report again."


def _escape_line(text: str) -> str:
    """Return text from another source on one line, with Markdown and HTML escaped."""
    return collapse_whitespace(text).translate(_ESCAPES)


def _escape_cell(text: str) -> str:
    return _escape_line(text).replace("|", "\\|")
