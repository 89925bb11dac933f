"""A change of an input that computes finished tasks again is announced before they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.sweeps.support import begun, lines, sweep

FIXED = "import os\nopen('ok', 'w').write(os.environ['WFCTL_PARAM_T'])\n"
BROKEN = f"import os\nif os.environ['WFCTL_PARAM_T'] == '6':\n    raise SystemExit(3)\n{FIXED}"
WARNING = "run.py changed since att-0001 started: 5 finished tasks are computed again ("


@pytest.fixture
def failed(tmp_path: Path) -> Place:
    """Return a sweep of six tasks, one of which failed by an error of its script."""
    grid = {"grid": {"T": [1, 2, 3, 4, 5, 6]}}
    stage = sweep(tmp_path / "trace", grid, "python3 ../../../run.py", task_retries=0)
    place = begun(tmp_path, {**stage, "inputs": ["run.py"]})
    (place.path / "run.py").write_text(BROKEN)
    assert place.call("run").code == 6
    assert len(lines(tmp_path / "trace")) == 5
    (place.path / "run.py").write_text(FIXED)
    return place


@pytest.mark.slow
def test_a_fixed_script_is_announced_with_the_tasks_that_it_computes_again(
    failed: Place, tmp_path: Path
) -> None:
    """By each command that leads to the attempt, with the time that the tasks took."""
    fixed = ("stage", "retry", "stage-1", "--fix", "The script.")
    assert WARNING in failed.call(*fixed, "--dry-run").err
    assert WARNING in failed.call(*fixed).err
    assert WARNING in failed.call("dispatch", "stage-1", "--dry-run").err
    assert WARNING in failed.call("run", "--dry-run").out
    assert WARNING in failed.done("run", "--dry-run")["computed_again"][0]
    assert WARNING in failed.call("run").err
    assert len(lines(tmp_path / "trace")) == 11


@pytest.mark.slow
def test_an_unchanged_script_computes_only_the_failed_task_and_announces_nothing(
    failed: Place, tmp_path: Path
) -> None:
    """The finished tasks count on."""
    (failed.path / "run.py").write_text(BROKEN)
    answer = failed.call("stage", "retry", "stage-1", "--fix", "Nothing.")
    assert "computed again" not in answer.err
    assert failed.call("run").code == 6
    assert len(lines(tmp_path / "trace")) == 5
