"""The scripts of an attempt use the file names and exit codes of the Python code."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

import pytest

from reconciler.attempt import paths
from reconciler.attempt.paths import AttemptPaths, JobRecordSuffix, ScriptEnd

RECONCILER = Path(paths.__file__).parents[1]
SCRIPTS = [
    *sorted(RECONCILER.rglob("*.sh")),
    RECONCILER / "dpdispatcher" / "wrapper.py",
    RECONCILER / "submission" / "job_guard.py",
]
#: Pattern of the expressions with which the scripts name a record of a job; its group is the
#: suffix.
RECORDS = r'(?:\$wfctl_job|\$base|job-\*|\$\{job%\.started\}|"\$job")"?\.([a-z]+)'
#: Suffixes of files that belong to DPDispatcher or mktemp and are no job records.
OTHERS = frozenset({"sub"})
_PATHS = AttemptPaths(Path("/"), "w", "s", "att-0001")
NAMES = {value for name, value in vars(paths).items() if name.isupper()} | {
    getattr(_PATHS, name).name
    for name, found in vars(AttemptPaths).items()
    if isinstance(found, cached_property)
}


def told(text: str) -> set[str]:
    """Return the suffixes of all job records that a script reads or writes."""
    return {f".{found}" for found in re.findall(RECORDS, text) if found not in OTHERS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_use_only_known_job_records(script: Path) -> None:
    """Every record of a job that a script names is also defined in the Python code."""
    assert told(script.read_text("utf-8")) <= {one.value for one in JobRecordSuffix}


def test_scripts_use_the_job_records() -> None:
    """The search pattern of the other test finds nearly every kind of job record."""
    found = set().union(*(told(script.read_text("utf-8")) for script in SCRIPTS))
    assert len(found) >= len(JobRecordSuffix) - 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_use_only_known_exit_codes(script: Path) -> None:
    """Every exit code of 64 or more in a script is defined in ScriptEnd."""
    codes = {int(code) for code in re.findall(r"\bexit (\d+)", script.read_text("utf-8"))}
    assert {code for code in codes if code >= 64} <= {int(code) for code in ScriptEnd}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_use_the_file_names_of_the_contract(script: Path) -> None:
    """Each file of an attempt or a stage that a script names is defined in Python."""
    text = script.read_text("utf-8")
    found = re.findall(r'\$\$?(?:attempt|stage)/([A-Za-z.][\w.-]*)"', text)
    assert set(found) - {"dpdispatcher.log"} <= NAMES
