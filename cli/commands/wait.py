"""``wfctl wait``: wait until the running jobs of stages finish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cli.frame.context import Context
from cli.frame.options import argument, option
from cli.frame.workspace import convert_signals_to_exit, open_job_runner
from lifecycle.state.conditions import find_stage_hindrance
from lifecycle.state.status import FINISHED, Status

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow

#: Statuses of stages whose newest job has ended, and of stages that need no job.
_ENDED = FINISHED | {Status.POST_PROCESSING, Status.FAILED}


def wait(
    context: Context,
    stages: Annotated[
        list[str],
        argument("STAGE...", "The ids of the stages whose jobs to wait for, for example stage-2."),
    ],
    timeout: float | None = option(
        "S", "Stop waiting after S seconds and exit with code 1. The jobs continue.", min=0
    ),
) -> None:
    """Wait until running jobs finish.

    wfctl then records the result of each job. If the next job of a stage has not started, exit with
    code 1.
    """
    from reconciler.control.reconcile import wait_and_record_ends

    # The signals are converted, so that a stopped command erases the progress bars.
    with convert_signals_to_exit(), open_job_runner(context) as (jobs, output):
        wait_and_record_ends(jobs, stages, timeout)
        state = jobs.service.state()
        ends = [
            {"stage": stage.id, "status": stage.status.value, "ended": stage.status in _ENDED}
            for stage in map(state.stage, stages)
        ]
        over = all(end["ended"] for end in ends)
        lines = [
            f"{id_} is {end['status']}" + ("" if end["ended"] else f"; {_why_open(state, id_)}")
            for id_, end in zip(stages, ends, strict=True)
        ]
        data = ends[0] if len(ends) == 1 else {"stages": ends, "ended": over}
        output.print_change(data, lambda: "\n".join(lines), state)
    if not over:
        raise SystemExit(1)


def _why_open(state: Workflow, id_: str) -> str:
    """Return the reason why the job of a stage has not ended.

    If the reason is unknown, return a sentence that states this.
    """
    stage = state.stage(id_)
    if stage.open_attempt is None:
        return "its job has not started"
    found = find_stage_hindrance(state, stage)
    return "wfctl does not know how the attempt ended" if found is None else found.why
