"""A launch that failed tells why by what DPDispatcher raised, and not by where."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.attempt.paths import AttemptPaths
from reconciler.control.reconcile import stage_failure
from reconciler.verdict.diagnosis import diagnose

SAID = "paramiko.ssh_exception.SSHException: connection closed in the upload"
LOG = (
    "== now submit\nTraceback (most recent call last):\n"
    f'  File "ssh_context.py", line 900, in put\n    self.sftp.put(a, b)\n{SAID}\n\n'
    "During handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n"
    '  File "submit.py", line 1, in run\n    submission.run()\nRuntimeError: not submitted\n'
)


@pytest.mark.parametrize("verdict", ["REJECTED", "NEVER_SUBMITTED"])
def test_the_first_error_of_an_upload_is_the_cause(tmp_path: Path, verdict: str) -> None:
    """Whether or not the verdict calls it refused: nothing else was written."""
    attempt = AttemptPaths(tmp_path, "wf", "stage-1", "att-0001")
    attempt.folder.mkdir(parents=True)
    attempt.log.write_text(LOG)
    failed = stage_failure("stage-1", "att-0001", diagnose(attempt, None, verdict), "and so on")
    assert failed.error == f"{SAID}; and so on"
    assert failed.output is not None
    assert SAID in failed.output
