"""What an agent is told: the stage, what is given, what it may and may not do, how to report.

Everything comes from the log; nothing of a backend's credentials is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lifecycle.retry import retry_limit
from lifecycle.workflow import Stage, Workflow

COMPUTE, REPAIR, JUDGE = "compute", "repair", "judge"


def render(kind: str, state: Workflow, stage: Stage, root: Path) -> str:
    """Return the prompt for a task of one kind, as Markdown."""
    parts = (_task(kind, state, stage, root), _given(state, stage), _trouble(kind, stage))
    rules = (_may(stage), _report(kind, state, stage))
    return "\n\n".join("\n".join(part) for part in (*parts, *rules) if part) + "\n"


def _task(kind: str, state: Workflow, stage: Stage, root: Path) -> list[str]:
    tasks = {
        COMPUTE: "Get this stage computed: prepare its inputs and its submission, and dispatch it.",
        REPAIR: "This stage failed. Find out why, put it right, and say what you did.",
        JUDGE: "This stage was computed. Judge whether its success criteria are met.",
    }
    return [
        f"# {stage.id} ({stage.name}) of {state.id}",
        "",
        tasks[kind],
        "",
        f"- Workflow root, and your working directory: {root}",
        f"- Experiment design: {state.experiment_design or 'none'}",
        f"- Workflow plan: {state.workflow_plan or 'none'}",
        f"- Purpose: {state.purpose or 'not said'}",
    ]


def _given(state: Workflow, stage: Stage) -> list[str]:
    backend = stage.backend or state.default_backend
    return [
        "## The stage",
        f"- Parameters: {json.dumps(stage.parameters, ensure_ascii=False)}",
        f"- Inputs: {', '.join(stage.inputs) or 'none'}",
        f"- Outputs it must write: {', '.join(stage.outputs) or 'none'}",
        f"- Success criteria: {stage.success_criteria or 'none'}",
        f"- Backend: {backend} ({state.backend_type(stage)})",
        *_dependencies(state, stage),
    ]


def _dependencies(state: Workflow, stage: Stage) -> Iterator[str]:
    for id_ in stage.depends_on:
        outputs = ", ".join(state.stages[id_].outputs) or "no outputs"
        yield f"- Depends on {id_} ({state.stages[id_].status.value}): {outputs}"


def _trouble(kind: str, stage: Stage) -> list[str]:
    if kind == REPAIR:
        return [
            "## What went wrong",
            stage.last_error or "no reason is known",
            f"`wfctl show {stage.id}` has the evidence, {stage.id}/log and err what the job wrote.",
        ]
    if kind == COMPUTE and stage.retry_count:
        return [
            f"## This is retry {stage.retry_count}",
            f"- The error was: {stage.last_error}",
            f"- The fix was: {stage.fix}",
            "- The inputs are already corrected: use them as they are, do not make them anew.",
        ]
    return []


def _may(stage: Stage) -> list[str]:
    return [
        "## You may",
        f"- read everything, and write below {stage.id}/;",
        f"- run any `wfctl` command that reads, and `wfctl note --stage {stage.id} TEXT`;",
        '- propose a definitional change: `wfctl amend propose … --reason "…"`. It needs a person.',
        "",
        "## You may not",
        "- compute in any way but by `wfctl dispatch`;",
        "- edit workflow-state.json or progress.log: they are written from the log;",
        "- change parameters, criteria, inputs or dependencies without an approved amendment;",
        "- approve an amendment;",
        f"- touch another stage than {stage.id}, or start a session or a loop.",
    ]


def _report(kind: str, state: Workflow, stage: Stage) -> list[str]:
    ways = {
        COMPUTE: [
            f"1. Write {stage.id}/submission.json for DPDispatcher, and what the job needs.",
            f"2. `wfctl dispatch {stage.id}`, and end: the loop waits for the job and verifies.",
            f"If it cannot be done: `wfctl stage prepare {stage.id}`, then the next line.",
            f'`wfctl stage fail {stage.id} --error "why"`',
        ],
        REPAIR: [
            f'- Put right: `wfctl stage retry {stage.id} --fix "what you did"`, and end.',
            f"  {_retries(state, stage)}; --regenerate builds the submission anew.",
            "- It takes another definition: `wfctl amend propose …`, and end.",
            "- You do not know: end. A person is asked.",
        ],
        JUDGE: [
            f'- They are met: `wfctl stage complete {stage.id} --evidence "what shows it"`.',
            f'- They are not: `wfctl stage fail {stage.id} --error "why"`.',
        ],
    }
    return [
        "## How to report",
        *ways[kind],
        "",
        "The log is believed, not your words: if the stage has not moved when you end, you failed.",
    ]


def _retries(state: Workflow, stage: Stage) -> str:
    return f"{stage.retry_count} of {retry_limit(state.backend_type(stage))} retries are used"
