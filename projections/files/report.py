"""The report of a workflow: what was found, from what, and how it came about. Markdown.

Made from the log, so that the same log gives the same bytes; and from what a look at the files
found, which nothing of it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import dirname, relpath
from typing import Any
from urllib.parse import quote

from lifecycle.state.workflow import Attempt, Stage, Workflow
from projections.files.summary import (
    SessionRecord,
    StageResult,
    Summary,
    environment_of,
    is_figure,
    method_of,
    summarised,
)
from projections.words.account import Seen
from projections.words.text import marked, seconds, utc_seconds

#: What begins a tag, an entity, a link, an image or code.
_ESCAPES = {ord("<"): "&lt;", ord("&"): "&amp;", **{ord(c): f"\\{c}" for c in "\\`[]"}}


@dataclass(frozen=True, slots=True)
class Told:
    """What a report tells of: ``amendments`` hold the fields of an audit's record each."""

    state: Workflow
    results: Mapping[str, StageResult]
    sessions: Sequence[SessionRecord]
    amendments: Sequence[Mapping[str, Any]]
    head: str
    #: Where the report lies, relative to the root: figures are linked from there.
    place: str = ""
    #: What a look at the files found; None if nobody looked.
    seen: Seen | None = None


def render(told: Told) -> bytes:
    """Return the report as UTF-8 Markdown."""
    parts = (
        _head(told),
        _summary(summarised(told.state, told.results, told.seen), told.place),
        _overview(told.state),
        _method(told),
        *(_stage(told, stage) for stage in told.state.stages.values()),
        _amendments(told.amendments),
        _sessions(told.sessions),
        _source(told),
    )
    return ("\n\n".join("\n".join(part) for part in parts) + "\n").encode()


def _head(told: Told) -> Iterator[str]:
    state = told.state
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
        f" ({_duration(state.created, end)})"
    )


def _summary(found: Summary, place: str) -> Iterator[str]:
    yield "## Summary"
    yield ""
    for answer in found.answers:
        yield f"**{_line(answer)}**"
        yield ""
    for path in found.figures:
        yield _figure(path, place)
        yield ""
    yield f"{_line(found.standing)}"
    if found.outcomes:
        yield ""
    for one in found.outcomes:
        said = f": {_line(one.said)}" if one.said else ""
        yield f"- **{_line(one.stage.name)}** ({_line(one.stage.id)}){said} ({_line(one.trust)})"
        others = (str(output["path"]) for output in one.outputs)
        yield from (
            f"  {_figure(path, place)}"
            for path in others
            if is_figure(path) and path not in found.figures
        )
    yield ""
    yield "Look twice:" if found.doubts else "Nothing is stale, changed or undecided in the log."
    yield from (f"- {_line(one)}" for one in found.doubts)
    yield ""
    yield "Decisions:" if found.decisions else found.undecided
    yield from (f"- {_line(one)}" for one in found.decisions)


def _figure(path: str, place: str) -> str:
    """Return a figure among the outputs, by the way that leads there from the report."""
    way = relpath(path, dirname(place) or ".")
    return f"![{_line(path)}](<{quote(way)}>)"


def _method(told: Told) -> Iterator[str]:
    """Yield how each stage is computed, uncut: a reader can do it again."""
    yield "## Method"
    for step in method_of(told.state, told.results):
        yield ""
        yield f"### {_line(step.stage.id)}: {_line(step.stage.name)}"
        yield from _block("sh", step.command) if step.command else ("", "Done by somebody.")
        if step.parameters:
            yield from _block("json", step.parameters_as_json)
        yield ""
        for path, digest in step.files.items():
            yield f"- {_line(path)}" + (f" `{digest}`" if digest else "")
        yield f"- ran on: {_line(step.ran_on)}"
        for name, value in {**step.versions, **step.variables}.items():
            yield f"- {_line(name)}: {_line(value if isinstance(value, str) else str(value))}"
    for name, value in environment_of(told.sessions):
        yield ""
        yield f"{_line(name)}: {_line(value)}"


def _block(kind: str, text: str) -> Iterator[str]:
    """Yield a text as it is, in a fence that is longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    yield ""
    yield f"{fence}{kind}"
    yield from map(marked, text.splitlines())
    yield fence


def _overview(state: Workflow) -> Iterator[str]:
    yield "| stage | name | status | attempts | retries | duration |"
    yield "|---|---|---|---|---|---|"
    for stage in state.stages.values():
        yield (
            f"| {_cell(stage.id)} | {_cell(stage.name)} | {stage.status.value} | "
            f"{len(stage.attempts)} | {stage.retry_count} | "
            f"{_duration(stage.started_at, stage.completed_at)} |"
        )


def _stage(told: Told, stage: Stage) -> Iterator[str]:
    result = told.results.get(stage.id, StageResult())
    yield f"## {_line(stage.id)}: {_line(stage.name)}"
    yield ""
    if stage.success_criteria:
        yield f"- Criteria: {_line(stage.success_criteria)}"
    yield from _completion(result)
    backend = stage.backend or told.state.default_backend
    yield f"- Backend: {_line(backend)} ({told.state.backend_type(stage)})"
    for attempt in stage.attempts:
        yield f"- {_attempt(attempt)}"
    for moment, kind, text in result.troubles:
        yield f"- {utc_seconds(moment)} {kind}: {_line(text)}"


def _completion(result: StageResult) -> Iterator[str]:
    found = result.completed
    if found is None:
        return
    said = found.get("evidence") or found.get("detail") or "no word of it"
    judge = found.get("judged_by")
    yield f"- Result: {_line(said)}" + (f" (judged by {_line(judge)})" if judge else "")
    checks = found.get("checks", [])
    if checks:
        yield f"- Checks passed: {', '.join(_line(check['name']) for check in checks)}"
    outputs = found.get("outputs", [])
    if outputs:
        yield ""
        yield "| output | bytes | sha256 |"
        yield "|---|---|---|"
        for output in outputs:
            yield f"| {_cell(output['path'])} | {output['size']} | `{output['sha256']}` |"
        yield ""


def _attempt(attempt: Attempt) -> str:
    jobs = f", jobs {', '.join(map(_line, attempt.job_ids))}" if attempt.job_ids else ""
    purpose = ", diagnostic" if attempt.diagnostic else ""
    return (
        f"{attempt.id}: {attempt.outcome or 'under way'}, {attempt.mode}{purpose}, started "
        f"{utc_seconds(attempt.started_at)} ({_duration(attempt.started_at, attempt.ended_at)})"
        f"{jobs}"
    )


def _amendments(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Amendments"
    yield ""
    if not found:
        yield "None."
    for one in found:
        yield (
            f"- {one['id']} {one['type']} of {one['stage'] or 'the workflow'}: "
            f"{_line(one['change'])}. Proposed by {_line(one['proposed_by'])}"
            + (f": {_line(one['reason'])}" if one["reason"] else "")
            + f". {_consent(one)}"
        )


def _consent(one: Mapping[str, Any]) -> str:
    if one["decided_by"] is None:
        return f"{str(one['state']).capitalize()}."
    who = _line(one["signer"] or one["decided_by"])
    policy = f", consent by {one['policy']}" if one["policy"] else ""
    affected = f"; affected: {', '.join(one['affected'])}" if one["affected"] else ""
    when = utc_seconds(one["decided_at"])
    return f"{str(one['state']).capitalize()} by {who} at {when}{policy}{affected}."


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
            f"{_duration(one.started_at, one.ended_at)} | {_cell(one.started_by)} | {one.end} | "
            f"{one.cost:g}/{one.budget:g} | {', '.join(one.completed) or '-'} |"
        )
    yield ""
    yield f"Cost of all sessions: {sum(one.cost for one in found):g}."


def _source(told: Told) -> Iterator[str]:
    yield "## Source"
    yield ""
    found = told.seen is not None and (told.seen.deviations or told.seen.edited)
    others = "what a look at the files found" if found else "nothing else"
    yield f"Made from version {told.state.head} of the log, hash `{told.head}`, and {others}."
    yield "`wfctl fsck` checks the log, `wfctl report` makes this report again."


def _duration(start: str | None, end: str | None) -> str:
    """Return the time between two moments as ``1 h 02 min 03 s``, a dash where one is unknown."""
    passed = seconds(start, end)
    if passed is None:
        return "-"
    minutes, rest = divmod(passed, 60)
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours} h {minutes:02} min {int(rest):02} s"
    return f"{minutes} min {int(rest):02} s" if minutes else f"{rest:.1f} s"


def _line(text: str) -> str:
    """Return words of others on one line, in which nothing is taken for Markdown or for HTML."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(shown.split()).translate(_ESCAPES)


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
