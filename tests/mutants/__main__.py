"""Change the rules and the table of verdicts one place at a time: ``python -m tests.mutants``.

cosmic-ray makes each mutant, such as ``and`` instead of ``or``, and runs the tests that execute the
changed line. A mutant that no test notices survives. survivors.toml explains why some may survive.
The exit code is 1 if more than 5 % of all mutants survive without an explanation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.cli.support import HERE

#: Environment variable with the path of the recorded coverage.
COVERAGE = "WFCTL_MUTANTS_COVERAGE"
FOLDER = HERE / "build" / "mutants"
EXPLAINED = Path(__file__).with_name("survivors.toml")
#: Files that are mutated. Each file has a clone, in which cosmic-ray works.
FILES = (*sorted(HERE.glob("lifecycle/rules/[a-z]*.py")), HERE / "reconciler/verdict/table.py")
#: Tests whose coverage is recorded.
TESTED = (
    "tests/lifecycle tests/exploration tests/service tests/adoption tests/adversary tests/advice "
    "tests/amendments tests/drift tests/growth tests/projections tests/sweeps"
)
#: Longest duration of the tests of one mutant, in seconds.
_PATIENCE = 600
#: Share of mutants that may survive without an explanation.
_TOLERATED = 0.05
#: Comparisons that are exchanged: each with its opposite, and orders with each other.
_EXCHANGED = "Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is|In_NotIn|NotIn_In|[LG]tE?_[LG]tE?"
#: Mutations that are left out, such as those of operators in type hints and between sets.
_LEFT_OUT = [
    "core/ReplaceBinaryOperator_(?!Add_Sub|Sub_Add).*",
    f"core/ReplaceComparisonOperator_(?!({_EXCHANGED})$).*",
    "core/ReplaceUnaryOperator_(?!Delete_Not).*",
]
_CONFIGURATION = """\
[cosmic-ray]
module-path = {path}
timeout = {patience}
excluded-modules = []
test-command = "python -m tests.mutants.covering"
[cosmic-ray.distributor]
name = "local"
[cosmic-ray.filters.operators-filter]
exclude-operators = {left_out}
"""
_COVERAGE = """\
[run]
dynamic_context = test_function
data_file = {file}
include = */lifecycle/rules/*
"""


class Mutant(NamedTuple):
    """A mutant: its file, the changed line before and after, and what became of it.

    ``outcome`` is `killed`, `survived`, `timeout`, or `incompetent` if its tests could not run.
    """

    file: str
    before: str
    after: str
    outcome: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what identifies the mutant in survivors.toml."""
        return self.file, self.before, self.after


def record_coverage(file: Path) -> None:
    """Record which tests execute each line that is mutated."""
    settings = FOLDER / "coverage.ini"
    settings.write_text(_COVERAGE.format(file=file))
    run = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q"]
    subprocess.run([*run, "-p", "tests.mutants.mutated", *TESTED.split()], cwd=HERE, check=True)


def run_mutants(file: Path, coverage: Path) -> list[Mutant]:
    """Test all mutants of a file in a clone of the last commit."""
    clone, session = FOLDER / file.stem, str(FOLDER / f"{file.stem}.sqlite")
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", HERE, clone], check=True)
    settings = FOLDER / f"{file.stem}.toml"
    settings.write_text(
        _CONFIGURATION.format(
            path=json.dumps(str(file.relative_to(HERE))),
            patience=_PATIENCE,
            left_out=json.dumps(_LEFT_OUT),
        )
    )
    _call(clone, coverage, "cosmic-ray", "init", str(settings), session)
    _call(clone, coverage, "cr-filter-operators", session, str(settings))
    _call(clone, coverage, "cosmic-ray", "exec", str(settings), session)
    return list(read_mutants(_call(clone, coverage, "cosmic-ray", "dump", session)))


def _call(clone: Path, coverage: Path, program: str, *arguments: str) -> str:
    """Run a program of cosmic-ray in a clone; return its output."""
    programs = Path(sys.executable).parent
    environ = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        COVERAGE: str(coverage),
    }
    return subprocess.run(
        [programs / program, *arguments],
        cwd=clone,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def read_mutants(dump: str) -> Iterator[Mutant]:
    """Yield the mutants that cosmic-ray has tested, from its dump of a session."""
    for line in dump.splitlines():
        item, result = json.loads(line)
        if result is None or result["worker_outcome"] == "skipped":
            continue
        file = item["mutations"][0]["module_path"]
        before, after = _find_change(result["diff"] or "")
        outcome = "timeout" if result["output"] == "timeout" else result["test_outcome"]
        yield Mutant(file, before, after, outcome or result["worker_outcome"])


def _find_change(diff: str) -> tuple[str, str]:
    """Return the first changed line before and after the change, without indentation."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    return tuple(  # type: ignore[return-value]
        next((line[1:].strip() for line in lines if line.startswith(sign)), "") for sign in "-+"
    )


def read_explained() -> dict[tuple[str, str, str], str]:
    """Return the mutants that may survive, each with the reason."""
    groups = tomllib.loads(EXPLAINED.read_text())["group"]
    return {
        (file, before, after): group["reason"]
        for group in groups
        for file in group["files"]
        for before, after in group["mutants"]
    }


def print_report(mutants: Sequence[Mutant]) -> int:
    """Print the score and the unexplained survivors; return an exit code."""
    explained = read_explained()
    survivors = [one for one in mutants if one.outcome not in ("killed", "timeout")]
    unexplained = [one for one in survivors if one.key not in explained]
    for one in unexplained:
        print(f"{one.file}: {one.outcome}\n- {one.before}\n+ {one.after}")
    counts = Counter(one.outcome for one in mutants)
    print(f"{len(mutants)} mutants: {dict(counts)}, {len(unexplained)} survive unexplained")
    return int(len(unexplained) > _TOLERATED * len(mutants))


def main() -> int:
    """Test all mutants and print the score; return an exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    coverage = FOLDER / "coverage.sqlite"
    record_coverage(coverage)
    # Many tests wait for jobs, so two mutants keep a core busy.
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as threads:
        tested = threads.map(lambda file: run_mutants(file, coverage), FILES)
        return print_report([mutant for mutants in tested for mutant in mutants])


if __name__ == "__main__":
    sys.exit(main())
