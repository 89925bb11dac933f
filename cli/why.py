"""``wfctl why``: why a stage stands where it stands, and what would help the workflow on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.options import At, KnownAt
from cli.output import Output
from cli.workspace import Reading, moment, reading
from lifecycle.hindrance import hindrances, is_stuck
from lifecycle.status import Status
from lifecycle.workflow import Workflow
from projections.times import utc_seconds
from service.causes import Causes, Link, causes_of
from service.moment import Moment

OfStage = Annotated[
    str | None, typer.Argument(metavar="[STAGE]", help="Id of the stage; else the workflow.")
]


def why(
    context: typer.Context, stage: OfStage = None, at: At = None, known_at: KnownAt = None
) -> None:
    """Why a stage stands where it stands, back to the root; or what would unblock the workflow."""
    with reading(context) as workflow:
        view = moment(at, known_at)
        if stage is None:
            _of_workflow(workflow, workflow.log.current(view), view)
        else:
            _of_stage(workflow, stage, view)


def _of_stage(workflow: Reading, stage: str, view: Moment | None) -> None:
    (found,) = causes_of(workflow.log, stage, at=view)
    output = workflow.output
    text = "\n".join(_told(output, found, ""))
    output.result(found.to_dict(), lambda: text, state=workflow.log.current(view))


def _told(output: Output, causes: Causes, indent: str) -> Iterator[str]:
    yield indent + output.style(causes.sentence, "1")
    for link in causes.chain:
        yield f"{indent}  {_line(link)}"
    for dependency in causes.waits_for:
        yield from _told(output, dependency, indent + "  ")


def _line(link: Link) -> str:
    when = utc_seconds(link.occurred_at)
    return f"v{link.version:<4} {when}  {link.sentence}  ({link.actor})"


def _of_workflow(workflow: Reading, state: Workflow, view: Moment | None) -> None:
    found = hindrances(state)
    held = [h.stage for h in found if h.stage is not None]
    chains = dict(zip(held, causes_of(workflow.log, *held, at=view), strict=True))
    status = _status(state, bool(found))
    data = {
        "workflow": state.id,
        "status": status,
        "hindrances": [
            {**h.to_dict(), "causes": chains[h.stage].to_dict() if h.stage else None} for h in found
        ],
        "under_way": _ids(state, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING),
        "ready": _ids(state, Status.READY),
    }
    output = workflow.output
    output.result(data, lambda: "\n".join(_lines(output, state.id, data)), state=state)


def _status(state: Workflow, hindered: bool) -> str:
    if state.workflow_status is not None:
        return state.workflow_status
    return "blocked" if hindered and is_stuck(state) else "active"


def _ids(state: Workflow, *statuses: Status) -> list[str]:
    return [stage.id for stage in state.stages.values() if stage.status in statuses]


def _lines(output: Output, name: str, data: dict[str, Any]) -> Iterator[str]:
    yield output.style(f"{name} is {data['status']}", "1")
    for hindrance in data["hindrances"]:
        where = f"{hindrance['stage']}: " if hindrance["stage"] else ""
        yield f"  {where}{hindrance['why']}"
        yield f"    to unblock: {hindrance['unblock']}"
        for link in (hindrance["causes"] or {"chain": []})["chain"]:
            yield f"    {_line(Link(**link))}"
    for words, key in (("under way", "under_way"), ("ready", "ready")):
        if data[key]:
            yield f"  {words}: {', '.join(data[key])}"
