"""``wfctl why``: why a stage stands where it stands, or has a task, and what would help on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Annotated, Any, NamedTuple

import typer

from cli.commands.events import of_machine
from cli.frame.options import AsOf, Brief, Machine, Text, argument, option
from cli.frame.workspace import Reading, reading
from cli.terminal.output import Output, compact
from cli.terminal.table import TableColumn, table
from lifecycle.state.conditions import hindrances, is_stuck
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import Surroundings, hindered, is_due
from projections.words.account import stale
from projections.words.text import utc_seconds
from service.errors import InvalidOption, NotFound
from service.questions.blame import blame as blamed
from service.questions.causes import causes_of
from service.reading.moment import Moment

OfStage = Annotated[Text, argument("[STAGE]", "Id of the stage (default: the workflow).")]
Record = dict[str, Any]
#: Lines of an answer for people, and characters of a cause in it.
_SCREEN, _WIDE = 24, 160


class Size(NamedTuple):
    """How much is told: causes of each stage, and stages that are waited for; None for all."""

    links: int | None = None
    stages: int | None = None


#: An answer that can be given in several sizes: its data, and its lines for people.
Sized = Callable[[Size], tuple[Record, Iterator[str]]]
#: Shorter and shorter.
_SIZES = (Size(), Size(16, 16), Size(12, 8), Size(8, 5), Size(6, 3), Size(4, 2), Size(2, 1),
          Size(1, 1), Size(1, 0), Size(0, 0))  # fmt: skip


def why(
    context: typer.Context,
    stage: OfStage = None,
    task: Text = option("KEY", "Explain the origin of one task and who approved it."),
    machine: Machine = None,
    brief: Brief = None,
    view: AsOf = None,
) -> None:
    """Explain the status of a stage.

    Follow the causes back to the root. Without a stage, show what would unblock the workflow.
    """
    with reading(context) as workflow:
        if machine is not None:
            from cli.frame.machine_history import lines, why_of

            if stage is not None or task is not None:
                raise InvalidOption("a machine has no stages: give STAGE or --machine ID, not both")
            found = why_of(workflow, machine, view)
            output = of_machine(workflow, machine).output
            output.result(found, lambda: "\n".join(lines(found)))
            return
        state = workflow.log.current(view)
        if task is not None:
            form = _of_task(workflow, stage, task, view)
        elif stage is None:
            form = _of_workflow(workflow, state, view)
        else:
            form = _of_stage(workflow, stage, view)
        workflow.output.print(_fitted(workflow.output, brief, state, form))


def _fitted(output: Output, brief: int | None, state: Workflow, form: Sized) -> str:
    """Return the fullest form that fits the budget, or a screen where people read it."""
    shown = ""
    for size in _SIZES:
        data, lines = form(size)
        shown = output.rendered(
            data if brief is None else _bare(data),
            partial("\n".join, lines),
            state=state,
            is_brief=brief is not None,
        )
        if brief is not None:
            from reconciler.briefing.briefing import tokens

            if tokens(shown) <= brief:
                break
        elif not output.is_text or shown.count("\n") < _SCREEN:
            break
    return shown


def _of_stage(workflow: Reading, stage: str, view: Moment | None) -> Sized:
    (found,) = causes_of(workflow.log, stage, at=view)
    whole = found.to_dict()
    reasons: list[str] = []
    lines: list[str] = []
    if view is None:
        from projections.screens.next_actions import leading_on

        reasons = _stale(workflow).get(stage, [])
        lines += [f"  stale: {one}; `wfctl rerun {stage}` computes it again" for one in reasons]
        actions = leading_on(workflow.log.current(None), stage, _around(workflow))
        lines += [f"  to go on: {one}" for one in actions]

    def sized(size: Size) -> tuple[Record, Iterator[str]]:
        causes = _cut(whole, size)
        return {**causes, "stale": reasons}, chain(_told(workflow.output, causes, ""), lines)

    return sized


def _of_task(workflow: Reading, stage: str | None, key: str, view: Moment | None) -> Sized:
    """Return where the point of a task comes from, in the one size that there is."""
    from cli.commands.tasks import chosen_of
    from projections.words.rounds import origin_told
    from service.questions.points import origin_of

    if stage is None:
        raise InvalidOption("--task takes the stage whose task it is")
    row = next((one for one in chosen_of(workflow, stage, [], view)[1] if one["key"] == key), None)
    if row is None:
        raise NotFound(
            f"{stage} has no task {key!r}; `wfctl tasks {stage}` lists them", stage=stage, task=key
        )
    about = {"stage": stage, "task": key, "state": row["state"], "why": row["why"]}
    found = {**about, **origin_of(workflow.log, stage, row.get("round", 1), view)}
    return lambda _: (found, origin_told(found))


def _around(workflow: Reading) -> Surroundings:
    from reconciler.files.freshness import look

    state = workflow.log.current(None)
    return workflow.output.around(state, look(workflow.root, workflow.log, state))


def _stale(workflow: Reading) -> dict[str, list[str]]:
    """Return the stages that are stale and why; without a completed one, load nothing."""
    state = workflow.log.current(None)
    if not any(stage.status is Status.COMPLETED for stage in state.stages.values()):
        return {}
    from reconciler.files.freshness import deviations

    return stale(state, deviations(workflow.root.path, state))


def _cut(causes: Record, size: Size) -> Record:
    links, waits = causes["chain"], causes["waits_for"]
    near = waits
    if size.stages is not None and len(waits) > size.stages:
        # First those that will not come by themselves.
        near = sorted(waits, key=lambda one: one["status"] not in _HELD)[: size.stages]
    shown = {**causes, "chain": links[: size.links], "waits_for": [_cut(w, size) for w in near]}
    if left_out := len(links) - len(shown["chain"]):
        shown["older_left_out"] = left_out
    if len(waits) > len(near):
        shown["stages_left_out"] = len(waits) - len(near)
    return shown


_HELD = frozenset({Status.FAILED.value, Status.SKIPPED.value})


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if not isinstance(value, dict):
        return _clip(value) if isinstance(value, str) else value
    if "occurred_at" in value:
        told = {"version": value["version"], "at": utc_seconds(value["occurred_at"])}
        return {**told, "actor": value["actor"], "sentence": _clip(value["sentence"])}
    if "unblock" in value and value["causes"]:
        value = {**value, "causes": {"chain": value["causes"]["chain"]}}  # the rest stands in why
    return {key: _bare(one) for key, one in value.items()}


def _told(output: Output, causes: Record, indent: str) -> Iterator[str]:
    yield indent + output.style(_clip(causes["sentence"]), "1")
    yield from _chain(causes, indent + "  ")
    for dependency in causes["waits_for"]:
        yield from _told(output, dependency, indent + "  ")
    if causes.get("stages_left_out"):
        yield f"{indent}  and {causes['stages_left_out']} more stages that it waits for"


def _chain(causes: Record, indent: str) -> Iterator[str]:
    for one in causes["chain"]:
        said, when = _clip(one["sentence"]), utc_seconds(one["occurred_at"])
        yield f"{indent}v{one['version']:<4} {when}  {said}  ({one['actor']})"
    if causes.get("older_left_out"):
        yield f"{indent}and {causes['older_left_out']} older causes"


def _clip(text: str) -> str:
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def _of_workflow(workflow: Reading, state: Workflow, view: Moment | None) -> Sized:
    found = hindrances(state) if view else hindered(state, _around(workflow))
    held = list(dict.fromkeys(h.stage for h in found if h.stage is not None))
    causes = causes_of(workflow.log, *held, at=view)
    chains = {one.stage: one.to_dict() for one in causes}
    status = state.workflow_status or ("blocked" if found and is_stuck(state) else "active")
    stages = state.stages.values()
    at_work = (Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING)

    def sized(size: Size) -> tuple[Record, Iterator[str]]:
        shown = found if size.stages is None else found[: max(size.stages, 1)]
        more = len(found) - len(shown)
        data = {
            "workflow": state.id,
            "status": status,
            "hindrances": [
                {**h.to_dict(), "causes": _cut(chains[h.stage], size) if h.stage else None}
                for h in shown
            ],
            "under_way": [one.id for one in stages if one.status in at_work],
            "ready": [one.id for one in stages if is_due(state, one)],
            **({"hindrances_left_out": more} if more else {}),
        }
        return data, _lines(workflow.output, data)

    return sized


def _lines(output: Output, data: Record) -> Iterator[str]:
    yield output.style(f"{data['workflow']} is {data['status']}", "1")
    for hindrance in data["hindrances"]:
        where = f"{hindrance['stage']}: " if hindrance["stage"] else ""
        yield f"  {where}{_clip(hindrance['why'])}"
        yield f"    to unblock: {hindrance['unblock']}"
        if hindrance["causes"]:
            yield from _chain(hindrance["causes"], "    ")
    if data.get("hindrances_left_out"):
        yield f"  and {data['hindrances_left_out']} more that hold it up"
    for words, key in (("under way", "under_way"), ("ready", "ready")):
        if ids := data[key]:
            more = f" and {len(ids) - 8} more" if len(ids) > 8 else ""
            yield f"  {words}: {', '.join(ids[:8])}{more}"


#: Rows of a table that fits a screen.
_BLAME_SCREEN = 18


def blame(
    context: typer.Context,
    field: Annotated[
        str, argument("FIELD", "Field, for example stage-2.parameters.x, or a stage.")
    ],
    machine: Machine = None,
    brief: Brief = None,
    view: AsOf = None,
) -> None:
    """Show who last changed each field.

    Show the value, the previous value, the actor, the time and the reason.
    """
    with reading(context) as root:
        state = None
        output = root.output
        if machine is None:
            changes = blamed(root.log, field, view)
            state = root.log.current(view) if brief is None else None
        else:
            from service.machines.inspection import blame as blamed_of_machine

            output = of_machine(root, machine).output
            changes = blamed_of_machine(root.machine(machine), field, view)
        found = [entry.to_dict() for entry in changes]
        if brief is not None:
            from cli.frame.selection import print_newest

            newest = sorted(found, key=lambda entry: entry["version"])
            print_newest(output, newest, brief, (_short, _blame_told), view)
            return
        one = len(found) == 1
        text = partial(_one, output, found[0]) if one else partial(_page, output, found)
        output.result(found, text, state=state)


def _page(output: Output, found: list[dict[str, Any]]) -> str:
    if len(found) <= _BLAME_SCREEN:
        return table(output, found, _COLUMNS)
    first = min(entry["version"] for entry in found)
    since = [entry for entry in found if entry["version"] != first]
    shown = sorted(since, key=lambda entry: entry["version"])[-_BLAME_SCREEN:]
    lines = [table(output, shown, _COLUMNS)] if shown else []
    if len(since) > len(shown):
        lines.append(f"and {len(since) - len(shown)} fields that were changed before these")
    names = [entry["field"] for entry in found if entry["version"] == first]
    if names:
        lines.append(f"as v{first} has them: {', '.join(names)}")
    return "\n".join(lines)


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    names = ("field", "value", "old", "version", "type", "actor", "agreed_by", "why")
    told = {name: entry[name] for name in names}
    return {**told, "at": utc_seconds(entry["occurred_at"])}


def _blame_told(entry: dict[str, Any]) -> str:
    why = f": {entry['why']}" if entry["why"] else ""
    before = _value(entry, "old", "was_there")
    return f"v{entry['version']} {entry['field']} {before} → {_value(entry)}, {_who(entry)}{why}"


def _value(entry: dict[str, Any], key: str = "value", there: str = "is_there") -> str:
    return compact(entry[key]) if entry[there] else "(not there)"


def _who(entry: dict[str, Any]) -> str:
    if entry["agreed_by"] is None:
        return str(entry["actor"])
    return f"{entry['proposed_by']}, agreed by {entry['agreed_by']}"


_COLUMNS = (
    TableColumn("FIELD", lambda e: e["field"]),
    TableColumn("VALUE", _value, 40),
    TableColumn("BEFORE", lambda e: _value(e, "old", "was_there"), 24),
    TableColumn("VERSION", lambda e: f"v{e['version']}"),
    TableColumn("WHEN", lambda e: utc_seconds(e["occurred_at"]) or ""),
    TableColumn("WHAT", lambda e: e["type"]),
    TableColumn("WHO", _who),
    TableColumn("WHY", lambda e: e["why"] or "", 60),
)


def _one(output: Output, entry: dict[str, Any]) -> str:
    cause = f", following from v{entry['cause']}" if entry["cause"] is not None else ""
    session = f", session {entry['session']}" if entry["session"] is not None else ""
    is_late = entry["recorded_at"][:19] != entry["occurred_at"][:19]
    late = f", recorded {entry['recorded_at']}" if is_late else ""
    lines = [
        output.style(f"{entry['field']} = {_value(entry)}", "1"),
        f"  before    {_value(entry, 'old', 'was_there')}",
        f"  event     v{entry['version']} {entry['type']} ({entry['event_id']}){cause}",
        f"  when      {entry['occurred_at']}{late}{session}",
        f"  who       {entry['actor']}",
    ]
    if entry["amendment"] is not None:
        lines += [
            f"  proposed  {entry['amendment']} by {entry['proposed_by']}, {entry['proposed_at']}",
            f"  agreed    by {entry['agreed_by']} ({entry['policy']}), {entry['agreed_at']}",
        ]
    lines += [f"  why       {entry['why']}"] if entry["why"] else []
    lines += [f"  {key:<9} {compact(value)}" for key, value in entry["evidence"].items()]
    return "\n".join(lines)
