"""``wfctl log``: the history, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from cli.commands.events import endless, moments, of_machine, recorded
from cli.frame import selection as chosen
from cli.frame.options import AsOf, Brief, Text, option
from cli.frame.workspace import Reading, entry, reading
from cli.terminal.output import Output
from cli.terminal.table import paged
from projections.words.text import ago, local_seconds
from service.errors import InvalidOption
from service.reading.moment import Moment
from service.reading.selection import Selection
from service.root.disk import system_clock, utc_text

#: Event type, or its kind → the style of its message.
_STYLES = {
    "stage.completed": "32",
    "workflow.completed": "1;32",
    "stage.failed": "31",
    "stage.blocked": "31",
    "stage.invalidated": "33",
    "stage.retried": "33",
    "amendment": "35",
    "drift": "33",
    "session": "36",
    "note": "2",
}


def log(
    context: typer.Context,
    asked: chosen.Wanted = chosen.ALL,
    view: AsOf = None,
    limit: chosen.Newest = None,
    brief: Brief = None,
    relative: bool = option("Times as 2 hours ago."),
    fields: chosen.Fields = None,
    template: chosen.Template = None,
    reverse: chosen.Reverse = False,
    follow: chosen.Follow = False,
    machine: Text = option("ID", "Of a phase machine."),
    pager: bool = option("--pager/--no-pager", "Page on a terminal, by $PAGER.", default=True),
) -> None:
    """The history, for people; with --actor only what one actor did."""
    chosen.own_form(brief, {"--reverse": reverse, "--fields": fields, "--template": template})
    if follow:
        backwards = {"--reverse": reverse, "-n": limit, "--brief": brief}
        endless({**backwards, **moments(context)})
    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        wanted = asked._replace(stages=None).of(workflow)
        found = _found(workflow, machine, view, wanted, follow)
        entries = _concerning(found, asked.stages or [])
        lines = chosen.ordered(chosen.matching(entries, asked.grep), limit, reverse)
        printer = _printer(workflow.output, relative)
        if brief is not None:
            from cli.frame.brief import Newest

            Newest(workflow.output, _short, printer, view).print(lines, brief)
            return
        shape = chosen.shape_of(workflow.output, fields, template)
        with paged(workflow.output, wanted=pager and not follow):
            shape.print(workflow.output, lines, printer, view)


def _found(
    workflow: Reading, machine: str | None, view: Moment | None, wanted: Selection, follow: bool
) -> Iterator[dict[str, Any]]:
    if machine is not None or workflow.config.workflow is None:
        from cli.frame import machine_history

        if machine is None:
            if follow:
                raise InvalidOption("--follow follows one machine: name it with --machine ID")
            return machine_history.entries_of_all(workflow, view, wanted)
        if follow:
            log = workflow.machine(machine)
            return machine_history.told(log, log.along(recorded(workflow, follow)), wanted)
        return machine_history.entries_of(workflow, machine, view, wanted)
    events = recorded(workflow, follow) if follow else workflow.log.events(view)
    return _entries(workflow, events, wanted)


def _entries(workflow: Reading, events: Any, wanted: Selection) -> Iterator[dict[str, Any]]:
    for event, state in workflow.log.along(events):
        if wanted.fits(event) and (found := entry(event, state)) is not None:
            yield found


def _concerning(entries: Iterator[dict[str, Any]], stages: list[str]) -> Iterator[dict[str, Any]]:
    return (
        found
        for found in entries
        if not stages or found["stage"] in stages or set(stages) & set(found["message"].split())
    )


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Return what tells of an entry: an import was not done when it was recorded."""
    when = found["occurred_at" if found["actor"].startswith("import:") else "recorded_at"]
    keys = ("machine", "version", "actor", "stage", "message")
    told = {key: found[key] for key in keys if key in found}
    return {**told, "at": when}


def _printer(output: Output, relative: bool) -> Any:
    now = utc_text(system_clock())

    def text(found: dict[str, Any]) -> str:
        imported = found["actor"].startswith("import:")
        when = found["occurred_at" if imported else "recorded_at"]
        shown = f"{ago(when, now):<14}" if relative else local_seconds(when, found["utc_offset"])
        who = output.style(f"{found['actor']:<16}", "2")
        whose = f"{found['machine']}: " if found.get("machine") else ""
        return f"{output.style(shown, '34')}  {who} {whose}{_styled(output, found)}"

    return text


def _styled(output: Output, found: dict[str, Any]) -> str:
    type_ = found["type"]
    style = _STYLES.get(type_) or _STYLES.get(type_.partition(".")[0])
    # An entry has one line, whatever somebody wrote: another line would read as another entry.
    message = " ⏎ ".join(str(found["message"]).splitlines())
    return output.style(message, style) if style else message
