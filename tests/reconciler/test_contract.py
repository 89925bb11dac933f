"""The launch contract: bash scripts use the file names and exit codes of the Python code."""

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
    RECONCILER / "submission" / "build.py",
]
#: How the scripts name the record of a job, before the suffix of the record.
RECORDS = r'(?:\$wfctl_job|\$base|job-\*|\$\{job%\.started\}|"\$job")"?\.([a-z]+)'
#: Suffixes of files that DPDispatcher and mktemp create.
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
    """A record under an unknown name would never be read."""
    assert told(script.read_text("utf-8")) <= {one.value for one in JobRecordSuffix}


def test_scripts_use_the_job_records() -> None:
    """This test ensures that the search pattern of the previous test finds records."""
    found = set().union(*(told(script.read_text("utf-8")) for script in SCRIPTS))
    assert len(found) >= len(JobRecordSuffix) - 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_use_only_known_exit_codes(script: Path) -> None:
    """Exit codes from 64 on must be defined in ScriptEnd."""
    codes = {int(code) for code in re.findall(r"\bexit (\d+)", script.read_text("utf-8"))}
    assert {code for code in codes if code >= 64} <= {int(code) for code in ScriptEnd}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_use_the_file_names_of_the_contract(script: Path) -> None:
    """Each file of an attempt or a stage that a script names is defined in Python."""
    text = script.read_text("utf-8")
    found = re.findall(r'\$\$?(?:attempt|stage)/([A-Za-z.][\w.-]*)"', text)
    assert set(found) - {"dpdispatcher.log"} <= NAMES
