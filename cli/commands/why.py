"""``wfctl why`` and ``wfctl blame``: explain the status of a stage, a task or a field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Annotated, Any, NamedTuple

from cli.commands.events import select_machine_log
from cli.frame.context import Context
from cli.frame.options import AsOf, Brief, Machine, Text, argument, option
from cli.frame.workspace import OpenedWorkflow, open_for_reading
from cli.terminal.output import Output, format_compact_json
from cli.terminal.table import TableColumn, format_table
from lifecycle.state.conditions import find_hindrances, is_stuck
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import Surroundings, is_ready_to_start, list_hindrances
from projections.words.account import find_stale_stages
from projections.words.text import name_approver, truncate_utc_to_seconds
from service.errors import InvalidOption, NotFound
from service.questions.blame import find_blame as blamed
from service.questions.causes import find_causes
from service.reading.point_in_history import Moment
from wfctl_eventstore.extension import require_extension

OfStage = Annotated[
    Text,
    argument(
        "[STAGE]",
        "The id of the stage, for example stage-2. Default: explain what the workflow waits for.",
    ),
]
Record = dict[str, Any]
#: Maximum number of lines of an answer, and of characters of a cause.
_SCREEN, _WIDE = 24, 160


class AnswerLimits(NamedTuple):
    """Limits for the length of an answer.

    ``links`` is the maximum number of causes per stage, and ``stages`` the number of blocking
    stages. None means no limit.
    """

    links: int | None = None
    stages: int | None = None


#: Function that returns an answer of the given size, as data and as lines of text.
Sized = Callable[[AnswerLimits], tuple[Record, Iterator[str]]]
#: Sizes of an answer, from the longest to the shortest. wfctl prints the first one that fits.
_COUNTS = ((16, 16), (12, 8), (8, 5), (6, 3), (4, 2), (2, 1), (1, 1), (1, 0), (0, 0))
_SIZES = (AnswerLimits(), *(AnswerLimits(*counts) for counts in _COUNTS))


def why(
    context: Context,
    stage: OfStage = None,
    task: Text = option(
        "KEY", "Explain where this task of a sweep came from and who approved the task."
    ),
    machine: Machine = None,
    brief: Brief = None,
    view: AsOf = None,
) -> None:
    """Explain the status of a stage.

    wfctl shows the chain of causes, back to the first cause. Without a stage, wfctl explains what
    the workflow waits for.
    """
    with open_for_reading(context) as workflow:
        if machine is not None:
            if stage is not None or task is not None:
                raise InvalidOption(
                    "a stage and the option --machine cannot be combined, because a machine has "
                    "no stages. Remove the stage or --machine."
                )
            machines = require_extension("machines", f"the machine {machine}")
            data, lines = machines.explain_machine(workflow, machine, view)
            select_machine_log(workflow, machine).output.result(data, lambda: "\n".join(lines))
            return
        state = workflow.log.current(view)
        if task is not None:
            form = _explain_task_origin(workflow, stage, task, view)
        elif stage is None:
            form = _explain_workflow_status(workflow, state, view)
        else:
            form = _explain_stage_status(workflow, stage, view)
        workflow.output.print(_fit_to_budget(workflow.output, brief, state, form))


def _fit_to_budget(output: Output, brief: int | None, state: Workflow, form: Sized) -> str:
    """Return the longest answer that fits the token budget, or else the terminal screen."""
    shown = ""
    for size in _SIZES:
        data, lines = form(size)
        shown = output.rendered(
            data if brief is None else _shorten_data(data),
            partial("\n".join, lines),
            state=state,
            is_brief=brief is not None,
        )
        if brief is not None:
            from reconciler.briefing.briefing import count_tokens

            if count_tokens(shown) <= brief:
                break
        elif not output.is_text or shown.count("\n") < _SCREEN:
            break
    return shown


def _explain_stage_status(workflow: OpenedWorkflow, stage: str, view: Moment | None) -> Sized:
    (found,) = find_causes(workflow.log, stage, at=view)
    whole = found.to_dict()
    reasons: list[str] = []
    lines: list[str] = []
    if view is None:
        from projections.screens.next_actions import suggest_actions_for_stage

        reasons = _find_stale(workflow).get(stage, [])
        lines += [f"  stale: {one}; `wfctl rerun {stage}` computes it again" for one in reasons]
        actions = suggest_actions_for_stage(
            workflow.log.current(None), stage, _load_surroundings(workflow)
        )
        lines += [f"  next: {one}" for one in actions]

    def sized(size: AnswerLimits) -> tuple[Record, Iterator[str]]:
        causes = _limit_causes(whole, size)
        return {**causes, "stale": reasons}, chain(
            _format_causes(workflow.output, causes, ""), lines
        )

    return sized


def _explain_task_origin(
    workflow: OpenedWorkflow, stage: str | None, key: str, view: Moment | None
) -> Sized:
    """Return a function for the origin of a task's point (set of parameter values).

    The answer has the same size for every limit. Raises `NotFound` for an unknown task.
    """
    from cli.commands.tasks import list_tasks_and_matching_rows
    from projections.words.rounds import origin_told
    from reconciler.sweep.map_points import list_point_keys
    from service.questions.points import describe_point_origin

    if stage is None:
        raise InvalidOption("the option --task needs the stage of the task. Name the STAGE.")
    row = next(
        (
            one
            for one in list_tasks_and_matching_rows(workflow, stage, [], view)[1]
            if one["key"] == key
        ),
        None,
    )
    if row is None:
        raise NotFound(
            f"the stage {stage} has no task {key!r}. To list the tasks of the stage, run `wfctl "
            f"tasks {stage}`.",
            stage=stage,
            task=key,
        )
    about = {"stage": stage, "task": key, "state": row["state"], "why": row["why"]}
    keys_of = partial(list_point_keys, workflow.root.path, workflow.log.current(view))
    origin = describe_point_origin(workflow.log, stage, key, row.get("round", 1), keys_of, view)
    found = {**about, **origin}
    return lambda _: (found, origin_told(found))


def _load_surroundings(workflow: OpenedWorkflow) -> Surroundings:
    from reconciler.files.freshness import find_log_differences

    state = workflow.log.current(None)
    return workflow.output.collect_surroundings(
        state, find_log_differences(workflow.root, workflow.log, state)
    )


def _find_stale(workflow: OpenedWorkflow) -> dict[str, list[str]]:
    """Return the stages with outdated results, each with the reasons.

    If no stage is completed, return an empty dict without importing the code for the check.
    """
    state = workflow.log.current(None)
    if not any(stage.status is Status.COMPLETED for stage in state.stages.values()):
        return {}
    from reconciler.files.freshness import find_deviations

    return find_stale_stages(state, find_deviations(workflow.root.path, state))


def _limit_causes(causes: Record, size: AnswerLimits) -> Record:
    links, waits = causes["chain"], causes["waits_for"]
    near = waits
    if size.stages is not None and len(waits) > size.stages:
        # Show stages that need an intervention before stages that continue automatically.
        near = sorted(waits, key=lambda one: one["status"] not in _HELD)[: size.stages]
    shown = {
        **causes,
        "chain": links[: size.links],
        "waits_for": [_limit_causes(w, size) for w in near],
    }
    if left_out := len(links) - len(shown["chain"]):
        shown["older_left_out"] = left_out
    if len(waits) > len(near):
        shown["stages_left_out"] = len(waits) - len(near)
    return shown


_HELD = frozenset({Status.FAILED.value, Status.SKIPPED.value})


def _shorten_data(value: Any) -> Any:
    if isinstance(value, list):
        return [_shorten_data(one) for one in value]
    if not isinstance(value, dict):
        return _clip_line(value) if isinstance(value, str) else value
    if "occurred_at" in value:
        told = {"version": value["version"], "at": truncate_utc_to_seconds(value["occurred_at"])}
        return {**told, "actor": value["actor"], "sentence": _clip_line(value["sentence"])}
    if "unblock" in value and value["causes"]:
        value = {**value, "causes": {"chain": value["causes"]["chain"]}}  # the rest stands in why
    return {key: _shorten_data(one) for key, one in value.items()}


def _format_causes(output: Output, causes: Record, indent: str) -> Iterator[str]:
    yield indent + output.style(_clip_line(causes["sentence"]), "1")
    yield from _format_chain(causes, indent + "  ")
    for dependency in causes["waits_for"]:
        yield from _format_causes(output, dependency, indent + "  ")
    if causes.get("stages_left_out"):
        yield f"{indent}  and {causes['stages_left_out']} more stages that it waits for"


def _format_chain(causes: Record, indent: str) -> Iterator[str]:
    for one in causes["chain"]:
        said, when = _clip_line(one["sentence"]), truncate_utc_to_seconds(one["occurred_at"])
        yield f"{indent}v{one['version']:<4} {when}  {said}  ({one['actor']})"
    if causes.get("older_left_out"):
        yield f"{indent}and {causes['older_left_out']} older causes"


def _clip_line(text: str) -> str:
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def _explain_workflow_status(
    workflow: OpenedWorkflow, state: Workflow, view: Moment | None
) -> Sized:
    found = find_hindrances(state) if view else list_hindrances(state, _load_surroundings(workflow))
    held = list(dict.fromkeys(h.stage for h in found if h.stage is not None))
    causes = find_causes(workflow.log, *held, at=view)
    chains = {one.stage: one.to_dict() for one in causes}
    status = state.workflow_status or ("blocked" if found and is_stuck(state) else "active")
    stages = state.stages.values()
    at_work = (Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING)

    def sized(size: AnswerLimits) -> tuple[Record, Iterator[str]]:
        shown = found if size.stages is None else found[: max(size.stages, 1)]
        more = len(found) - len(shown)
        data = {
            "workflow": state.id,
            "status": status,
            "hindrances": [
                {**h.to_dict(), "causes": _limit_causes(chains[h.stage], size) if h.stage else None}
                for h in shown
            ],
            "under_way": [one.id for one in stages if one.status in at_work],
            "ready": [one.id for one in stages if is_ready_to_start(state, one)],
            **({"hindrances_left_out": more} if more else {}),
        }
        return data, _format_reasons(workflow.output, data)

    return sized


def _format_reasons(output: Output, data: Record) -> Iterator[str]:
    yield output.style(f"{data['workflow']} is {data['status']}", "1")
    for hindrance in data["hindrances"]:
        where = f"{hindrance['stage']}: " if hindrance["stage"] else ""
        yield f"  {where}{_clip_line(hindrance['why'])}"
        yield f"    to unblock: {hindrance['unblock']}"
        if hindrance["causes"]:
            yield from _format_chain(hindrance["causes"], "    ")
    if data.get("hindrances_left_out"):
        yield f"  and {data['hindrances_left_out']} more reasons why it waits"
    for words, key in (("under way", "under_way"), ("ready", "ready")):
        if ids := data[key]:
            more = f" and {len(ids) - 8} more" if len(ids) > 8 else ""
            yield f"  {words}: {', '.join(ids[:8])}{more}"


#: Maximum number of rows in a table that must fit on the screen.
_BLAME_SCREEN = 18


def blame(
    context: Context,
    field: Annotated[
        str, argument("FIELD", "A field of a stage, for example stage-2.parameters.x, or a stage.")
    ],
    machine: Machine = None,
    brief: Brief = None,
    view: AsOf = None,
) -> None:
    """Show who last changed each field.

    The output shows the value, the previous value, the author, the time and the reason of the
    change.
    """
    with open_for_reading(context) as root:
        state = None
        output = root.output
        if machine is None:
            changes = blamed(root.log, field, view)
            state = root.log.current(view) if brief is None else None
        else:
            output = select_machine_log(root, machine).output
            machines = require_extension("machines", f"the machine {machine}")
            changes = machines.blame_machine_field(root, machine, field, view)
        found = [entry.to_dict() for entry in changes]
        if brief is not None:
            from cli.frame.record_output import print_newest

            newest = sorted(found, key=lambda entry: entry["version"])
            print_newest(output, newest, brief, (_pick_shown_fields, _format_blame_line), view)
            return
        one = len(found) == 1
        text = (
            partial(_format_entry, output, found[0])
            if one
            else partial(_format_blame_page, output, found)
        )
        output.result(found, text, state=state)


def _format_blame_page(output: Output, found: list[dict[str, Any]]) -> str:
    if len(found) <= _BLAME_SCREEN:
        return format_table(output, found, _COLUMNS)
    first = min(entry["version"] for entry in found)
    since = [entry for entry in found if entry["version"] != first]
    shown = sorted(since, key=lambda entry: entry["version"])[-_BLAME_SCREEN:]
    lines = [format_table(output, shown, _COLUMNS)] if shown else []
    if len(since) > len(shown):
        lines.append(f"and {len(since) - len(shown)} fields with older changes")
    names = [entry["field"] for entry in found if entry["version"] == first]
    if names:
        lines.append(f"as v{first} has them: {', '.join(names)}")
    return "\n".join(lines)


def _pick_shown_fields(entry: dict[str, Any]) -> dict[str, Any]:
    names = ("field", "value", "old", "version", "type", "actor", "agreed_by", "why")
    told = {name: entry[name] for name in names}
    return {**told, "at": truncate_utc_to_seconds(entry["occurred_at"])}


def _format_blame_line(entry: dict[str, Any]) -> str:
    why = f": {entry['why']}" if entry["why"] else ""
    change = f"{_format_value(entry, 'old', 'was_there')} → {_format_value(entry)}"
    return f"v{entry['version']} {entry['field']} {change}, {_format_change_author(entry)}{why}"


def _format_value(entry: dict[str, Any], key: str = "value", there: str = "is_there") -> str:
    return format_compact_json(entry[key]) if entry[there] else "(not there)"


def _format_change_author(entry: dict[str, Any]) -> str:
    if entry["agreed_by"] is None:
        return str(entry["actor"])
    return f"{entry['proposed_by']}, agreed by {entry['agreed_by']}"


_COLUMNS = (
    TableColumn("FIELD", lambda e: e["field"]),
    TableColumn("VALUE", _format_value, 40),
    TableColumn("BEFORE", lambda e: _format_value(e, "old", "was_there"), 24),
    TableColumn("VERSION", lambda e: f"v{e['version']}"),
    TableColumn("WHEN", lambda e: truncate_utc_to_seconds(e["occurred_at"]) or ""),
    TableColumn("WHAT", lambda e: e["type"]),
    TableColumn("WHO", _format_change_author),
    TableColumn("WHY", lambda e: e["why"] or "", 60),
)


def _format_entry(output: Output, entry: dict[str, Any]) -> str:
    cause = f", following from v{entry['cause']}" if entry["cause"] is not None else ""
    session = f", session {entry['session']}" if entry["session"] is not None else ""
    is_late = entry["recorded_at"][:19] != entry["occurred_at"][:19]
    late = f", recorded {entry['recorded_at']}" if is_late else ""
    lines = [
        output.style(f"{entry['field']} = {_format_value(entry)}", "1"),
        f"  before    {_format_value(entry, 'old', 'was_there')}",
        f"  event     v{entry['version']} {entry['type']} ({entry['event_id']}){cause}",
        f"  when      {entry['occurred_at']}{late}{session}",
        f"  who       {entry['actor']}",
    ]
    if entry["amendment"] is not None:
        by = name_approver(entry["agreed_by"], entry["database_user"])
        lines += [
            f"  proposed  {entry['amendment']} by {entry['proposed_by']}, {entry['proposed_at']}",
            f"  agreed    by {by} ({entry['policy']}), {entry['agreed_at']}",
        ]
    lines += [f"  why       {entry['why']}"] if entry["why"] else []
    lines += [
        f"  {key:<9} {format_compact_json(value)}" for key, value in entry["evidence"].items()
    ]
    return "\n".join(lines)
