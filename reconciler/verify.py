"""Verification: what stands between post_processing and completed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from lifecycle import payload as p
from lifecycle.errors import NeedsConsent
from lifecycle.payload import Check, FileDigest
from lifecycle.status import Status
from lifecycle.workflow import Stage
from reconciler.errors import EmptyInput, MissingInput
from reconciler.jobs import Jobs
from reconciler.markers import check_inputs
from reconciler.parameters import environment
from service.service import Outcome, WriteOptions

#: Characters of a verify command's output that a check keeps.
_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class Verification:
    """What the checks of a stage found."""

    checks: tuple[Check, ...]
    outputs: tuple[FileDigest, ...]
    judged: bool

    @property
    def problems(self) -> str:
        """The checks that failed, in words; empty where all passed."""
        return "; ".join(f"{c.name}: {c.detail}" for c in self.checks if not c.passed)


def verify(jobs: Jobs, stage: Stage) -> Verification:
    """Check the stage's outputs, then run ``parameters.verify`` in the root.

    ``judged`` says whether the success criteria themselves were decided by a command.
    """
    checks: list[Check] = []
    digests: list[FileDigest] = []
    for path in stage.outputs:
        check, digest = _output(jobs, path)
        checks.append(check)
        digests += [digest] if digest is not None else []
    command = stage.parameters.get("verify")
    if command and all(check.passed for check in checks):
        checks.append(_command(jobs, stage, str(command)))
    return Verification(tuple(checks), tuple(digests), bool(command))


def _output(jobs: Jobs, path: str) -> tuple[Check, FileDigest | None]:
    name = f"output {path}"
    try:
        (found,) = check_inputs(jobs.root, [path])
    except MissingInput:
        return Check(name=name, passed=False, detail="it is missing"), None
    except EmptyInput:
        return Check(name=name, passed=False, detail="it is empty"), None
    digest = FileDigest(path=path, size=found.size, sha256=found.sha256)
    return Check(name=name, passed=True, detail=f"{found.size} bytes"), digest


def _command(jobs: Jobs, stage: Stage, command: str) -> Check:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=jobs.root,
        env={**os.environ, **environment(stage.parameters), "WFCTL_STAGE": stage.id},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    said = done.stdout.strip()[-_TAIL:]
    detail = f"exit {done.returncode}" + (f": {said}" if said else "")
    return Check(name="verify", passed=done.returncode == 0, detail=detail)


def complete(jobs: Jobs, id_: str, evidence: str | None, options: WriteOptions) -> Outcome:
    """Verify the stage and record it as completed; the rules refuse it where a check failed."""
    stage = jobs.service.state().stage(id_)
    if stage.status is not Status.POST_PROCESSING:
        # Nothing to be checked: let the rules say why it cannot be completed.
        return jobs.service.handle(p.StageCompleted(stage=id_), options=options)
    found = verify(jobs, stage)
    _needs_no_judge(stage, found, evidence)
    return jobs.service.handle(_completed(jobs, stage, found, evidence), options=options)


def settle(jobs: Jobs, stage: Stage) -> None:
    """Verify a stage in post_processing and record how it ended."""
    found = verify(jobs, stage)
    if found.problems:
        error = f"verification failed: {found.problems}"
        checks = list(found.checks)
        jobs.record(p.StageFailed(stage=stage.id, error=error, checks=checks))
        return
    _needs_no_judge(stage, found, None)
    jobs.record(_completed(jobs, stage, found, None))


def _completed(
    jobs: Jobs, stage: Stage, found: Verification, evidence: str | None
) -> p.StageCompleted:
    attempt = stage.attempt
    actor = jobs.service.actor
    return p.StageCompleted(
        stage=stage.id,
        attempt=attempt.id if attempt else None,
        detail=evidence or _summary(stage, found),
        checks=list(found.checks),
        evidence=evidence,
        judged_by=f"{actor.kind}:{actor.name}" if evidence else None,
        outputs=list(found.outputs),
    )


def _summary(stage: Stage, found: Verification) -> str:
    said = found.checks[-1].detail.removeprefix("exit 0").removeprefix(": ") if found.judged else ""
    last_line = said.splitlines()[-1] if said else ""
    return last_line or f"{len(found.checks)} checks passed"


def _needs_no_judge(stage: Stage, found: Verification, evidence: str | None) -> None:
    if stage.success_criteria and not found.judged and not evidence and not found.problems:
        raise NeedsConsent(
            f"{stage.id}: its success criteria are prose ({stage.success_criteria!r:.200}) and it "
            f"has no parameters.verify; somebody must judge them: "
            f'`wfctl stage complete {stage.id} --evidence "…"` or `wfctl stage fail {stage.id} '
            '--error "…"`.',
            stage=stage.id,
        )
