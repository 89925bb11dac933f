"""The launch contract: scripts in bash use the names and exit codes that stand in it."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

import pytest

from reconciler.attempt import paths
from reconciler.attempt.paths import AttemptPaths, OfJob, ScriptEnd

RECONCILER = Path(paths.__file__).parents[1]
SCRIPTS = [
    *sorted(RECONCILER.rglob("*.sh")),
    RECONCILER / "dpdispatcher" / "wrapper.py",
    RECONCILER / "submission" / "build.py",
]
#: What bash calls the records of one job, before the suffix that says which of them it is.
RECORDS = r'(?:\$wfctl_job|\$base|job-\*|\$\{job%\.started\}|"\$job")"?\.([a-z]+)'
#: What DPDispatcher and mktemp give names to.
OTHERS = frozenset({"sub"})
_PATHS = AttemptPaths(Path("/"), "w", "s", "att-0001")
NAMES = {value for name, value in vars(paths).items() if name.isupper()} | {
    getattr(_PATHS, name).name
    for name, found in vars(AttemptPaths).items()
    if isinstance(found, cached_property)
}


def told(text: str) -> set[str]:
    """Return the suffixes of the records of jobs that a script reads or writes."""
    return {f".{found}" for found in re.findall(RECORDS, text) if found not in OTHERS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_knows_no_record_of_a_job_that_the_contract_does_not_name(script: Path) -> None:
    """What one side writes under a name of its own, the other side would never find."""
    assert told(script.read_text("utf-8")) <= {one.value for one in OfJob}


def test_the_scripts_use_the_records_of_jobs() -> None:
    """Without this the test before would hold where the pattern finds nothing."""
    found = set().union(*(told(script.read_text("utf-8")) for script in SCRIPTS))
    assert len(found) >= len(OfJob) - 1


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_ends_with_exit_codes_of_the_contract(script: Path) -> None:
    """Codes from 64 on are ours: what reads them looks them up by name."""
    codes = {int(code) for code in re.findall(r"\bexit (\d+)", script.read_text("utf-8"))}
    assert {code for code in codes if code >= 64} <= {int(code) for code in ScriptEnd}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_names_the_files_of_an_attempt_as_the_contract_does(script: Path) -> None:
    """Each name in the folder of an attempt or a stage that a script spells out."""
    text = script.read_text("utf-8")
    found = re.findall(r'\$\$?(?:attempt|stage)/([A-Za-z.][\w.-]*)"', text)
    assert set(found) - {"dpdispatcher.log"} <= NAMES
