"""A stage starts no job while an attempt that is not in the log may still be running."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from reconciler.attempt.execution_host import ExecutionHost, load_execution_host
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
    assert found[1].name is Situation.ORPHAN_DIR_DELETED
    with pytest.raises(UnloggedAttemptRunning, match="process 77"):
        check_unlogged_attempts(*in_root(tmp_path))


def in_root(root: Path) -> tuple[JobContext, Workflow, Stage]:
    """Return a root, its workflow and its only stage, which has no attempt in the log."""
    stage = SimpleNamespace(id="stage-1", attempts=[], declared_outputs=[])
    jobs, state = SimpleNamespace(root=root), SimpleNamespace(id="wf")
    return cast("JobContext", jobs), cast("Workflow", state), cast("Stage", stage)


def test_attempt_without_folder_is_found_by_the_claim_of_its_job(tmp_path: Path) -> None:
    """A folder for claims without a claim, or of another stage, shows no attempt."""
    for name in ("stage-1.att-0001-7f/job-a.started", "stage-1.att-0002-80", "stage-1.b.att-0001"):
        (tmp_path / ".wfctl/starts" / name).mkdir(parents=True)
    found = judge_attempts._find_attempts_without_folder(*in_root(tmp_path))
    assert [one.name for one in found] == ["att-0001-7f"]


@pytest.mark.parametrize("context", ["LocalContext", "SSHContext"])
def test_attempt_without_folder_has_the_machine_of_its_submission(
    tmp_path: Path, context: str
) -> None:
    """The copy of the machine next to the log names the folder in which the jobs work."""
    where = ExecutionHost("Slurm", context, "/far/wf/stage-1/att-0001-7f")
    copies = tmp_path / ".wfctl/submissions"
    copies.mkdir(parents=True)
    (copies / "ab.machine.json").write_text(where.to_text())
    (tmp_path / ".wfctl/starts/stage-1.att-0001-7f/job-a.started").mkdir(parents=True)
    [found] = judge_attempts._find_attempts_without_folder(*in_root(tmp_path))
    assert (found.sha256, load_execution_host(found)) == ("ab", where)
