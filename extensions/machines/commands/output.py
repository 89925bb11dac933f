"""Print results of machine commands, with the available next actions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from cli.commands.append import parse_json_object, read_option_text
from cli.frame.context import Context
from cli.frame.options import Text, Texts, argument, option
from cli.frame.workspace import open_log_for_writing, settings_of
from cli.settings import Format
from cli.terminal.output import Output
from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.guard import FileFact
from extensions.machines.rules.machine import Machine
from extensions.machines.rules.payload import MachineTaskClaimed
from extensions.machines.service.log import MachineLog
from extensions.machines.service.service import MachineOutcome, MachineService
from extensions.machines.views.documents import render_files
from extensions.machines.views.history import format_event
from extensions.machines.views.next_actions import machine_actions
from service.writing.stream_writer import WriteOptions

#: Maximum size in bytes of the JSON output of a command that writes. Other commands show the
#: details.
ANSWER = 1_024
#: Metadata of an output that does not belong to a machine.
_NOBODY = {"version": None, "machine": None}


def print_answer(
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
    """Print a result as JSON from ``data``, or as ``text()`` for people.

    The JSON output includes the next actions. If it would have more than ``most`` bytes, the last
    next actions are left out; at least one stays. ``changed`` are files of the machine that other
    programs changed.
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


def print_outcome(
    output: Output,
    service: MachineService,
    outcome: MachineOutcome,
    options: WriteOptions,
    notes: Sequence[str] = (),
    **more: Any,
) -> None:
    """Print the result of a command that writes, or of its dry run.

    ``notes`` are additional lines for people.
    """
    state, claim = outcome.state, _find_claim(outcome)
    written = list(render_files(state)) if options.dry_run and outcome.planned else []
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "machine": state.id,
        "phase": state.phase,
        "status": state.status,
        "events": _list_events(outcome, options),
        **_find_reached_limit(outcome),
        **({"claim": claim} if claim else {}),
        **({"files": written} if options.dry_run else {}),
        **more,
    }
    files = service.evidence(state)
    position = outcome.events[-1].position if outcome.events else None

    def text() -> str:
        lines = [f"v{e.version} {format_event(e.type, e.data)}" for e in outcome.events]
        if options.dry_run:
            data = ((p.type, p.model_dump(mode="json")) for p in outcome.planned)
            lines = [
                f"would append {type_}: {format_event(type_, values)}" for type_, values in data
            ]
            lines += [f"would write {path}" for path in written]
        if outcome.repeated:
            lines.append("(this command was already run, so nothing was appended)")
        lines = lines or ["nothing to append"]
        lines += [f"the claim is {claim['handle']}: change the task --under it"] if claim else []
        lines += [f"next: {action}" for action in machine_actions(state, files)]
        return "\n".join([*notes, *lines, *_format_leftovers(more.get("left") or {})])

    print_answer(output, data, text, state, files, most=ANSWER, position=position)


def _list_events(outcome: MachineOutcome, options: WriteOptions) -> list[dict[str, Any]]:
    """Return the recorded events, or the planned events of a dry run with their data."""
    if options.dry_run:
        aside = {"definition", "definition_layout", "layout"}
        found = outcome.planned
        return [{"type": p.type, "data": p.model_dump(mode="json", exclude=aside)} for p in found]
    return [{"version": e.version, "type": e.type, "event_id": e.event_id} for e in outcome.events]


def _find_reached_limit(outcome: MachineOutcome) -> dict[str, Any]:
    data_of = (p.model_dump(mode="json") for p in outcome.planned)
    for data in [*(e.data for e in outcome.events), *data_of]:
        if data.get("asked") is not None:
            keys = ("loop", "count", "limit", "asked", "to")
            return {"limit_reached": {key: data[key] for key in keys}}
    return {}


def _find_claim(outcome: MachineOutcome) -> dict[str, Any]:
    claims = [p for p in outcome.planned if isinstance(p, MachineTaskClaimed)]
    keys = {"task", "handle", "by", "until", "renew", "before"}
    return claims[-1].model_dump(mode="json", include=keys) if claims else {}


def _format_leftovers(found: Mapping[str, Any]) -> list[str]:
    kinds = (("branches", "branch"), ("worktrees", "worktree"))
    lines = [f"left: {one_of} {one}" for kind, one_of in kinds for one in found.get(kind, [])]
    pull = found.get("pull_request")
    return [*lines, *([f"left: pull request {pull}"] if pull else [])]


MachineId = Annotated[
    str,
    argument(
        "ID",
        "The id of the phase machine (the tracked work of an agent). `wfctl machine "
        "list` prints all ids.",
    ),
]
Values = Annotated[
    Texts,
    argument(
        "[PATH=VALUE]…",
        "The fields to set, as dot paths with values, for example plan.title=Draft. A "
        "value is JSON or plain text.",
    ),
]
Data = Annotated[
    Text,
    option(
        "--data",
        "JSON|@FILE|-",
        "Set the fields in a JSON object whose keys are dot paths. Give the object "
        "itself, @FILE, or - for stdin.",
    ),
]

TaskId = Annotated[str, argument("TASK", "The id of the task.")]
Under = Annotated[
    Text,
    option(
        "CLAIM",
        "Change a task that you reserved. CLAIM is the code that `wfctl machine task "
        "claim` printed.",
    ),
]
DespiteClaim = Annotated[
    Text,
    option(
        "TEXT",
        "Cancel another person's or agent's reservation of this task, and record the reason.",
    ),
]


def parse_data_option(data: str | None) -> dict[str, Any]:
    """Return the JSON object that the option ``--data`` contains or names.

    The option contains the object itself, ``@FILE``, or ``-`` for stdin. Without it, the object is
    empty.
    """
    return {} if data is None else parse_json_object("--data", read_option_text(data))


def parse_path_values(values: list[str] | None) -> dict[str, Any]:
    """Return the words of the form PATH=VALUE as a dictionary.

    A value that is not JSON is used as a string. Raises `InvalidInput` for a word in another form.
    """
    found: dict[str, Any] = {}
    for word in values or []:
        path, equals, value = word.partition("=")
        if not equals or not path:
            raise InvalidInput(
                f"the argument {word!r} does not have the form PATH=VALUE.", value=word
            )
        if "[" in path and "]" not in path:
            # The first equals sign was inside brackets, so it belongs to the path.
            path = f"{path}={value.partition(']')[0]}]"
        try:
            found[path] = json.loads(value, parse_constant=_refuse_json_constant)
        except (ValueError, RecursionError):
            found[path] = value
    return found


def _refuse_json_constant(name: str) -> Any:
    raise ValueError(name)


@contextmanager
def open_for_writing(
    context: Context, machine: str, dry_run: bool, claim: str | None = None
) -> Iterator[tuple[MachineService, Output]]:
    """Open a machine for writing, or for reading in a dry run.

    ``claim`` is the code with which the caller reserved a task. Raises `StateNotFound` if the
    machine does not exist, `AnotherLog` if the folder belongs to a different log, and
    `RootElsewhere` if the folder was moved or copied.
    """
    settings = settings_of(context)
    with open_log_for_writing(settings, dry_run, machine) as (root, _, store, actor):
        service = MachineService(root, MachineLog(store, machine, root.path), actor, claim=claim)
        if not dry_run:
            service.log.approvals.require_no_pin_conflict()
            service.settle_place(settings.root_is)
        yield service, Output(settings)
