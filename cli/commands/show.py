"""``wfctl show``: one stage as a page for people, or with all its fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from cli.frame.options import At, KnownAt, Stage
from cli.frame.workspace import reading
from cli.terminal.output import Output, compact
from lifecycle.errors import NeedsConsent
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Workflow
from lifecycle.state.workflow import Stage as StageState
from projections.words.times import age, utc_seconds

#: Attempts that a page tells of, and characters of a value on it.
_NEWEST, _WIDE = 3, 200


def show(context: typer.Context, stage: Stage, at: At = None, known_at: KnownAt = None) -> None:
    """One stage: what it is, where it stands, and its attempts."""
    with reading(context) as workflow:
        state = workflow.state(at, known_at)
        found = state.stage(stage)
        otherwise = _otherwise(workflow.root.path, state, found)
        shown = {**asdict(found), "last_error": found.error}
        data = {"purpose": state.purpose, **shown, **otherwise}
        output = workflow.output
        output.result(data, lambda: "\n".join(_page(output, state, found, otherwise)), state=state)


def _otherwise(root: Path, state: Workflow, stage: StageState) -> dict[str, dict[str, list[str]]]:
    """Return in what the attempt that counts was not launched as defined, by its id."""
    attempt = stage.source
    if attempt is None or not attempt.taken_over:
        return {}
    from reconciler.errors import ReconcilerError  # only of what somebody else launched
    from reconciler.files.described import launched_otherwise

    try:
        fields = launched_otherwise(root, state, stage, attempt)
    except (NeedsConsent, ReconcilerError, OSError) as error:
        fields = [str(error)]
    return {"launched_otherwise": {attempt.id: fields}} if fields else {}


def _page(
    output: Output, state: Workflow, stage: StageState, otherwise: dict[str, dict[str, list[str]]]
) -> Iterator[str]:
    yield output.style(f"{stage.id}: {_clip(stage.name)}", "1") + f"  {stage.status.value}"
    yield f"of {state.id}" + (f": {_clip(state.purpose)}" if state.purpose else "")
    yield from _field("needs", [f"{i} ({state.stages[i].status.value})" for i in stage.depends_on])
    yield from _field("inputs", stage.inputs)
    yield from _field("outputs", stage.outputs)
    yield from _field("runs on", [stage.backend or state.default_backend])
    yield from _field("criteria", [stage.success_criteria])
    yield from _field("with", [f"{k} = {_value(v)}" for k, v in stage.parameters.items()])
    yield from _field("began", [utc_seconds(stage.started_at)])
    yield from _field("done", [utc_seconds(stage.completed_at)])
    yield from _field("results", [_result(one) for one in stage.results])
    yield from _field("reused", [f"the outputs of {stage.reused}" if stage.reused else ""])
    if stage.status is Status.FAILED:
        yield from _field("failed", [stage.error, _cause(stage)])
    yield from _field("retries", [f"{stage.retry_count}: {stage.fix or ''}".rstrip(": ")]
                      if stage.retry_count else [])  # fmt: skip
    yield from _field("left", stage.left_in_place)
    yield from _attempts(output, stage)
    for id_, fields in otherwise.get("launched_otherwise", {}).items():
        yield f"  {id_} was not launched as defined: something else in {', '.join(fields)}"
    from projections.screens.next_actions import leading_on

    yield from (f"next: {one}" for one in leading_on(state, stage.id, output.around(state)))


def _field(name: str, values: list[Any]) -> Iterator[str]:
    """Yield a line for each value, the first with the field's name; nothing where there is none."""
    for value in [_clip(str(value)) for value in values if value]:
        yield f"  {name:<9} {value}"
        name = ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def _result(one: dict[str, Any]) -> str:
    size = f", {one['size']} bytes" if one.get("size") is not None else ""
    return f"{one['path']}{size}, SHA-256 {str(one.get('sha256'))[:12]}"


def _cause(stage: StageState) -> str:
    because = f" ({stage.because})" if stage.because else ""
    return f"category: {stage.category}{because}" if stage.category else ""


def _attempts(output: Output, stage: StageState) -> Iterator[str]:
    if not stage.attempts:
        return
    yield output.style("attempts:", "1")
    older = len(stage.attempts) - _NEWEST
    if older > 0:
        yield f"  {older} before these"
    for place in range(max(older, 0), len(stage.attempts)):
        yield from _attempt(stage.attempts[place])
        yield from _environment(*stage.attempts[max(place - 1, 0) : place + 1])


def _attempt(attempt: Attempt) -> Iterator[str]:
    ended = f", ended {utc_seconds(attempt.ended_at)}{_took(attempt)}" if attempt.ended_at else ""
    yield f"  {attempt.id}  {attempt.outcome or 'under way'}"
    yield f"    began {utc_seconds(attempt.started_at)} ({attempt.mode}){ended}"
    if attempt.job_ids:
        folder = attempt.submission.rpartition("/")[0]
        yield f"    jobs {', '.join(attempt.job_ids)}; files in {folder}"
    if attempt.verdict:
        yield f"    {attempt.verdict}: {_clip(attempt.reason or '')}"


def _environment(before: Attempt, now: Attempt | None = None) -> Iterator[str]:
    if now is not None and now.environment != before.environment:
        from projections.words.environments import changes  # only where there is one

        for change in changes(now.environment, before.environment, before.id):
            yield f"    environment: {_clip(change)}"


def _took(attempt: Attempt) -> str:
    """Return how long it was from start to end; nothing for times that are none."""
    try:
        return f", {age(attempt.started_at, str(attempt.ended_at))} s"
    except ValueError:
        return ""
