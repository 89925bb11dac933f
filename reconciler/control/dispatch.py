"""Launch attempts. An attempt is one run of a stage's job.

The submission of an attempt is fixed and recorded before any process starts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.rules.stages import require_agreed_plan
from lifecycle.state.conditions import list_needed_files
from lifecycle.state.requested_resources import compute_next_request
from lifecycle.state.run_files import map_commands_to_folders
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.attempt import execution_host
from reconciler.attempt.file_digests import digest_stage_inputs, digests
from reconciler.attempt.markers import move_file_aside, move_stale_files_aside
from reconciler.attempt.paths import ATTEMPTS, PREPARED, AttemptPaths
from reconciler.context import JobContext, Mode, SubmissionFacts
from reconciler.control.judge_attempts import (
    build_start_command,
    check_unlogged_attempts,
    record_unlogged_job,
)
from reconciler.control.recomputation import warn_of_recomputation
from reconciler.control.rounds import archive_previous_round
from reconciler.control.stop_jobs import stop_attempt_before_rerun, stop_marked_attempts
from reconciler.errors import AlreadyMonitored, LinkedStageFolder, UnusablePath
from reconciler.files import carried_files
from reconciler.files.attempt_inputs import find_attempt_inputs
from reconciler.files.compiled_modules import remove_compiled_modules
from reconciler.files.described_submission import build_attempt_submission, get_stage_submission
from reconciler.files.freshness import check_inputs_unchanged, check_upstream_results
from reconciler.files.kept_folder import move_stage_to_kept_folder
from reconciler.files.protected import record_protected_files
from reconciler.files.script_consent import check_plan_and_scripts_approved
from reconciler.host import processes, tmux_sessions
from reconciler.records.traces import list_forwarded_files
from reconciler.submission.build import (
    build_diagnostic,
    write_diagnostic,
)
from reconciler.submission.compare_submission import check_submission_unchanged
from reconciler.submission.transferred_files import list_read_results
from reconciler.sweep.stage_tasks import get_stage_tasks
from service.consent.scripts import find_importable_modules, find_scripts_to_approve
from service.root.paths_within_root import OutsideRoot, resolve_below
from service.writing.stream_writer import WriteOptions
from service.writing.undecided_edits import check_no_undecided_edits
from service.writing.workflow_service import Outcome
from wording import TemplatedError

#: Seconds to wait after a launch until the ids of the submitted jobs are known.
_FACTS_TIMEOUT = 20.0


class NoDiagnosticRun(TemplatedError, Refused):
    """A diagnostic run was requested for a sweep, which has none.

    The output of each task of a sweep is already kept.
    """

    code = "no_diagnostic_run"
    text = (
        "the stage {stage} is a sweep, so it has no diagnostic run, because the output of each "
        "task is already kept. To list the failed tasks, run `wfctl tasks {stage} --failed`. To "
        "show the output of one task, run `wfctl logs {stage} --task KEY`."
    )
    stage: str


def dispatch_stage(
    jobs: JobContext,
    id_: str,
    *,
    sync: bool,
    options: WriteOptions,
    diagnostic: bool = False,
    first_tasks: int | None = None,
) -> Outcome:
    """Launch an attempt of the stage, and return the outcome of recording it.

    With ``sync``, the caller waits for the end of the attempt. A ``diagnostic`` attempt of a failed
    stage counts as a retry, downloads only the log and err files, and always ends as failed. In a
    sweep, ``first_tasks`` tasks must succeed before the others start, even if the plan does not
    require this.

    No process starts before the event `attempt.started` is recorded, so that no attempt is lost
    after a crash. Raises the error of a violated rule, or an error of the job runner.
    """
    state = jobs.service.state()
    stage = state.stage(id_)
    for path in stage.outputs:
        # Outputs that already exist are moved aside later, so their paths must be inside the root.
        try:
            resolve_below(jobs.root, str(PurePosixPath(path)))
        except OutsideRoot as error:
            folder = jobs.root / id_
            if folder.is_symlink():
                raise LinkedStageFolder(id_, str(folder.readlink())) from error
            raise UnusablePath(id_, "outputs", path, "a path below the root") from error
    if diagnostic and is_sweep(stage.parameters):
        raise NoDiagnosticRun(id_)
    mode = Mode.SYNC if sync else Mode.TMUX
    if not sync and not tmux_sessions.is_installed(os.environ):
        jobs.say(processes.MISSING)
        mode = Mode.SETSID
    content = {"dispatch": id_, "sync": sync} | ({"diagnostic": True} if diagnostic else {})
    content |= {} if first_tasks is None else {"first": first_tasks}
    options = options._replace(content=content)
    warn_of_recomputation(jobs, state, stage)
    if options.dry_run:
        asked = _build_provisional_start(jobs, state, stage, mode, diagnostic)
        outcome = jobs.service.handle(asked, options=options)
        check_upstream_results(jobs.root, state, stage)
        _check_preparation(jobs, state, stage, diagnostic)
        return outcome
    check_no_undecided_edits(jobs.service, id_)
    stop_marked_attempts(jobs)
    with jobs.lock_stage(id_):
        return _start_next_attempt(jobs, id_, mode, options, diagnostic, first_tasks)


def _start_next_attempt(
    jobs: JobContext,
    id_: str,
    mode: Mode,
    options: WriteOptions,
    diagnostic: bool,
    first_tasks: int | None,
) -> Outcome:
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    state = jobs.service.state()
    stage = state.stage(id_)
    if at_work := record_unlogged_job(jobs, state, stage, options):
        return at_work
    asked = _build_provisional_start(jobs, state, stage, mode, diagnostic)
    jobs.service.rehearse(asked)
    stop_attempt_before_rerun(jobs, stage)
    check_files_before_start(jobs, state, stage)
    state = get_stage_tasks(jobs.root, state, stage).close_ended(lambda one: jobs.record(one).state)
    stage = state.stage(id_)
    kept = move_old_outputs_aside(jobs, state, stage)
    attempt = plan_next_attempt(jobs, state, stage, diagnostic)
    try:
        command = prepare_attempt(
            jobs, state, stage, attempt, mode, diagnostic=diagnostic, first_tasks=first_tasks
        )
    except NeedsConsent as refusal:
        jobs.service.writer.record_refusal([asked], refusal)
        raise
    outcome = jobs.service.handle(command, options=options)
    jobs.tell(outcome)
    if kept:
        jobs.record(p.NoteLogged(stage=id_, text=f"outputs kept as {stage.keep_as}"))
    recorded = replace(attempt, sha256=command.submission_sha256)
    check_submission_unchanged(recorded)
    launch_attempt(jobs, stage, recorded, mode)
    return outcome


def check_files_before_start(
    jobs: JobContext, state: Workflow, stage: Stage, *, again: bool = False
) -> None:
    """Raise an error if no job of the stage may start now. Write nothing.

    With ``again``, the job replaces the newest attempt and must read the same files as that
    attempt. Raises `NeedsConsent` while the plan waits for its approval, `ChangedResult`,
    `InputsChanged` or `UnloggedAttemptRunning`.
    """
    require_agreed_plan(state, f"{stage.id} is not dispatched", stage.id)
    check_upstream_results(jobs.root, state, stage)
    if again:
        check_inputs_unchanged(jobs.root, state, stage)
    check_unlogged_attempts(jobs, state, stage)


def move_old_outputs_aside(jobs: JobContext, state: Workflow, stage: Stage) -> bool:
    """Move outputs aside that an amendment made outdated, before new outputs replace them.

    Returns whether a folder with kept outputs exists that is not recorded in the log yet.
    """
    names = stage.parameters.get("forward_files") or []
    read = [*stage.inputs, *(f"{stage.id}/{name}" for name in names)]
    left = [p for p in stage.left_in_place if not any(fnmatchcase(p, name) for name in read)]
    left += stage.outputs
    if stage.keeps_tasks:
        from reconciler.sweep import tasks

        kept = tasks.archive_removed_tasks(jobs.root, state, stage)
    else:
        left += stage.work.task_folders
        kept = stage.keep_as is not None and move_stage_to_kept_folder(
            jobs.root, stage.id, stage.keep_as, left
        )
    archive_previous_round(jobs.root, state, stage, left)
    prepared = f"{stage.id}/{PREPARED}"
    anew = stage.regenerate and stage.parameters.get("command")
    previous = stage.attempt.name if stage.attempt else None
    if anew and move_file_aside(jobs.root, stage.id, prepared, previous):
        jobs.say(
            f"{prepared} was built from earlier parameters, so wfctl builds a new one",
            stage=stage.id,
        )
    return kept


def plan_next_attempt(
    jobs: JobContext, state: Workflow, stage: Stage, diagnostic: bool
) -> AttemptPaths:
    """Return the paths of the files of the stage's next attempt. Nothing is created."""
    return jobs.attempt(state, stage, f"att-{len(stage.attempts) + 1:04d}", diagnostic=diagnostic)


def _build_provisional_start(
    jobs: JobContext, state: Workflow, stage: Stage, mode: Mode, diagnostic: bool
) -> p.AttemptStarted:
    """Build the command that records a start, before the attempt is prepared.

    The command contains only the values that are known already. It is used to check whether the
    rules allow the start.
    """
    attempt = plan_next_attempt(jobs, state, stage, diagnostic)
    # A mandate (permission given in advance) is valid only for the agreed scripts, so the rules
    # need their digests.
    scripts = find_scripts_to_approve(jobs.root, state, stage) if state.mandates_for(stage) else {}
    known: dict[str, Any] = {"diagnostic": diagnostic, "scripts": scripts}
    return build_start_command(attempt, mode, submission_sha256="0" * 64, **known)


def prepare_attempt(
    jobs: JobContext,
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    mode: Mode,
    recovers: str | None = None,
    diagnostic: bool = False,
    first_tasks: int | None = None,
) -> p.AttemptStarted:
    """Prepare an attempt: write and check its submission.

    Returns the command that records the start of the attempt. The command contains the digests of
    the stage's inputs, of the outputs of its dependencies and of all other files that the
    submission sends. Raises MissingInput or EmptyInput if an input or an output of a dependency is
    missing or empty.
    """
    check_plan_and_scripts_approved(jobs, state, stage.id)
    needed = list_needed_files(state, stage)
    inputs = digest_stage_inputs(jobs.root, needed)
    given = get_stage_submission(jobs.root, state, stage)
    carried = None if diagnostic else carried_files.find_files_to_carry(jobs, stage)
    if diagnostic:
        given = write_diagnostic(attempt, given)
    given = build_attempt_submission(jobs.root, state, stage, given)
    try:
        tasks = get_stage_tasks(jobs.root, state, stage)
        given, count = tasks.assign(attempt, given, inputs, recovers, first_tasks)
        if carried is not None:
            given = carried_files.add_carried_files(given, attempt, carried)
        # The points were read already, so the modules that the tasks can import are known and can
        # be recorded.
        modules = find_importable_modules(jobs.root, state, stage)
        remove_compiled_modules(jobs.root, modules)
        sha256 = jobs.runner.prepare(attempt, given)
        if execution_host.load_execution_host(attempt).is_far:
            record_protected_files(jobs.root, state, stage, attempt)
    except BaseException:
        # Only this process has written into these folders, so they can be removed. The carried
        # files still exist under their other names.
        for folder in (attempt.tasks, attempt.carried):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    digested = {*needed, *list_read_results(given, attempt)}
    sent = digests(jobs.root, _list_other_sent_files(attempt, digested))
    known = {**find_attempt_inputs(jobs.root, state, stage, [*inputs, *sent]), "recovers": recovers}
    known |= {"diagnostic": diagnostic, "tasks": count, "beside": modules}
    known |= {"requested": compute_next_request(state, stage)}
    if not execution_host.load_execution_host(attempt).is_far:
        known["environment"] = execution_host.select_loggable_environment(attempt)
        known |= execution_host.digests_of_variables(attempt, os.environ)
        known |= _find_programs(attempt, stage)
    if carried is not None:
        known |= {"carried": list(carried.files), "carried_from": carried.source}
    return build_start_command(attempt, mode, submission_sha256=sha256, **known)


def _list_other_sent_files(attempt: AttemptPaths, digested: Collection[str]) -> list[str]:
    """Return the files that an attempt sends to its job, except those already ``digested``."""
    own = f"{attempt.stage}/{ATTEMPTS}/"
    sent = list_forwarded_files(attempt)
    return [path for path in sent if path not in digested and not path.startswith(own)]


def _find_programs(attempt: AttemptPaths, stage: Stage) -> dict[str, Any]:
    """Return the programs that the commands of a stage start, the main program separately."""
    first, *texts = (stage.parameters.get(name) for name in map_commands_to_folders(stage))
    own = execution_host.find_programs_of(attempt, [first], os.environ)
    found = execution_host.find_programs_of(attempt, [first, *texts], os.environ)
    program = own[0] if own else None
    return {"program": program, "programs": [one for one in found if one != program]}


def _check_preparation(jobs: JobContext, state: Workflow, stage: Stage, diagnostic: bool) -> None:
    """Raise the errors that preparing an attempt would raise, without writing anything."""
    check_plan_and_scripts_approved(jobs, state, stage.id)
    digest_stage_inputs(jobs.root, list_needed_files(state, stage))
    get_stage_tasks(jobs.root, state, stage).check_points()
    given = get_stage_submission(jobs.root, state, stage, anew=stage.regenerate)
    attempt = plan_next_attempt(jobs, state, stage, diagnostic)
    jobs.runner.check(attempt, build_diagnostic(given) if diagnostic else given)


def launch_attempt(
    jobs: JobContext, stage: Stage, attempt: AttemptPaths, mode: Mode, *, known: bool = False
) -> None:
    """Start a monitor (the process that watches jobs) for an attempt, and record it.

    Moves the outputs of earlier attempts aside, except files that the attempt reads. With
    ``known``, the log already contains the launch, and a new record is written only if jobs were
    submitted.
    """
    read = set(list_forwarded_files(attempt))
    tables = stage.work.tables
    left = [path for path in stage.left_in_place if path not in read]
    earlier = [one.name for one in stage.attempts if one.id != attempt.id]
    # A table that grows in each round stays in place, because the new table contains the rows of
    # the earlier rounds.
    outputs = [] if tables and stage.attempts and stage.attempts[-1].round > 1 else stage.outputs
    paths = list(dict.fromkeys([*outputs, *(tables if outputs else ()), *left]))
    move_stale_files_aside(jobs.root, stage.id, paths, earlier[-1] if earlier else None)
    mode, facts, waited = attach_monitor(jobs, attempt, mode), jobs.runner.facts(attempt), 0.0
    while not facts.job_ids and waited < _FACTS_TIMEOUT:
        over = jobs.runner.wait(attempt, timeout=0.1)
        facts, waited = jobs.runner.facts(attempt), _FACTS_TIMEOUT if over else waited + 0.1
    # If the monitor of a recorded launch died before it submitted jobs, it launched nothing. Record
    # nothing, because the reconciler will launch the attempt again.
    if facts.job_ids or not (known or jobs.runner.wait(attempt, timeout=0)):
        jobs.record(build_launch_command(attempt, mode, facts))


def attach_monitor(jobs: JobContext, attempt: AttemptPaths, mode: Mode) -> Mode:
    """Start a monitor for an attempt, or use the running one, and return its mode."""
    # Even if the caller waits, the monitor runs detached, so that it survives the end of the
    # caller. The stage is not locked while the job runs.
    detached = Mode.SETSID if mode is Mode.SYNC else mode
    try:
        launched = jobs.runner.launch(attempt, detached)
    except AlreadyMonitored:
        return mode
    if launched.note:
        jobs.say(launched.note, stage=attempt.stage, attempt=attempt.id)
    return mode if launched.mode is detached else launched.mode


def build_launch_command(
    attempt: AttemptPaths, mode: Mode, facts: SubmissionFacts
) -> p.StageLaunched:
    """Build the command that records the launch of an attempt."""
    return p.StageLaunched(
        stage=attempt.stage,
        attempt=attempt.id,
        mode=mode.value,
        session=attempt.session if mode is Mode.TMUX else None,
        **{name: value for name, value in facts.to_dict().items() if name != "job_hashes"},
    )
