"""Printing what concerns a machine: the envelope, with what may be done next."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cli.commands.append import object_of, text_of
from cli.frame.options import Text, Texts, argument, option
from cli.frame.workspace import acting_in, settings_of
from cli.settings import Format
from cli.terminal.output import Output
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.guard import FileFact
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineTaskClaimed
from projections.machines.documents import rendered
from projections.machines.history import message
from projections.machines.next_actions import machine_actions
from service.machines.log import MachineLog
from service.machines.service import MachineOutcome, MachineService
from service.writing.stream_writer import WriteOptions

#: The most bytes that the answer to a write takes; what more there is, other commands show.
ANSWER = 1_024
#: What `_meta` says where no machine is shown.
_NOBODY = {"version": None, "machine": None}


def answer(
    output: Output,
    data: Any,
    text: Callable[[], str],
    state: Machine | None = None,
    files: Mapping[str, FileFact] | None = None,
    most: int | None = None,
    changed: Sequence[str] = (),
    position: int | None = None,
    **meta: Any,
) -> None:
    """Print ``data`` as the envelope or as one line, or ``text()`` for people.

    ``most`` is how many bytes the envelope may take: next actions beyond it are left out, but for
    the first. ``changed``: files of the machine that others changed.
    """
    head = {"version": state.head, "machine": state.id} if state is not None else _NOBODY
    about = {**head, **{key: value for key, value in meta.items() if value is not None}}
    actions = machine_actions(state, files or {}, changed) if state is not None else []
    plain = Output(output.settings)
    is_bounded = most is not None and plain.settings.format is Format.JSON
    while True:
        shown = plain.rendered(data, text, actions=actions, position=position, about=about)
        if not is_bounded or len(actions) <= 1 or len(shown.encode()) <= (most or 0):
            break
        actions.pop()
    if shown:
        plain.print(shown)


def tell(
    output: Output,
    service: MachineService,
    outcome: MachineOutcome,
    options: WriteOptions,
    notes: Sequence[str] = (),
    **more: Any,
) -> None:
    """Print what a write did, or would do; ``notes`` are lines for people."""
    state, claim = outcome.state, _claim(outcome)
    written = list(rendered(state)) if options.dry_run and outcome.planned else []
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "machine": state.id,
        "phase": state.phase,
        "status": state.status,
        "events": _events(outcome, options),
        **_limit_reached(outcome),
        **({"claim": claim} if claim else {}),
        **({"files": written} if options.dry_run else {}),
        **more,
    }
    files = service.evidence(state)
    position = outcome.events[-1].position if outcome.events else None

    def text() -> str:
        lines = [f"v{e.version} {message(e.type, e.data)}" for e in outcome.events]
        if options.dry_run:
            data = ((p.type, p.model_dump(mode="json")) for p in outcome.planned)
            lines = [f"would append {type_}: {message(type_, values)}" for type_, values in data]
            lines += [f"would write {path}" for path in written]
        if outcome.repeated:
            lines.append("(this command was carried out before; nothing was appended)")
        lines = lines or ["nothing to append"]
        lines += [f"the claim is {claim['handle']}: change the task --under it"] if claim else []
        lines += [f"next: {action}" for action in machine_actions(state, files)]
        return "\n".join([*notes, *lines, *_left(more.get("left") or {})])

    answer(output, data, text, state, files, most=ANSWER, position=position)


def _events(outcome: MachineOutcome, options: WriteOptions) -> list[dict[str, Any]]:
    """Return which events there are; their data is what was sent, and `wfctl events` has it."""
    if options.dry_run:
        aside = {"definition", "definition_layout", "layout"}
        found = outcome.planned
        return [{"type": p.type, "data": p.model_dump(mode="json", exclude=aside)} for p in found]
    return [{"version": e.version, "type": e.type, "event_id": e.event_id} for e in outcome.events]


def _limit_reached(outcome: MachineOutcome) -> dict[str, Any]:
    data_of = (p.model_dump(mode="json") for p in outcome.planned)
    for data in [*(e.data for e in outcome.events), *data_of]:
        if data.get("asked") is not None:
            keys = ("loop", "count", "limit", "asked", "to")
            return {"limit_reached": {key: data[key] for key in keys}}
    return {}


def _claim(outcome: MachineOutcome) -> dict[str, Any]:
    claims = [p for p in outcome.planned if isinstance(p, MachineTaskClaimed)]
    keys = {"task", "handle", "by", "until", "renew", "before"}
    return claims[-1].model_dump(mode="json", include=keys) if claims else {}


def _left(found: Mapping[str, Any]) -> list[str]:
    kinds = (("branches", "branch"), ("worktrees", "worktree"))
    lines = [f"left: {one_of} {one}" for kind, one_of in kinds for one in found.get(kind, [])]
    pull = found.get("pull_request")
    return [*lines, *([f"left: pull request {pull}"] if pull else [])]


MachineId = Annotated[str, argument("ID", "Id of the machine.")]
Values = Annotated[Texts, argument("[PATH=VALUE]…", "Dot paths with JSON or plain text.")]
Data = Annotated[Text, option("--data", "JSON|@FILE|-", "JSON object whose keys are paths.")]

TaskId = Annotated[str, argument("TASK", "Id of the task.")]
Under = Annotated[Text, option("CLAIM", "Your claim of the task, as `task claim` printed it.")]
DespiteClaim = Annotated[Text, option("TEXT", "End the claim of another actor, with this reason.")]


def data_of(data: str | None) -> dict[str, Any]:
    """Return the object that ``--data`` gives: JSON, ``@FILE``, or ``-``."""
    return {} if data is None else object_of("--data", text_of(data))


def pairs_of(values: list[str] | None) -> dict[str, Any]:
    """Return PATH=VALUE words as path → value; a value that is no JSON is text."""
    found: dict[str, Any] = {}
    for word in values or []:
        path, equals, value = word.partition("=")
        if not equals or not path:
            raise InvalidInput(f"expected PATH=VALUE, found {word!r}", value=word)
        if "[" in path and "]" not in path:
            # The equals sign stands inside of brackets: no path holds one.
            path = f"{path}={value.partition(']')[0]}]"
        try:
            found[path] = json.loads(value, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            found[path] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


@contextmanager
def acting(
    context: typer.Context, machine: str, dry_run: bool, claim: str | None = None
) -> Iterator[tuple[MachineService, Output]]:
    """Open a machine for writing; for a dry run, as a command that only looks does.

    ``claim`` is the handle of the claim that the caller shows.
    Raises `StateNotFound`, `AnotherLog`, and `RootElsewhere` where the root is not where it was.
    """
    settings = settings_of(context)
    with acting_in(settings, dry_run, machine) as (root, _, store, actor):
        service = MachineService(root, MachineLog(store, machine, root.path), actor, claim=claim)
        if not dry_run:
            service.log.approvals.require_not_swapped()
            service.settle_place(settings.root_is)
        yield service, Output(settings)
