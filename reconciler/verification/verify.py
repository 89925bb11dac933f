"""Verification: what stands between post_processing and completed."""

from __future__ import annotations

import os
import secrets
import subprocess
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import Any

from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.variables import environment
from projections.words.account import stale
from reconciler.attempt import execution_host
from reconciler.attempt.paths import RUN, AttemptPaths, of_recorded
from reconciler.context import Jobs
from reconciler.control.stopping import Claims, bound
from reconciler.files.described import check_launched, check_pinned, check_verdict
from reconciler.files.freshness import deviations
from reconciler.host.processes import began_with
from reconciler.records import traces
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from reconciler.submission.fields import places
from reconciler.verdict.diagnosis import in_words, of_checks
from reconciler.verification.numbers import numbers_of
from reconciler.verification.output_checks import check, scan
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Characters of a verify command's output that a check keeps.
_TAIL = 2_000
_LOOKED = " was looked through"


@dataclass(frozen=True, slots=True)
class Verification:
    """What the checks of a stage found."""

    checks: tuple[p.Check, ...]
    outputs: tuple[p.FileDigest, ...]
    judged: bool
    metrics: tuple[p.MeasuredNumber, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether anything was checked that could have failed: a log is only looked through."""
        return self.judged or any(not (check.name.endswith(_LOOKED)) for check in self.checks)

    @property
    def problems(self) -> str:
        """The checks that failed, in words; empty if all passed."""
        return "; ".join(in_words(check) for check in self.checks if not check.passed)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "passed": not self.problems,
            "judged": self.judged,
            "checks": [check.model_dump() for check in self.checks],
            "outputs": [digest.model_dump() for digest in self.outputs],
            "metrics": [one.model_dump(exclude_none=True) for one in self.metrics],
        }


def verify(jobs: Jobs, stage: Stage) -> Verification:
    """Check the stage's outputs, look through its logs, then run ``parameters.verify`` in the root.

    ``judged`` says whether the success criteria themselves were decided by a command, which is
    only asked where every check before it passed. What a log says of errors and warnings is
    reported and fails nothing.
    """
    attempt = _attempt(jobs, stage)
    # By the clock that the outputs have their times from, which need not be this machine's.
    since = None if attempt is None else traces.known_launch(attempt)
    found = []
    for path in stage.outputs:
        new = attempt is not None and bool(traces.is_new(attempt, path))
        found.append(check(jobs.root, path, since, new=new))
    numbered, numbers = numbers_of(jobs.root, jobs.service.state(), stage)
    checks = [*(check for checks, _ in found for check in checks), *numbered, *_logs(jobs, stage)]
    command = stage.parameters.get("verify")
    check_verdict(jobs, jobs.service.state(), stage)
    if command:
        check_pinned(jobs, jobs.service.state(), stage.id)
    if command and all(check.passed for check in checks):
        checks.append(_command(jobs, stage, str(command)))
    digests = tuple(digest for _, digest in found if digest is not None)
    return Verification(tuple(checks), digests, bool(command), tuple(numbers))


def verify_again(jobs: Jobs, state: Workflow, stage: Stage) -> Verification:
    """As `verify`; of a completed stage its results and inputs are compared with the log, whole."""
    found = verify(jobs, stage)
    if stage.status is not Status.COMPLETED:
        return found
    from reconciler.sweep.deviations import all_deviations  # only for a completed stage

    own = all_deviations(jobs.root, state, only=[stage.id])
    wrong = {(one.what, one.path): one.said for one in own}
    others = [one for one in deviations(jobs.root, state) if one.stage != stage.id]
    for why in stale(state, [*own, *others]).get(stage.id, []):
        if why not in wrong.values():
            wrong["what it rests on", why.partition(",")[0]] = why
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


def _attempt(jobs: Jobs, stage: Stage) -> AttemptPaths | None:
    newest = stage.attempt
    if newest is None or stage.reused is not None:
        return None  # outputs that are reused are older than any launch
    return of_recorded(jobs.root, "", stage.id, newest)


def _logs(jobs: Jobs, stage: Stage) -> list[p.Check]:
    """Return what the logs of the job say, and those among the outputs."""
    own = [f"{stage.id}/{name}" for name in (OUTPUT_LOG, ERROR_LOG)]
    paths = dict.fromkeys([*own, *(path for path in stage.outputs if path.endswith(".log"))])
    found = [(path, *scan(jobs.root / path)) for path in paths if (jobs.root / path).is_file()]
    return [
        p.Check(name=f"{path}{_LOOKED}", passed=True, detail=counts, findings=first)
        for path, counts, first in found
    ]


def _command(jobs: Jobs, stage: Stage, command: str) -> p.Check:
    """Run a command until its shell exits, and name the processes that it leaves at work."""
    run = secrets.token_hex(16)
    # To read from a pipe would wait for every process that has it open.
    with TemporaryFile() as output:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=jobs.root,
            env={
                **execution_host.environment_of(_attempt(jobs, stage), os.environ),
                **environment(stage.parameters),
                **places(jobs.root, stage.inputs),
                "WFCTL_STAGE": stage.id,
                RUN: run,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
        output.seek(0)
        said = output.read().decode(errors="replace").strip()[-_TAIL:]
    running = ", ".join(f"process {one.pid}" for one in began_with(f"{RUN}={run}"))
    detail = f"exit {done.returncode}" + (f"; still running: {running}" if running else "")
    detail += f": {said}" if said else ""
    return p.Check(name="verify", passed=done.returncode == 0, detail=detail)


def complete(
    jobs: Jobs,
    id_: str,
    evidence: str | None,
    options: WriteOptions,
    claims: Claims | None = None,
    *,
    or_fail: bool = False,
) -> Outcome:
    """Verify the stage and record it as completed; the rules refuse it where a check failed.

    ``claims`` says who may overrule the evidence that a job of it is at work; nobody without.
    ``or_fail``: where a check failed, the stage is recorded as failed with its checks.
    """
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    stage = jobs.service.state().stage(id_)
    if stage.status is not Status.POST_PROCESSING:
        # Nothing to be checked: let the rules say why it cannot be completed.
        return jobs.service.handle(p.StageCompleted(stage=id_), options=options)
    upheld = (claims or Claims(jobs)).over(id_)
    found = verify(jobs, stage)
    _needs_no_judge(stage, found, evidence)
    failed = or_fail and bool(found.problems)
    ended = _failed(stage, found) if failed else _completed(jobs, stage, found, evidence)
    if upheld is None:
        return jobs.service.handle(ended, options=options)
    return jobs.service.handle(upheld[0], ended, options=bound(options, upheld[1]))


def by_what(outcome: Outcome, id_: str) -> dict[str, str]:
    """Return the criteria by which a stage was just completed, and whether anything checked them.

    Empty where it has none, or is not completed by the outcome.
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
    files = f"; {len(checks)} checks of its files passed, which say nothing of the criteria"
    word = f"nothing checked them: they hold on the word of {done[0]['judged_by']}"
    return {"criteria": criteria, "checked": word + (files if checks else "")}


def settle(jobs: Jobs, stage: Stage) -> None:
    """Verify a stage in post_processing and record how it ended."""
    found = verify(jobs, stage)
    jobs.record(_failed(stage, found) if found.problems else completion(jobs, stage, found))


def completion(jobs: Jobs, stage: Stage, found: Verification) -> p.StageCompleted:
    """Return the command for a stage whose checks passed; raises `NeedsConsent` for a judge."""
    _needs_no_judge(stage, found, None)
    if not found.decides:
        command = f"wfctl stage complete {stage.id} --evidence TEXT"
        raise NeedsConsent(
            f"{stage.id}: it has no outputs, no parameters.verify and no success criteria, so "
            f"nothing shows that it is done; somebody must say so: `{command}`.",
            stage=stage.id,
        )
    return _completed(jobs, stage, found, None)


def _failed(stage: Stage, found: Verification) -> p.StageFailed:
    checks = list(found.checks)
    kind = of_checks(checks)
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
    )


def _completed(
    jobs: Jobs, stage: Stage, found: Verification, evidence: str | None
) -> p.StageCompleted:
    attempt, actor = stage.source, jobs.service.actor
    said = found.checks[-1].detail.removeprefix("exit 0").removeprefix(": ") if found.judged else ""
    last_line = said.splitlines()[-1] if said else ""
    ended = p.StageCompleted(
        stage=stage.id,
        attempt=attempt.id if attempt else None,
        detail=evidence or last_line or f"{len(found.checks)} checks passed",
        checks=list(found.checks) if evidence or found.decides else [],
        evidence=evidence,
        judged_by=f"{actor.kind}:{actor.name}" if evidence else None,
        outputs=list(found.outputs),
        metrics=list(found.metrics),
    )
    try:
        check_launched(jobs.root, jobs.service.state(), stage)
    except NeedsConsent as refusal:
        jobs.service.writer.record_refusal([ended], refusal)
        raise
    return ended


def _needs_no_judge(stage: Stage, found: Verification, evidence: str | None) -> None:
    if stage.success_criteria and not found.judged and not evidence and not found.problems:
        raise NeedsConsent(
            f"{stage.id}: its success criteria are prose ({stage.success_criteria!r:.200}) and it "
            f"has no parameters.verify; somebody must judge them: "
            f"`wfctl stage complete {stage.id} --evidence TEXT` or `wfctl stage fail {stage.id} "
            "--error TEXT`.",
            stage=stage.id,
        )
