"""``wfctl agent …``: the plugin of an agent's client, and what its hooks are told.

A hook is answered as Claude Code, Codex and Gemini understand it, all of it made of other commands.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import DryRun, argument, option
from cli.frame.workspace import Reading, reading, settings_of
from cli.terminal.output import Output
from service.errors import InvalidOption, NoRoot, NotFound

if TYPE_CHECKING:
    from agents.install import InstallPlan
    from lifecycle.machines.machine import Machine
    from lifecycle.state.workflow import Workflow
    from projections.screens.inbox import Unfinished

#: Tokens of the workflow's brief, and bytes of the briefs of all machines.
_TOKENS, _BYTES = 1200, 2400
#: Machines that are told in full; of the others the list has a line each.
_FULL = 2
#: Events, the newest, in which a word is looked for.
_EVENTS = 200
#: Letters of the text that says what is in hand.
_LETTERS = 600


class Client(StrEnum):
    """A client that is known; ``other`` reads AGENTS.md."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    OTHER = "other"


Which = Annotated[Client, argument("CLIENT", ", ".join(Client))]
InProject = Annotated[
    bool, option("--project", "Install for this folder only (default: for your user account).")
]


def install(
    context: typer.Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Install tools, skills, the brief and the guard for a client.

    It adds to the settings and changes nothing in them; again, it brings an older one up to date.
    """
    from agents.install import Places, carry_out, installed, kit_of, load, place_of, save

    where = _project(context, client, project)
    place = place_of(client.value, where)
    kit = kit_of(client.value, Places(Path.home(), where, os.environ))
    plan = installed(kit, load(place))
    if not dry_run:
        # Before the first write: what a kill leaves can be taken out.
        save(place, plan.record)
        carry_out(plan)
    advice = "`wfctl consent setup` makes a key for your signature, so that no agent agrees for you"
    _tell(context, plan, dry_run, f"next: {advice}")


def uninstall(
    context: typer.Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Uninstall the plugin; edited files are kept and named."""
    from agents.install import carry_out, clear_folders, load, place_of, removed

    where = _project(context, client, project)
    place = place_of(client.value, where)
    record = load(place)
    if record is None:
        place_said = f"in {where}" if where is not None else "for this login"
        raise NotFound(f"expected the plugin of {client.value} {place_said}; found none installed")
    plan = removed(record)
    if not dry_run:
        carry_out(plan)
        clear_folders(record.folders)
        place.unlink()
    _tell(context, plan, dry_run)


def _project(context: typer.Context, client: Client, project: bool) -> Path | None:
    if client is Client.OTHER and not project:
        raise InvalidOption("expected --project: the client `other` reads AGENTS.md of a project")
    return settings_of(context).start.resolve() if project else None


def _tell(context: typer.Context, plan: InstallPlan, dry_run: bool, *advice: str) -> None:
    wrote = sorted(str(path) for path, content in plan.writes.items() if content is not None)
    gone = sorted(str(path) for path, content in plan.writes.items() if content is None)
    data: dict[str, Any] = {"dry_run": dry_run, "written": wrote, "removed": gone}
    would = "would " if dry_run else ""
    lines = [f"{would}write {path}" for path in wrote]
    lines += [f"{would}remove {path}" for path in gone]
    lines += [f"left as it is: {path} ({why})" for path, why in plan.left.items()]
    text = "\n".join([*lines, *advice])
    Output(settings_of(context)).result({**data, "left": plan.left}, lambda: text)


class HookTurn(StrEnum):
    """When the client asks."""

    SESSION_START = "session-start"
    BEFORE_COMPACT = "before-compact"
    BEFORE_STOP = "before-stop"


def hook(
    context: typer.Context, turn: Annotated[HookTurn, argument("TURN", ", ".join(HookTurn))]
) -> None:
    """Answer a client's hook; the plugin calls it.

    session-start prints the brief; before-compact records a hand-off of what is in hand;
    before-stop asks once for a word of it.
    """
    from projections.screens.inbox import of_machine, of_workflow

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
        _hand_off(root, unfinished, live, str(given.get("trigger") or "auto"))
    else:
        _ask_once(unfinished, given, root)


def _given() -> dict[str, Any]:
    """Return what the client says; a client that says nothing is answered all the same."""
    with suppress(ValueError):
        found = json.loads("" if sys.stdin.isatty() else sys.stdin.read())
        return found if isinstance(found, dict) else {}
    return {}


def _live(here: Reading) -> list[Machine]:
    from service.machines import log

    found = [here.machine(id_).current() for id_ in log.ids(here.root, here.store)]
    live = [one for one in found if not one.is_final]
    return sorted(live, key=lambda one: one.updated, reverse=True)


def _print_brief(root: str, state: Workflow | None, live: list[Machine]) -> None:
    parts = ["From wfctl, which keeps the state of the work in this folder:"]
    if state is not None:
        parts.append(_said(root, "rehydrate", "--dry-run", f"--brief={_TOKENS}"))
    brief = f"--bytes={_BYTES // min(max(len(live), 1), _FULL)}"
    parts += [_said(root, "machine", "rehydrate", "--dry-run", brief, m.id) for m in live[:_FULL]]
    parts += [f"machine {machine.id}: in {machine.phase}" for machine in live[_FULL:10]]
    policies = {state.consent} if state is not None else {machine.consent for machine in live}
    if "terminal" in policies:
        parts.append(
            "Consent is by terminal here, so an agent with a shell could agree in a person's name. "
            "Tell the person once, if you have not: `wfctl consent setup` sets up their signature."
        )
    text = "\n".join(part.strip() for part in parts if part.strip())
    answer = {"hookEventName": "SessionStart", "additionalContext": text}
    print(json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False))


def _hand_off(root: str, unfinished: list[Unfinished], live: list[Machine], trigger: str) -> None:
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
        summary += f" Before that: {before.summary}"[:_LETTERS] if before is not None else ""
        steps = [f"--next={step}" for step in before.next] if before is not None else []
        _said(root, "machine", "checkpoint", f"--summary={summary}", *steps, machine.id)


def _ask_once(unfinished: list[Unfinished], given: dict[str, Any], root: str) -> None:
    """Ask the client to go on if something is in hand without a word; never twice for it."""
    from service.root.trust import asked_before

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
    from cli.main import run

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        run([f"--root={root}", "--log-level=error", *line])
    return out.getvalue()
