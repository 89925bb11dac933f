"""A stage starts no job while an attempt that is not in the log may still be running."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from reconciler.attempt.paths import AttemptPaths
from reconciler.control import judge_attempts
from reconciler.control.judge_attempts import UnloggedAttemptRunning, check_unlogged_attempts
from reconciler.host.processes import FolderProcess
from reconciler.verdict.table import Situation, derive_verdict
from tests.reconciler.support import JOB, submitted

if TYPE_CHECKING:
    from lifecycle.state.workflow import Stage, Workflow
    from reconciler.context import JobContext


def test_no_job_starts_while_an_unlogged_process_runs_in_a_deleted_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log and the scratch copy of the attempt are lost, but its process still runs."""
    process = FolderProcess(77, 5, "/w/stage-1/.attempts/att-0001/work", deleted=True)
    evidence = submitted(JOB, tenants=(process,))
    found = evidence, derive_verdict(evidence)
    unlogged = AttemptPaths(tmp_path, "wf", "stage-1", "att-0001", mark="7f")
    monkeypatch.setattr(judge_attempts, "_find_unlogged_attempts", lambda *_: iter([unlogged]))
    monkeypatch.setattr(judge_attempts, "_inspect_unlogged_attempt", lambda *_: found)
    stage = cast("Stage", SimpleNamespace(id="stage-1"))
    assert found[1].name is Situation.ORPHAN_DIR_DELETED
    with pytest.raises(UnloggedAttemptRunning, match="process 77"):
        check_unlogged_attempts(cast("JobContext", None), cast("Workflow", None), stage)
