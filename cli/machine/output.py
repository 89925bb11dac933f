"""Printing what concerns a machine: the envelope, with what may be done next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cli.output import Output, compact, pretty, success
from cli.settings import Format, Settings
from lifecycle.machines.guard import FileFact
from lifecycle.machines.machine import Machine
from projections.machines.documents import rendered
from projections.machines.history import message
from projections.machines.next_actions import MachineAction, machine_actions
from service.machines.service import MachineOutcome, MachineService
from service.service import WriteOptions


class MachineOutput:
    """Prints the answers of the commands of machines."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.plain = Output(settings)

    def result(
        self,
        data: Any,
        text: Callable[[], str],
        state: Machine | None = None,
        files: Mapping[str, FileFact] | None = None,
        **meta: Any,
    ) -> None:
        """Print ``data`` as the envelope or as one line, or ``text()`` for people."""
        if self.plain.is_text:
            shown = text()
        elif self.settings.format is Format.JSONL:
            shown = compact(data)
        else:
            actions = machine_actions(state, files or {}) if state is not None else []
            shown = pretty(success(data, [a._asdict() for a in actions], _meta(state, meta)))
        if shown:
            self.plain.print(shown)

    def told(
        self,
        service: MachineService,
        outcome: MachineOutcome,
        options: WriteOptions,
        **more: Any,
    ) -> None:
        """Print what a write did, or would do."""
        state = outcome.state
        events = _events(outcome, options)
        data = {
            "dry_run": options.dry_run,
            "repeated": outcome.repeated,
            "machine": state.id,
            "phase": state.phase,
            "status": state.status,
            "events": events,
            **_said(events),
            **({"files": _written(outcome)} if options.dry_run else {}),
            **more,
        }
        files = service.evidence(state)
        position = outcome.events[-1].position if outcome.events else None
        self.result(
            data,
            lambda: "\n".join(_lines(outcome, options, machine_actions(state, files))),
            state,
            files,
            position=position,
        )


def _meta(state: Machine | None, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "workflow": None,
        "version": state.head if state is not None else None,
        "position": more.get("position"),
        "machine": state.id if state is not None else None,
        **{key: value for key, value in more.items() if key != "position"},
    }


def _events(outcome: MachineOutcome, options: WriteOptions) -> list[dict[str, Any]]:
    if options.dry_run:
        return [{"type": p.type, "data": p.model_dump(mode="json")} for p in outcome.planned]
    return [
        {"version": e.version, "type": e.type, "event_id": e.event_id, "data": e.data}
        for e in outcome.events
    ]


def _said(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what a limit did: where it led instead of where it was asked for."""
    for event in events:
        data = event["data"]
        if data.get("asked") is not None:
            keys = ("loop", "count", "limit", "asked", "to")
            return {"limit_reached": {key: data[key] for key in keys}}
    return {}


def _lines(
    outcome: MachineOutcome, options: WriteOptions, actions: Sequence[MachineAction]
) -> list[str]:
    if options.dry_run:
        lines = [f"would append {p.type}: {_text(p)}" for p in outcome.planned]
        lines += [f"would write {path}" for path in _written(outcome)]
    else:
        lines = [f"v{e.version} {message(e.type, e.data)}" for e in outcome.events]
    if outcome.repeated:
        lines.append("(this command was carried out before; nothing was appended)")
    lines = lines or ["nothing to append"]
    return lines + next_lines(actions)


def _written(outcome: MachineOutcome) -> list[str]:
    """Return the files that a dry run's events would be shown in, relative to the root."""
    return list(rendered(outcome.state)) if outcome.planned else []


def _text(payload: Any) -> str:
    return message(payload.type, payload.model_dump(mode="json"))


def next_lines(actions: Sequence[MachineAction]) -> list[str]:
    """Return what may be done next, a line each."""
    return [f"next: {action.command}  ({action.reason})" for action in actions]
