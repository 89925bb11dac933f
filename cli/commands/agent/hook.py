"""``wfctl agent hook``: what an agent's client is told at the turns of its session.

It answers as Claude Code, Codex and Gemini understand it. All of it is made of other commands.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any

import typer

from cli.frame.options import argument
from cli.frame.workspace import Reading, reading
from lifecycle.machines.machine import Machine
from lifecycle.state.workflow import Workflow
from projections.screens.unfinished import Unfinished, of_machine, of_workflow
from service.errors import NoRoot
from service.machines import log

#: Tokens of the workflow's brief, and bytes of the briefs of all machines.
_TOKENS, _BYTES = 1200, 2400
#: Machines that are told in full; of the others the list has a line each.
_FULL = 2
#: Events, the newest, in which a word is looked for.
_EVENTS = 200
#: Letters of the text that says what is in hand.
_LETTERS = 600


class HookTurn(StrEnum):
    """When the client asks."""

    SESSION_START = "session-start"
    BEFORE_COMPACT = "before-compact"
    BEFORE_STOP = "before-stop"


def hook(
    context: typer.Context, turn: Annotated[HookTurn, argument("TURN", ", ".join(HookTurn))]
) -> None:
    """Answer a client's hook, whose JSON comes on stdin; the plugin calls it.

    session-start prints the brief; before-compact records a hand-off of what is in hand;
    before-stop asks once for a word of it.
    """
    given = _given()
    try:
        with reading(context) as here:
            root = str(here.root.path)
            state = here.log.state() if here.config.workflow is not None else None
            live = _live(here)
            unfinished = list(chain.from_iterable(map(of_machine, live)))
            if state is not None:
                events = here.store.read(here.log.stream, after=max(state.head - _EVENTS, 0))
                unfinished = [*of_workflow(state, events), *unfinished]
    except NoRoot:
        return
    if turn is HookTurn.SESSION_START:
        _print_brief(root, state, live)
    elif turn is HookTurn.BEFORE_COMPACT:
        _record(root, unfinished, live, str(given.get("trigger") or "auto"))
    else:
        _ask_once(unfinished, given, root)


def _given() -> dict[str, Any]:
    """Return what the client says; a client that says nothing is answered all the same."""
    if sys.stdin.isatty():
        return {}
    with suppress(ValueError):
        found = json.loads(sys.stdin.read() or "{}")
        return found if isinstance(found, dict) else {}
    return {}


def _live(here: Reading) -> list[Machine]:
    found = [here.machine(id_).current() for id_ in log.ids(here.root, here.store)]
    live = [one for one in found if not one.is_final]
    return sorted(live, key=lambda one: one.updated, reverse=True)


def _print_brief(root: str, state: Workflow | None, live: list[Machine]) -> None:
    parts = ["From wfctl, which keeps the state of the work in this folder:"]
    if state is not None:
        parts.append(_said(root, "rehydrate", "--dry-run", f"--brief={_TOKENS}"))
    each = _BYTES // min(max(len(live), 1), _FULL)
    parts += [
        _said(root, "machine", "rehydrate", "--dry-run", f"--bytes={each}", m.id) for m in live[:2]
    ]
    parts += [f"machine {machine.id}: in {machine.phase}" for machine in live[_FULL:10]]
    policies = {state.consent} if state is not None else {machine.consent for machine in live}
    if "terminal" in policies:
        parts.append(_ADVICE)
    text = "\n".join(part.strip() for part in parts if part.strip())
    answer = {"hookEventName": "SessionStart", "additionalContext": text}
    print(json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False))


_ADVICE = (
    "Consent is by terminal here, so an agent with a shell could agree in a person's name. Tell "
    "the person once, if you have not: `wfctl consent setup` sets up their signature."
)


def _record(root: str, unfinished: list[Unfinished], live: list[Machine], trigger: str) -> None:
    """Leave a word of what is in hand, in the name of the agent whose context is compacted."""
    by_id = {machine.id: machine for machine in live}
    stages = [one for one in unfinished if one.subject not in by_id]
    if stages:
        text = "; ".join(f"{one.subject} {one.text}" for one in stages)[:_LETTERS]
        _said(root, "note", f"an agent's context is compacted ({trigger}); in hand: {text}")
    for one in unfinished:
        machine = by_id.get(one.subject)
        if machine is None:
            continue
        before = machine.handoff
        summary = f"An agent's context was compacted ({trigger}); in hand: {one.text[:_LETTERS]}."
        kept = f" Before that: {before.summary}"[:_LETTERS] if before is not None else ""
        steps = before.next if before is not None else []
        _said(
            root,
            "machine",
            "checkpoint",
            f"--summary={summary}{kept}",
            *(f"--next={step}" for step in steps),
            machine.id,
        )


def _ask_once(unfinished: list[Unfinished], given: dict[str, Any], root: str) -> None:
    """Ask the client to go on where something is in hand without a word; never twice for it."""
    from service.root.known_logs import asked_before

    if not unfinished or given.get("stop_hook_active"):
        return
    what = "; ".join(f"{one.subject} {one.text}" for one in unfinished)
    if asked_before(root, f"{given.get('session_id')} {what}"):
        return
    commands = ", ".join(dict.fromkeys(f"`{one.command}`" for one in unfinished))
    reason = (
        f"In hand, and nobody who comes next would know how far it is: {what[:_LETTERS]}. Leave a "
        f"word first: {commands}. If you did, or if there is nothing to say, just stop."
    )
    print(json.dumps({"decision": "block", "reason": reason}, ensure_ascii=False))


def _said(root: str, *line: str) -> str:
    """Return what a command prints; what goes wrong in it is not the client's affair."""
    from cli.main import run

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        run([f"--root={root}", "--log-level=error", *line])
    return out.getvalue()
