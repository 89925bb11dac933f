"""The error of a failed launch is DPDispatcher's original error, without its traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.attempt.paths import AttemptPaths
from reconciler.control.reconcile import build_stage_failure
from reconciler.verdict.diagnosis import diagnose

SAID = "paramiko.ssh_exception.SSHException: connection closed in the upload"
LOG = (
    "== now submit\nTraceback (most recent call last):\n"
    f'  File "ssh_context.py", line 900, in put\n    self.sftp.put(a, b)\n{SAID}\n\n'
    "During handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n"
    '  File "submit.py", line 1, in run\n    submission.run()\nRuntimeError: not submitted\n'
)


def refused(said: str) -> str:
    """Return a DPDispatcher log in which the scheduler refused a job with this message."""
    raised = f"RuntimeError: command cd '/w' && sbatch .sub fails to execute\nerror message:{said}"
    return (
        "== now submit\nTraceback (most recent call last):\n"
        f'  File "slurm.py", line 129, in do_submit\n    raise RuntimeError(\n{raised}\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "submission.py", line 691, in handle\n    raise RuntimeError(\n'
        f"RuntimeError: Failed.\nUnderlying job error: {raised.partition(': ')[2]}\n\n"
        "Debug information: submission_hash==c.\n"
    )


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "sbatch: unrecognized option '--tiem'\nTry \"sbatch --help\"",
            "sbatch: unrecognized option '--tiem'",
        ),
        ("Welcome.\nsbatch: error: invalid partition", "sbatch: error: invalid partition"),
        ("qsub: illegal -l value", "qsub: illegal -l value"),
    ],
)
def test_scheduler_message_is_the_cause_of_a_refused_submission(
    tmp_path: Path, said: str, cause: str
) -> None:
    """The diagnosis takes the scheduler's message, not the last traceback of the log."""
    attempt = AttemptPaths(tmp_path, "wf", "stage-1", "att-0001")
    attempt.folder.mkdir(parents=True)
    attempt.log.write_text(refused(said))
    found = diagnose(attempt, None, "REJECTED")
    assert (found.cause, found.category) == (cause, "scheduler")


@pytest.mark.parametrize("verdict", ["REJECTED", "NEVER_SUBMITTED"])
def test_first_error_of_an_upload_is_the_cause(tmp_path: Path, verdict: str) -> None:
    """The diagnosis names the first of several errors, for either verdict."""
    attempt = AttemptPaths(tmp_path, "wf", "stage-1", "att-0001")
    attempt.folder.mkdir(parents=True)
    attempt.log.write_text(LOG)
    failed = build_stage_failure(
        "stage-1", "att-0001", diagnose(attempt, None, verdict), "and so on"
    )
    assert failed.error == f"{SAID}; and so on"
    assert failed.output is not None
    assert SAID in failed.output
