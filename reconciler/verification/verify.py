"""Verify the outputs of a stage in post-processing, and record its completion or failure."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from tempfile import TemporaryFile
from typing import Any

from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.variables import command_variables, verify_variables
from projections.words.account import find_stale_stages
from reconciler.attempt import execution_host
from reconciler.attempt.paths import (
    ERROR_LOG,
    OUTPUT_LOG,
    RUN,
    AttemptPaths,
    recorded_attempt_paths,
)
from reconciler.context import JobContext
from reconciler.control.claims import ClaimChecker
from reconciler.control.stop_jobs import require_version
from reconciler.files.compiled_modules import hide_compiled_modules
from reconciler.files.described_submission import check_foreign_job_definition
from reconciler.files.freshness import find_deviations
from reconciler.files.script_consent import (
    check_plan_and_scripts_approved,
    check_verify_scripts_unchanged,
)
from reconciler.host.processes import find_processes_with
from reconciler.records import traces
from reconciler.submission.fields import build_path_variables
from reconciler.verdict.diagnosis import classify_failed_checks, format_failed_check
from reconciler.verification.numbers import measure_numbers
from reconciler.verification.output_checks import check_output
from reconciler.verification.scan_log import scan_log
from service.consent.check_files import (
    find_changed_check_files,
    find_loaded_files,
)
from service.root.folder_entries import is_file
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Maximum number of characters of a verify command's output that a check contains.
_MAX_OUTPUT_LENGTH = 2_000
_SCANNED = " was looked through"


@dataclass(frozen=True, slots=True)
class Verification:
    """The results of verifying a stage: checks, digests of the outputs, and metrics.

    ``judged`` states whether the stage has a command that decides its success criteria.
    """

    checks: tuple[p.Check, ...]
    outputs: tuple[p.FileDigest, ...]
    judged: bool
    metrics: tuple[p.MeasuredNumber, ...] = ()
    #: Files of the verification that have changed since the attempt started, by path.
    check_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_decisive_check(self) -> bool:
        """Return whether at least one check could have failed.

        The scan of a log never fails.
        """
        return self.judged or any(not (check.name.endswith(_SCANNED)) for check in self.checks)

    @property
    def problems(self) -> str:
        """The messages of all failed checks, or an empty string if every check passed."""
        return "; ".join(format_failed_check(check) for check in self.checks if not check.passed)

    def to_dict(self) -> dict[str, Any]:
        """Return the verification as plain JSON values."""
        return {
            "passed": not self.problems,
            "judged": self.judged,
            "checks": [check.model_dump() for check in self.checks],
            "outputs": [digest.model_dump() for digest in self.outputs],
            "metrics": [one.model_dump(exclude_none=True) for one in self.metrics],
        }


def verify_stage(jobs: JobContext, stage: Stage) -> Verification:
    """Check the outputs of a stage, scan its logs, and run its verify command.

    The command ``parameters.verify`` runs in the root, and only if all other checks passed. Errors
    and warnings in a log are reported, but do not fail a check.
    """
    attempt = _find_launched_attempt(jobs, stage)
    # The launch time comes from the clock of the file system, which may differ from the clock of
    # this machine.
    since = None if attempt is None else traces.read_valid_launch_time(attempt)
    found = []
    for path in stage.outputs:
        new = attempt is not None and bool(traces.is_output_new(attempt, path))
        found.append(check_output(jobs.root, path, since, new=new))
    numbered, numbers = measure_numbers(jobs.root, jobs.service.state(), stage)
    checks = [
        *(check for checks, _ in found for check in checks),
        *numbered,
        *_scan_logs(jobs, stage),
    ]
    command = stage.parameters.get("verify")
    check_verify_scripts_unchanged(jobs, jobs.service.state(), stage)
    if command:
        check_plan_and_scripts_approved(jobs, jobs.service.state(), stage.id)
    changed = dict[str, str]()
    if command and all(check.passed for check in checks):
        changed = _find_changed_check_files(jobs, stage)
        checks.append(_run_command(jobs, stage, str(command)))
    digests = tuple(digest for _, digest in found if digest is not None)
    return Verification(tuple(checks), digests, bool(command), tuple(numbers), changed)


def _find_changed_check_files(jobs: JobContext, stage: Stage) -> dict[str, str]:
    """Return the files of the verify command that have changed since the attempt started."""
    source = stage.source
    if source is None or source.beside is None:
        return {}
    recorded = {**source.beside, **source.scripts}
    return find_changed_check_files(jobs.root, jobs.service.state(), stage, recorded)


def verify_again(jobs: JobContext, state: Workflow, stage: Stage) -> Verification:
    """Verify a stage again, and return the results without recording them.

    For a completed stage, its results and inputs are also compared with the log.
    """
    found = verify_stage(jobs, stage)
    if stage.status is not Status.COMPLETED:
        return found
    from reconciler.sweep.deviations import find_all_deviations  # needed only for a completed stage

    own = find_all_deviations(jobs.root, state, only=[stage.id])
    wrong = {(one.what, one.path): one.said for one in own}
    others = [one for one in find_deviations(jobs.root, state) if one.stage != stage.id]
    for why in find_stale_stages(state, [*own, *others]).get(stage.id, []):
        if why not in wrong.values():
            wrong["dependency", why.partition(",")[0]] = why
    known = [("result", one["path"]) for one in stage.results]
    known += [key for key in wrong if key not in known]
    compared = [
        p.Check(
            name=f"{what} {path}",
            passed=(what, path) not in wrong,
            detail=wrong.get((what, path), "as recorded"),
        )
        for what, path in known
    ]
    return replace(found, checks=(*found.checks, *compared))


def _find_launched_attempt(jobs: JobContext, stage: Stage) -> AttemptPaths | None:
    newest = stage.attempt
    if newest is None or stage.reused is not None:
        return None  # reused outputs are older than any launch
    return recorded_attempt_paths(jobs.root, "", stage.id, newest)


def _scan_logs(jobs: JobContext, stage: Stage) -> list[p.Check]:
    """Return a check for each log of the stage's job and for each output that is a log.

    These checks never fail.
    """
    own = [f"{stage.id}/{name}" for name in (OUTPUT_LOG, ERROR_LOG)]
    paths = dict.fromkeys([*own, *(path for path in stage.outputs if path.endswith(".log"))])
    found = [(path, *scan_log(jobs.root / path)) for path in paths if is_file(jobs.root / path)]
    return [
        p.Check(name=f"{path}{_SCANNED}", passed=True, detail=counts, findings=first)
        for path, counts, first in found
    ]


def _run_command(jobs: JobContext, stage: Stage, command: str) -> p.Check:
    """Run a verify command, and return a check of its exit code.

    Waits until the shell of the command exits. The check names processes that are still running.
    """
    run = secrets.token_hex(16)
    modules = find_loaded_files(jobs.root, jobs.service.state(), stage)
    # The output goes to a file. Reading from a pipe would wait for every process that the command
    # left running.
    with TemporaryFile() as output, hide_compiled_modules(jobs.root, modules) as variables:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=jobs.root,
            env={
                **execution_host.build_job_environment(
                    _find_launched_attempt(jobs, stage), os.environ
                ),
                **command_variables(stage.work),
                **verify_variables(stage.work),
                **build_path_variables(jobs.root, stage.inputs),
                **variables,
                "WFCTL_STAGE": stage.id,
                RUN: run,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        output.seek(0)
        said = output.read().decode(errors="replace").strip()[-_MAX_OUTPUT_LENGTH:]
    running = ", ".join(f"process {one.pid}" for one in find_processes_with(f"{RUN}={run}"))
    detail = f"exit {done.returncode}" + (f"; still running: {running}" if running else "")
    detail += f": {said}" if said else ""
    return p.Check(name="verify", passed=done.returncode == 0, detail=detail)


def complete_stage(
    jobs: JobContext,
    id_: str,
    evidence: str | None,
    options: WriteOptions,
    claims: ClaimChecker | None = None,
    *,
    or_fail: bool = False,
) -> Outcome:
    """Verify a stage, and record its completion.

    If a check failed, the completion is refused. With ``or_fail``, the stage is recorded as failed
    instead. ``claims`` lets a person overrule evidence that a job still runs. Without it, such
    evidence is an error.
    """
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    stage = jobs.service.state().stage(id_)
    if stage.status is not Status.POST_PROCESSING:
        # A stage in another status has nothing to verify. The rules refuse the command and report
        # the reason.
        return jobs.service.handle(p.StageCompleted(stage=id_), options=options)
    upheld = (claims or ClaimChecker(jobs)).check_job_ended_claim(id_)
    found = verify_stage(jobs, stage)
    _check_is_decidable(stage, found, evidence)
    failed = or_fail and bool(found.problems)
    ended = (
        _build_failure(stage, found) if failed else _build_completed(jobs, stage, found, evidence)
    )
    if upheld is None:
        return jobs.service.handle(ended, options=options)
    return jobs.service.handle(upheld[0], ended, options=require_version(options, upheld[1]))


def describe_success_criteria(outcome: Outcome, id_: str) -> dict[str, str]:
    """Return the success criteria of a just completed stage, and the check of them.

    The dict states which check covered the criteria, or that none did. It is empty if the stage has
    no criteria or was not completed by ``outcome``.
    """
    events = [(event.type, event.data) for event in outcome.events]
    planned = [(payload.type, payload.model_dump(mode="json")) for payload, _ in outcome.planned]
    ended = [data for type_, data in events or planned if type_ == p.StageCompleted.type]
    done = [data for data in ended if data["stage"] == id_]
    criteria = outcome.state.stage(id_).success_criteria
    if not criteria or not done:
        return {}
    checks = done[0]["checks"]
    verified = next((one for one in checks if one["name"] == "verify"), None)
    if verified is not None:
        return {"criteria": criteria, "checked": f"by parameters.verify, {verified['detail']}"}
    files = f"; {len(checks)} checks of its files passed, but they do not test the criteria"
    word = f"no check tested the criteria; {done[0]['judged_by']} states that they are met"
    return {"criteria": criteria, "checked": word + (files if checks else "")}


def verify_and_record_stage(jobs: JobContext, stage: Stage) -> None:
    """Verify a stage in post-processing, and record its completion or failure."""
    found = verify_stage(jobs, stage)
    jobs.record(
        _build_failure(stage, found) if found.problems else build_completion(jobs, stage, found)
    )


def build_completion(jobs: JobContext, stage: Stage, found: Verification) -> p.StageCompleted:
    """Build the command that records the completion of a stage whose checks passed.

    Raises `NeedsConsent` if a person or an agent must decide whether the stage is done.
    """
    _check_is_decidable(stage, found, None)
    if not found.has_decisive_check:
        command = f"wfctl stage complete {stage.id} --evidence TEXT"
        raise NeedsConsent(
            f"wfctl cannot decide whether the stage {stage.id} is done, because it has no "
            "outputs, no parameters.verify and no success criteria. If the stage is done, run "
            f"`{command}`.",
            stage=stage.id,
        )
    return _build_completed(jobs, stage, found, None)


def _build_failure(stage: Stage, found: Verification) -> p.StageFailed:
    checks = list(found.checks)
    kind = classify_failed_checks(checks)
    told = "\n".join(check.detail for check in checks if not check.passed)
    whole = list(found.outputs) if len(found.outputs) == len(stage.outputs) else []
    return p.StageFailed(
        stage=stage.id,
        error=f"verification failed: {found.problems}",
        checks=checks,
        outputs=whole,
        metrics=list(found.metrics) if whole else [],
        category=kind.category,
        because=kind.because,
        output=told if "\n" in told else None,
        check_files=dict(found.check_files),
    )


def _build_completed(
    jobs: JobContext, stage: Stage, found: Verification, evidence: str | None
) -> p.StageCompleted:
    attempt, actor = stage.source, jobs.service.actor
    said = found.checks[-1].detail.removeprefix("exit 0").removeprefix(": ") if found.judged else ""
    last_line = said.splitlines()[-1] if said else ""
    ended = p.StageCompleted(
        stage=stage.id,
        attempt=attempt.id if attempt else None,
        detail=evidence or last_line or f"{len(found.checks)} checks passed",
        checks=list(found.checks) if evidence or found.has_decisive_check else [],
        evidence=evidence,
        judged_by=f"{actor.kind}:{actor.name}" if evidence else None,
        outputs=list(found.outputs),
        metrics=list(found.metrics),
        check_files=dict(found.check_files),
    )
    try:
        check_foreign_job_definition(jobs.root, jobs.service.state(), stage)
    except NeedsConsent as refusal:
        jobs.service.writer.record_refusal([ended], refusal)
        raise
    return ended


def _check_is_decidable(stage: Stage, found: Verification, evidence: str | None) -> None:
    if stage.success_criteria and not found.judged and not evidence and not found.problems:
        raise NeedsConsent(
            f"wfctl cannot check the success criteria of the stage {stage.id}, because they are "
            f"text ({stage.success_criteria!r:.200}) and the stage has no parameters.verify. "
            f"Check the criteria yourself, then run `wfctl stage complete {stage.id} --evidence "
            f"TEXT` or `wfctl stage fail {stage.id} --error TEXT`.",
            stage=stage.id,
        )
