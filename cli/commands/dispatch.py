"""``wfctl dispatch``: start the job of one stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.frame.context import Context
from cli.frame.options import FirstTasks, Stage, Writes, option
from cli.frame.workspace import convert_signals_to_exit, require_work_tree_of_root
from cli.frame.write_command import run_action_and_print_outcome
from lifecycle.state.conditions import is_ready_with_earlier_results
from lifecycle.sweeps.definition import is_sweep
from service.errors import InvalidOption

if TYPE_CHECKING:
    from reconciler.context import JobContext
    from service.writing.workflow_service import Outcome


def dispatch(
    context: Context,
    options: Writes,
    stage: Stage,
    sync: bool = option("Run the job in the foreground and wait until the job ends."),
    first: FirstTasks = None,
) -> None:
    """Start the job of one stage.

    wfctl submits the job with the program DPDispatcher. If only the checks of the stage changed
    since its last run, wfctl repeats the checks and starts no job.
    """
    from reconciler.control.dispatch import dispatch_stage as launch
    from reconciler.control.reconcile import dispatch_sync
    from service.files.plan_file_record import find_edited_plan_file

    require_work_tree_of_root(context)

    def act(jobs: JobContext) -> Outcome:
        for item in find_edited_plan_file(jobs.service.root):
            jobs.say(str(item), level="warning")
        if first is not None and not is_sweep(jobs.service.state().stage(stage).parameters):
            raise InvalidOption(
                f"the option --first is for sweeps, but the stage {stage} is not a sweep, because "
                "it has no parameters.map. Run the command again without --first.",
                stage=stage,
            )
        outcome: Outcome | None = None
        if is_ready_with_earlier_results(jobs.service.state().stage(stage)):
            from reconciler.verification.reuse import (
                reuse_if_configured,
            )  # of no use if nothing was computed

            outcome = reuse_if_configured(jobs, stage, sync=sync, options=options)
        if outcome is None and sync:
            return dispatch_sync(jobs, stage, options, first_tasks=first)
        return outcome or launch(jobs, stage, sync=False, options=options, first_tasks=first)

    with convert_signals_to_exit():  # so that a stopped command erases the progress bars
        run_action_and_print_outcome(context, options, act)
