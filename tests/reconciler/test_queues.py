"""Cancel jobs of PBS, Torque, SGE and LSF, with scripts that imitate these schedulers.

The output of the scripts follows the manuals: long lines are broken, and the home folder is
shortened.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import AttemptPaths
from reconciler.control.stop_jobs import stop_attempt

#: Fake scheduler commands. A job is a file in the folder $JOBS; the file contains the job's folder.
PBS = {
    "qselect": "ls $JOBS",
    "qstat": (
        'f=$(cat $JOBS/$2) || exit 153; echo "Job Id: $2"; echo "    job_state = R"; '
        'printf "    Variable_List = PBS_O_HOME=/root,\\n\\tPBS_O_WORKDIR=%s\\n\\t%s,PBS_O_Q=q\\n"'
        ' "${f:0:20}" "${f:20}"'
    ),
    "qdel": "rm $JOBS/$1",
}
SGE = {
    "qstat": (
        'if [ "$1" = -j ]; then echo "job_number: $2"; echo "sge_o_workdir:    $(cat $JOBS/$2)"; '
        'else ls $JOBS | sed "1i job-ID prior name user\\n-----" ; fi'
    ),
    "qdel": "rm $JOBS/$1",
}
LSF = {
    "bjobs": (
        'if [ "$1" = -l ]; then f=$(cat $JOBS/$2); f=${f/#$HOME/'
        "'$HOME'"
        '}; printf "Job <%s>, CWD <%s\\n                     %s>, 1 Task\\n" '
        '"$2" "${f:0:15}" "${f:15}"; '
        'elif [ -n "$(ls $JOBS)" ]; then echo "JOBID USER STAT"; ls $JOBS; '
        'else echo "No unfinished job found" >&2; exit 255; fi'
    ),
    "bkill": "rm $JOBS/$1",
}
KINDS = {"PBS": PBS, "Torque": PBS, "SGE": SGE, "LSF": LSF}


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AttemptPaths:
    """Create the folders of an attempt below the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = AttemptPaths(tmp_path / "a root", "w", "stage-1", "att-0001")
    (made.work / "hash").mkdir(parents=True)
    return made


def installed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the commands of a scheduler on the PATH, and return the folder of its jobs."""
    tools, jobs = tmp_path / "tools", tmp_path / "jobs"
    tools.mkdir()
    jobs.mkdir()
    for name, script in KINDS[kind].items():
        (tools / name).write_text(f"#!/bin/bash\n{script}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("JOBS", str(jobs))
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    return jobs


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_queued_job_is_cancelled_by_its_folder(
    attempt: AttemptPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """wfctl cancels the job in the attempt's folder, but no job in a folder `…-2`."""
    jobs = installed(kind, tmp_path, monkeypatch)
    attempt.machine_record.write_text(
        ExecutionHost(kind, "LocalContext", str(attempt.work)).to_text()
    )
    (jobs / "12").write_text(str(attempt.work / "hash"))
    (jobs / "13").write_text(f"{attempt.work}-2/hash")
    assert stop_attempt(attempt).ended == ("job 12",)
    assert [job.name for job in jobs.iterdir()] == ["13"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_failing_scheduler_leaves_the_job_open(
    attempt: AttemptPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """If the scheduler commands fail, the answer lists the job as not ended."""
    installed(kind, tmp_path, monkeypatch)
    for name in KINDS[kind]:
        (tmp_path / "tools" / name).write_text("#!/bin/sh\nexit 1\n")
    attempt.machine_record.write_text(
        ExecutionHost(kind, "LocalContext", str(attempt.work)).to_text()
    )
    assert stop_attempt(attempt).left == ("a job that the scheduler does not report",)
