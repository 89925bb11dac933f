"""``wfctl rerun``: run completed stages again, or compute them once more to check their numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cli.commands.amend import MAX_REASON_LENGTH, ask_to_approve_proposal
from cli.commands.tasks import list_metric_rows
from cli.frame.consent import consenter_of
from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import AgreeingKey, Text, Texts, Writes, argument, option
from cli.frame.workspace import open_for_reading, open_for_writing, open_job_runner
from cli.terminal.output import print_message
from lifecycle.payload import models as p
from lifecycle.state.conditions import downstream
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import find_stale_stages
from reconciler.files.freshness import find_deviations
from service.errors import InvalidOption
from service.root.root import Root, read_config
from service.writing.stream_writer import WriteOptions

#: Statuses of stages that have started: a result exists, or a computation has run or still runs.
_BEGUN = ACTIVE | {Status.COMPLETED, Status.FAILED}


def rerun(
    context: Context,
    options: Writes,
    stages: Texts = argument("STAGE...", "The ids of the completed stages to run again."),
    from_: Texts = option(
        "--from", "STAGE", "Rerun this stage and all stages that depend on this stage."
    ),
    from_here: bool = option("Also rerun all stages that depend on the given stages."),
    reason: Text = option(
        "TEXT",
        "Record in the log why the stages run again. Default: the changed file that "
        "made them out of date.",
    ),
    check: bool = option(
        "Keep the results, compute the stages once more beside them, and compare the numbers."
    ),
    key: AgreeingKey = None,
) -> None:
    """Run completed stages again.

    wfctl first shows which stages and results change. A person then approves the rerun. With
    --check, no result changes and no approval is needed.
    """
    if check:
        _check_numbers(context, stages or [], options)
        return
    with open_job_runner(context, options.dry_run) as (jobs, output):
        state = jobs.service.state()
        consenter = consenter_of(state.consent, jobs.service.actor, key, None)
        named = _select_stages_to_rerun(state, stages or [], from_ or [], from_here)
        command = p.AmendmentProposed(
            kind="stage_rerun",
            stage=named[0],
            also=named[1:],
            description=f"rerun {', '.join(named)}",
            reason=reason or _build_rerun_reason(jobs.service.root, state, named),
        )
        proposed = jobs.service.handle(command, options=options)
        ask_to_approve_proposal(jobs, output, proposed, consenter, options)


def _select_stages_to_rerun(
    state: Workflow, alone: list[str], roots: list[str], all_roots: bool
) -> list[str]:
    """Return the ids of the stages to run again, in the plan's order.

    These are the named stages, and the started stages that depend on ``roots``. With ``all_roots``,
    started stages that depend on any named stage are included as well. Raises `InvalidOption` if no
    stage is named.
    """
    if not (alone or roots):
        raise InvalidOption(
            "no stage was given. Name a STAGE, or give --from STAGE to include the stages that "
            "depend on it."
        )
    given = {state.stage(id_).id for id_ in (*alone, *roots)}
    graph = {id_: stage.depends_on for id_, stage in state.stages.items()}
    below = downstream(graph, given if all_roots else set(roots))
    given |= {id_ for id_ in below if state.stages[id_].status in _BEGUN}
    return [id_ for id_ in state.stages if id_ in given]


def _build_rerun_reason(root: Root, state: Workflow, named: list[str]) -> str:
    """Return a message with the reasons why the named stages must run again.

    A stage must run again if its inputs or results have changed. If no stage is out of date, the
    reason is the archive from which the workflow was restored. Raises `InvalidOption` if there is
    no reason.
    """
    reasons = find_stale_stages(state, find_deviations(root.path, state))
    why = [f"{id_}: {', '.join(reasons[id_])}" for id_ in named if id_ in reasons]
    archive = read_config(root).archive
    if archive is not None:
        why = why or [f"computed again from {archive}"]
    if not why:
        raise InvalidOption(
            f"nothing has changed since the last run of {', '.join(named)}. To run these stages "
            "again anyway, give a reason with --reason TEXT."
        )
    return "; ".join(why)[:MAX_REASON_LENGTH]


#: Maximum number of numbers that are listed although they agree.
_MAX_LINES = 20


def _check_numbers(context: Context, names: list[str], options: WriteOptions) -> None:
    """Compute completed stages once more, print how their numbers compare, and record this.

    Exit with code 7 if a number does not agree. With a dry run, print what would be computed.
    """
    from reconciler.verification.recompute import list_stages_to_compute, prepare_check, run_check

    if not names:
        raise InvalidOption("no stage was given. Name the STAGE to compute once more.")
    with open_for_reading(context) as workflow:
        output, state = workflow.output, workflow.state()
        stages = [state.stage(name) for name in names]
        if options.dry_run:
            every = {one.id for stage in stages for one in list_stages_to_compute(state, stage)}
            planned = [id_ for id_ in state.stages if id_ in every]
            words = f"would compute {', '.join(planned)} once more, in .wfctl/checks"
            output.result({"stages": planned}, lambda: words, state=state)
            return
        folders = [prepare_check(workflow.root.path, state, stage) for stage in stages]
        first = [list_metric_rows(workflow, name) for name in names]
    checks = []
    for stage, folder, rows in zip(stages, folders, first, strict=True):
        others = [one.id for one in list_stages_to_compute(state, stage) if one.id != stage.id]
        first_others = f", after {' and '.join(others)}, whose points it uses" if others else ""
        print_message(f"computing {stage.id} once more in {folder}{first_others}")
        checks.append(_compare_computations(stage, folder, rows, completed=run_check(folder)))
    with open_for_writing(context, dry_run=False) as (service, output):
        note = p.NoteLogged(text="; ".join(check["text"] for check in checks))
        outcome = service.handle(note, options=options)
        _remove_agreeing_checks(checks)
        output.result(
            {"checks": checks},
            lambda: "\n".join(line for check in checks for line in _format_check(check)),
            state=outcome.state,
        )
    if any(check["differ"] for check in checks):
        raise SystemExit(FINDINGS)


def _remove_agreeing_checks(checks: list[dict[str, Any]]) -> None:
    """Delete the folder of each check whose numbers all agree, and set its path to None.

    A person needs the other folders to find the cause of a difference. If a folder cannot be
    deleted, print a message.
    """
    from reconciler.verification.recompute import remove_check

    agreeing = [check for check in checks if not check["differ"] and not check["unknown"]]
    for folder in {check["folder"] for check in agreeing}:
        try:
            remove_check(Path(folder))
        except OSError as error:
            print_message(f"the folder {folder} of the check cannot be deleted: {error.strerror}")
            agreeing = [check for check in agreeing if check["folder"] != folder]
    for check in agreeing:
        check["folder"] = None


def _compare_computations(
    stage: Stage, folder: Path, rows: list[dict[str, Any]], *, completed: bool
) -> dict[str, Any]:
    """Return the comparison of a stage's numbers with those in the folder of its check."""
    from reconciler.verification.recompute import compare_rows, read_check_rows

    found = compare_rows(stage, rows, read_check_rows(folder, stage.id)) if completed else []
    counts = Counter(
        "agree" if one.agrees else "unknown" if one.agrees is None else "differ" for one in found
    )
    text = f"{stage.id} was computed once more: " + (
        f"{counts['agree']} of {len(found)} numbers agree"
        if completed
        else f"the second computation failed or did not finish. For the cause, run `wfctl --root "
        f"{folder} status`"
    )
    if counts["unknown"]:
        text += f", and {counts['unknown']} without an error differ"
    return {
        "stage": stage.id,
        "folder": str(folder),
        "agree": counts["agree"],
        "differ": counts["differ"] + (not completed),
        "unknown": counts["unknown"],
        "numbers": [{**one._asdict(), "text": one.describe()} for one in found],
        "text": text,
    }


def _format_check(check: dict[str, Any]) -> list[str]:
    """Return the lines that describe a check. Of many numbers, list only those in doubt."""
    numbers = check["numbers"]
    shown = [one for one in numbers if len(numbers) <= _MAX_LINES or not one["agrees"]]
    return [check["text"], *(f"  {one['text']}" for one in shown)]
