"""``wfctl hook``: print the state of the workflow at an event of an agent's session."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.context import Context
from cli.frame.options import argument
from cli.frame.workspace import OpenedWorkflow, open_for_reading
from service.errors import NoRoot
from service.reading.machine_streams import list_machines

if TYPE_CHECKING:
    from extensions.machines.rules.machine import Machine
    from lifecycle.state.workflow import Workflow
    from projections.screens.unfinished import Unfinished
from extensions.agents.plugin_command import _BYTES, _TOKENS

#: Maximum number of machines that a briefing describes in full. Each other machine gets one line.
_FULL = 2
#: Number of recent events in which to search for a note.
_EVENTS = 200
#: Maximum number of characters of the summary of the work in progress.
_LETTERS = 600


class HookTurn(StrEnum):
    """The moment in an agent's session at which the client calls the hook."""

    SESSION_START = "session-start"
    BEFORE_COMPACT = "before-compact"
    BEFORE_STOP = "before-stop"


def hook(
    context: Context,
    turn: Annotated[
        HookTurn, argument("TURN", f"The moment in the session: {', '.join(HookTurn)}.")
    ],
) -> None:
    """Answer a call from the wfctl plugin of a coding agent.

    session-start prints a briefing. before-compact records a summary of the current work.
    before-stop asks the agent once for a summary.
    """
    from extensions.machines.views.unfinished import list_unfinished_work
    from projections.screens.unfinished import find_stages_without_note

    given = _read_hook_input()
    try:
        with open_for_reading(context) as here:
            root = str(here.root.path)
            state = here.log.state() if here.config.workflow is not None else None
            live = _list_live_machines(here)
            unfinished = list(chain.from_iterable(map(list_unfinished_work, live)))
            if state is not None:
                events = here.store.read(here.log.stream, after=max(state.head - _EVENTS, 0))
                unfinished = [*find_stages_without_note(state, events), *unfinished]
    except NoRoot:
        return
    if turn is HookTurn.SESSION_START:
        _print_brief(root, state, live)
    elif turn is HookTurn.BEFORE_COMPACT:
        _record_work_summary(root, unfinished, live, str(given.get("trigger") or "auto"))
    else:
        _request_summary_once(unfinished, given, root)


def _read_hook_input() -> dict[str, Any]:
    """Return the JSON object on stdin, or an empty object if the client sends none."""
    with suppress(ValueError):
        found = json.loads("" if sys.stdin.isatty() else sys.stdin.read())
        return found if isinstance(found, dict) else {}
    return {}


def _list_live_machines(here: OpenedWorkflow) -> list[Machine]:

    found = [here.machine(id_).current() for id_ in list_machines(here.root, here.store)]
    live = [one for one in found if not one.is_final]
    return sorted(live, key=lambda one: one.updated, reverse=True)


def _print_brief(root: str, state: Workflow | None, live: list[Machine]) -> None:
    parts = ["From wfctl, which keeps the state of the work in this folder:"]
    if state is not None:
        parts.append(_run_command(root, "rehydrate", "--dry-run", f"--brief={_TOKENS}"))
    brief = f"--bytes={_BYTES // min(max(len(live), 1), _FULL)}"
    parts += [
        _run_command(root, "machine", "rehydrate", "--dry-run", brief, m.id) for m in live[:_FULL]
    ]
    parts += [f"machine {machine.id}: in {machine.phase}" for machine in live[_FULL:10]]
    policies = {state.consent} if state is not None else {machine.consent for machine in live}
    if "terminal" in policies:
        parts.append(
            "Consent is by terminal here, so an agent with a shell could approve in a person's "
            "name. Tell the person once that `wfctl consent setup` sets up a signature."
        )
    text = "\n".join(part.strip() for part in parts if part.strip())
    answer = {"hookEventName": "SessionStart", "additionalContext": text}
    print(json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False))


def _record_work_summary(
    root: str, unfinished: list[Unfinished], live: list[Machine], trigger: str
) -> None:
    """Record a summary of the work in progress before the agent's context is compacted."""
    by_id = {machine.id: machine for machine in live}
    stages = [one for one in unfinished if one.subject not in by_id]
    if stages:
        text = "; ".join(f"{one.subject} {one.text}" for one in stages)[:_LETTERS]
        _run_command(
            root, "note", f"an agent's context is compacted ({trigger}); current work: {text}"
        )
    for one in unfinished:
        machine = by_id.get(one.subject)
        if machine is None:
            continue
        before = machine.handoff
        summary = (
            f"An agent's context was compacted ({trigger}); current work: {one.text[:_LETTERS]}."
        )
        summary += f" Before that: {before.summary}"[:_LETTERS] if before is not None else ""
        steps = [f"--next={step}" for step in before.next] if before is not None else []
        _run_command(root, "machine", "checkpoint", f"--summary={summary}", *steps, machine.id)


def _request_summary_once(unfinished: list[Unfinished], given: dict[str, Any], root: str) -> None:
    """Ask the agent not to stop yet if work in progress has no summary.

    The question is asked once for each session and state of the work.
    """
    from service.root.trust import was_asked_before

    if not unfinished or given.get("stop_hook_active"):
        return
    what = "; ".join(f"{one.subject} {one.text}" for one in unfinished)
    if was_asked_before(root, f"{given.get('session_id')} {what}"):
        return
    commands = ", ".join(dict.fromkeys(f"`{one.command}`" for one in unfinished))
    reason = (
        f"Work is in progress, and the next agent would not know its state: {what[:_LETTERS]}. "
        f"Record a summary first: {commands}. If you already did, or if nothing needs to be "
        "recorded, stop."
    )
    print(json.dumps({"decision": "block", "reason": reason}, ensure_ascii=False))


def _run_command(root: str, *line: str) -> str:
    from cli.main import run

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        run([f"--root={root}", "--log-level=error", *line])
    return out.getvalue()
