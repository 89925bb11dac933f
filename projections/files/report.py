"""The report of a workflow: what was found, from what, and how it came about. Markdown.

Made from the log, so that the same log gives the same bytes; and from what a look at the files
found, which nothing of it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from lifecycle.state.workflow import Stage
from projections.drawing.plots import in_braille, plots_of_rounds
from projections.files.facts import StageResult, WorkflowFacts
from projections.files.method import Named, StageEnvironment, StageMethod, as_typed, method
from projections.files.sessions import SessionRecord
from projections.files.summary import Summary, is_figure, summarised
from projections.words.account import Seen
from projections.words.decisions import AmendmentRecord
from projections.words.rounds import LoopTold, loops_told, round_rows
from projections.words.text import duration, in_lines, on_one_line, utc_seconds

#: What begins a tag, an entity, a link, an image or code.
_ESCAPES = {ord("<"): "&lt;", ord("&"): "&amp;", **{ord(c): f"\\{c}" for c in "\\`[]"}}


#: Letters of a value that stands on a line of its own name; a longer one is a block.
_SHORT = 80


def render(facts: WorkflowFacts, seen: Seen | None = None, root: str = ".") -> bytes:
    """Return the report as UTF-8 Markdown.

    ``seen`` is what a look at the files found, None if nobody looked; ``root`` the way from the
    folder of the report to the root of the workflow, for its links.
    """
    stages = facts.state.stages.values()
    parts = (
        _head(facts),
        _summary(summarised(facts, seen), root),
        _overview(facts),
        *(_loop(facts, one) for one in loops_told(facts.state)),
        *_method(facts),
        iter(["## Attempts"]),
        *(_attempts(facts, stage) for stage in stages),
        _amendments(facts.amendments),
        _sessions(facts.sessions),
        _source(facts, seen),
    )
    return ("\n\n".join("\n".join(part) for part in parts) + "\n").encode()


def _head(facts: WorkflowFacts) -> Iterator[str]:
    state = facts.state
    yield f"# {_line(state.id)}: report"
    yield ""
    yield f"**Objective.** {_line(state.purpose or 'not said')}"
    for name, path in (("Design", state.experiment_design), ("Plan", state.workflow_plan)):
        if path:
            yield f"**{name}.** {_line(path)}"
    ends = [stage.completed_at for stage in state.stages.values() if stage.completed_at]
    end = max(ends, default=None)
    yield (
        f"**Status.** {_line(state.workflow_status or 'active')}, "
        f"version {state.version} of the plan; created {utc_seconds(state.created)}, "
        f"last stage completed {utc_seconds(end) or 'never'}"
        f" ({duration(state.created, end)})"
    )


def _summary(found: Summary, root: str) -> Iterator[str]:
    yield "## Summary"
    yield ""
    for answer in found.answers:
        yield f"**{_line(answer)}**"
        yield ""
    for path in found.figures:
        yield _figure(path, root)
        yield ""
    yield f"{_line(found.standing)}"
    if found.outcomes:
        yield ""
    for one in found.outcomes:
        said = f": {_line(one.said)}" if one.said else ""
        yield f"- **{_line(one.stage.name)}** ({_line(one.stage.id)}){said} ({_line(one.trust)})"
        others = (str(output["path"]) for output in one.outputs)
        yield from (
            f"  {_figure(path, root)}"
            for path in others
            if is_figure(path) and path not in found.figures
        )
    yield ""
    yield "Look twice:" if found.doubts else "Nothing is stale, changed or undecided in the log."
    yield from (f"- {_line(one)}" for one in found.doubts)
    yield ""
    yield "Decisions:" if found.decisions else found.undecided
    yield from (f"- {_line(one)}" for one in found.decisions)


def _figure(path: str, root: str) -> str:
    """Return a figure among the outputs, by a link that holds from where the report lies."""
    return f"![{_line(path)}](<{quote(f'{root}/{path}'.removeprefix('./'))}>)"


def _overview(facts: WorkflowFacts) -> Iterator[str]:
    yield "| stage | name | status | attempts | retries | duration |"
    yield "|---|---|---|---|---|---|"
    for stage in facts.state.stages.values():
        yield (
            f"| {_cell(stage.id)} | {_cell(stage.name)} | {stage.status.value} | "
            f"{len(stage.attempts)} | {stage.retry_count} | "
            f"{duration(stage.started_at, stage.completed_at)} |"
        )


def _loop(facts: WorkflowFacts, told: LoopTold) -> Iterator[str]:
    yield f"## Loop {_line(told.loop.name)}"
    yield ""
    yield f"{_line(str(told))}."
    yield ""
    yield "| round | points | from | numbers |"
    yield "|---|---|---|---|"
    for row in round_rows(facts.state, told.loop.name):
        yield f"| {' | '.join(map(_cell, row))} |"
    for plot in plots_of_rounds(facts.state, told.loop.name):
        drawn = in_lines("\n".join(in_braille(plot)))
        fence = _ticks(drawn, 3)
        yield from ("", fence, drawn, fence)


def _method(facts: WorkflowFacts) -> Iterator[Iterator[str]]:
    found = method(facts)
    yield iter(["## Method", "", found.said])
    yield from map(_way, found.stages)
    yield from map(_environment, found.environments)
    if found.session:
        yield iter(["### Session", "", *_values(found.session)])


def _way(one: StageMethod) -> Iterator[str]:
    after = f", after {', '.join(map(_line, one.stage.depends_on))}" if one.stage.depends_on else ""
    yield f"### {_line(one.stage.id)}: {_line(one.stage.name)}"
    yield ""
    yield (f"Runs in {_line(one.place)}{after}." if one.place else f"No command{after}.")
    yield ""
    yield from _values(one.parameters)
    if one.files:
        yield ""
        yield "| file | is | bytes | sha256 |"
        yield "|---|---|---|---|"
        yield from (
            f"| {_cell(path)} | {_cell(role)} | {size} | `{digest or 'unknown'}` |"
            for role, path, size, digest in one.files
        )
    yield ""
    yield from _values(one.ran)


def _environment(one: StageEnvironment) -> Iterator[str]:
    yield f"### Environment of {', '.join(map(_line, one.stages))}"
    yield ""
    yield from _values(one.values)
    if one.names:
        yield f"- set to values that the log does not hold: {', '.join(map(_code, one.names))}"
    yield f"- SHA-256 of all: `{one.sha256}`"


def _values(values: Named) -> Iterator[str]:
    """Yield names and values, whole: one of several lines or many letters as a block."""
    for name, value in values:
        if len(value) <= _SHORT and "\n" not in value:
            yield f"- {_line(name)}: {_code(value)}"
            continue
        fence = _ticks(value, 3)
        yield f"- {_line(name)}:"
        yield ""
        yield from (f"  {line}".rstrip() for line in (fence, *in_lines(value).split("\n"), fence))
        yield ""


def _code(text: str) -> str:
    """Return text on a line as code, which its own backticks do not end."""
    shown, ticks = on_one_line(text), _ticks(text, 1)
    space = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{space}{shown}{space}{ticks}" if shown else "(empty)"


def _ticks(text: str, least: int) -> str:
    return "`" * max(least, *(len(run) + 1 for run in re.findall("`+", text)), 0)


def _attempts(facts: WorkflowFacts, stage: Stage) -> Iterator[str]:
    result = facts.result(stage)
    yield f"### {_line(stage.id)}: {_line(stage.name)}"
    yield ""
    if stage.success_criteria:
        yield f"- Criteria: {_line(stage.success_criteria)}"
    yield from _completion(result)
    for attempt in stage.attempts:
        jobs = f", jobs {', '.join(map(_line, attempt.job_ids))}" if attempt.job_ids else ""
        purpose = ", diagnostic" if attempt.diagnostic else ""
        others = as_typed(result.differing(stage, attempt))
        given = "".join(f", with {_line(name)} = {_code(value)}" for name, value in others)
        yield (
            f"- {attempt.id}: {attempt.outcome or 'under way'}, {attempt.mode}{purpose}, started "
            f"{utc_seconds(attempt.started_at)} "
            f"({duration(attempt.started_at, attempt.ended_at)}){jobs}{given}"
        )
    for moment, kind, text in result.troubles:
        yield f"- {utc_seconds(moment)} {kind}: {_line(text)}"


def _completion(result: StageResult) -> Iterator[str]:
    found = result.completed
    if not found:
        return
    said = found.get("evidence") or found.get("detail") or "no word of it"
    judge = found.get("judged_by")
    yield f"- Result: {_line(said)}" + (f" (judged by {_line(judge)})" if judge else "")
    checks = found.get("checks")
    if checks:
        yield f"- Checks passed: {', '.join(_line(check['name']) for check in checks)}"


def _amendments(found: Sequence[AmendmentRecord]) -> Iterator[str]:
    yield "## Amendments"
    yield ""
    if not found:
        yield "None."
    for one in found:
        by = _line(f"Proposed by {one.proposed_by}" if one.proposed_by else "Imported")
        yield (
            f"- {one.id} {one.type} of {one.stage or 'the workflow'}: {_line(one.change)}. {by}"
            + (f": {_line(one.reason)}" if one.reason else "")
            + f". {_consent(one)}"
        )


def _consent(one: AmendmentRecord) -> str:
    if one.decided_by is None:
        return f"{one.state.capitalize()}."
    policy = f", consent by {one.policy}" if one.policy else ""
    affected = f"; affected: {', '.join(one.affected)}" if one.affected else ""
    by = f"{_line(one.signer or one.decided_by)} at {utc_seconds(one.decided_at)}"
    return f"{one.state.capitalize()} by {by}{policy}{affected}."


def _sessions(found: Sequence[SessionRecord]) -> Iterator[str]:
    yield "## Sessions"
    yield ""
    if not found:
        yield "None."
        return
    yield "| session | started | duration | by | end | cost | stages completed |"
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        yield (
            f"| {one.number} | {utc_seconds(one.started_at)} | "
            f"{duration(one.started_at, one.ended_at)} | {_cell(one.started_by)} | {one.end} | "
            f"{one.cost:g}/{one.budget:g} | {', '.join(one.completed) or '-'} |"
        )
    yield ""
    yield f"Cost of all sessions: {sum(one.cost for one in found):g}."


def _source(facts: WorkflowFacts, seen: Seen | None) -> Iterator[str]:
    yield "## Source"
    yield ""
    found = seen is not None and (seen.deviations or seen.edited)
    others = "what a look at the files found" if found else "nothing else"
    yield f"Made from version {facts.version} of the log, hash `{facts.head}`, and {others}."
    yield "`wfctl fsck` checks the log, `wfctl report` makes this report again."


def _line(text: str) -> str:
    """Return words of others on one line, in which nothing is taken for Markdown or for HTML."""
    return on_one_line(text).translate(_ESCAPES)


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
