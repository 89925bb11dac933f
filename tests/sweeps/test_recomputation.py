"""wfctl announces when a changed input will make finished tasks run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, agree, write_plan
from tests.cli.terminal import agreed_to
from tests.sweeps.looped import amended, give, plan
from tests.sweeps.support import begun, lines, sweep

FIXED = "import os\nopen('ok', 'w').write(os.environ['WFCTL_PARAM_T'])\n"
BROKEN = f"import os\nif os.environ['WFCTL_PARAM_T'] == '6':\n    raise SystemExit(3)\n{FIXED}"
CAUSE = "run.py changed since att-0001 started: "
WARNING = f"{CAUSE}6 tasks to compute, because 5 finished tasks are computed again (about "
FIX = ("stage", "retry", "stage-1", "--fix", "The script.")


@pytest.fixture
def failed(tmp_path: Path) -> Place:
    """Return a sweep of six tasks, one of which failed; its script is then corrected."""
    return _failed(begun(tmp_path, _stage(tmp_path)), tmp_path)


def _stage(tmp_path: Path) -> dict[str, Any]:
    grid = {"grid": {"T": [1, 2, 3, 4, 5, 6]}}
    stage = sweep(tmp_path / "trace", grid, "python3 ../../../run.py", task_retries=0)
    return {**stage, "inputs": ["run.py"]}


def _failed(place: Place, tmp_path: Path) -> Place:
    (place.path / "run.py").write_text(BROKEN)
    assert place.call("run").code == 6
    assert len(lines(tmp_path / "trace")) == 5
    (place.path / "run.py").write_text(FIXED)
    return place


@pytest.mark.long
@pytest.mark.slow
def test_fixed_script_announces_tasks_to_recompute(failed: Place, tmp_path: Path) -> None:
    """`stage retry`, `dispatch` and `run` print the number of these tasks and their time."""
    assert WARNING in failed.call(*FIX, "--dry-run").err
    assert WARNING in failed.call(*FIX).err
    assert WARNING in failed.call("dispatch", "stage-1", "--dry-run").err
    assert WARNING in failed.call("run", "--dry-run").out
    assert WARNING in failed.done("run", "--dry-run")["computed_again"][0]
    assert WARNING in failed.call("run").err
    assert len(lines(tmp_path / "trace")) == 11


@pytest.mark.long
@pytest.mark.slow
def test_unchanged_script_recomputes_only_the_failed_task(failed: Place, tmp_path: Path) -> None:
    """wfctl keeps the finished tasks and prints no warning."""
    (failed.path / "run.py").write_text(BROKEN)
    answer = failed.call("stage", "retry", "stage-1", "--fix", "Nothing.")
    assert "computed again" not in answer.err
    assert failed.call("run").code == 6
    assert len(lines(tmp_path / "trace")) == 5


@pytest.mark.long
@pytest.mark.slow
def test_failed_only_keeps_finished_tasks_of_a_fixed_script(failed: Place, tmp_path: Path) -> None:
    """With `--failed-only`, only the failed task runs, and the report states this."""
    question = (
        f"{CAUSE}5 finished tasks kept as computed before the change, 1 task to compute (about "
    )
    assert "stage retry stage-1 --fix TEXT --failed-only" in failed.call("status").out
    assert question in failed.call(*FIX, "--failed-only", "--dry-run").err
    assert "kept_tasks" not in failed.call("log", "-o", "json").out
    answer = failed.call("--actor", "user:ann", *FIX, "--failed-only")
    assert answer.code == 0, answer.err
    assert "computed again" not in failed.call("dispatch", "stage-1", "--dry-run").err
    assert failed.call("run").code == 0
    assert len(lines(tmp_path / "trace")) == 6
    kept = "tasks finished by att-0001 were kept although their inputs changed"
    assert kept in failed.call("show", "stage-1").out
    report = failed.call("report").out
    assert kept in report
    assert "finished tasks kept although their inputs changed: user:ann" in report


@pytest.mark.long
@pytest.mark.slow
def test_decision_to_keep_tasks_applies_to_later_retries(failed: Place, tmp_path: Path) -> None:
    """The kept tasks stay valid until the script changes again."""
    (failed.path / "run.py").write_text(f"# Not fixed.\n{BROKEN}")
    failed.done(*FIX, "--failed-only")
    assert failed.call("run").code == 6
    failed.done("stage", "retry", "stage-1", "--fix", "Nothing.")
    assert failed.call("run").code == 6
    assert len(lines(tmp_path / "trace")) == 5
    (failed.path / "run.py").write_text(FIXED)
    assert (
        "5 finished tasks are computed again"
        in failed.call("run", "--dry-run").out + failed.call(*FIX).err
    )
    assert failed.call("run").code == 0
    assert len(lines(tmp_path / "trace")) == 11


@pytest.mark.slow
def test_decision_is_hidden_when_no_kept_task_is_left(failed: Place, tmp_path: Path) -> None:
    """After all tasks were recomputed, `show` and the report list only a newer decision."""
    kept = "tasks finished by att-000{} were kept although their inputs changed"
    (failed.path / "run.py").write_text(f"# Not fixed.\n{BROKEN}")
    failed.done(*FIX, "--failed-only")
    assert failed.call("run").code == 6
    assert kept.format(1) in failed.call("show", "stage-1").out
    (failed.path / "run.py").write_text(f"# Not fixed either.\n{BROKEN}")
    failed.done(*FIX)
    assert failed.call("run").code == 6
    assert len(lines(tmp_path / "trace")) == 10
    assert kept.format(1) not in failed.call("show", "stage-1").out
    (failed.path / "run.py").write_text(FIXED)
    failed.done(*FIX, "--failed-only")
    assert failed.call("run").code == 0
    assert len(lines(tmp_path / "trace")) == 11
    for command in (("show", "stage-1"), ("report",)):
        said = failed.call(*command).out
        assert kept.format(1) not in said
        assert kept.format(3) in said


@pytest.mark.slow
def test_only_a_person_can_keep_finished_tasks(tmp_path: Path) -> None:
    """Under the policy `terminal`, wfctl refuses this consent by an agent or `append`."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = {"workflow_id": "sweep-2026-11-23", "purpose": "Many.", "stages": [_stage(tmp_path)]}
    place.json("init", str(write_plan(tmp_path, plan)), "--consent", "terminal")
    agree(place.path)
    _failed(place, tmp_path)
    agent = ("--actor", "agent:helper")
    answer = place.json(*FIX, "--failed-only", *agent)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    data = '{"fix": "f", "failed_only": true, "proof": {"policy": "terminal"}}'
    answer = place.json("append", "stage.retried", "--stage", "stage-1", "--data", data, *agent)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    agreed_to(place.path, *FIX, "--failed-only")
    assert place.call("run").code == 0
    assert len(lines(tmp_path / "trace")) == 6
    assert "unagreed" not in place.call("audit", "bypasses").out


@pytest.mark.long
def test_failed_only_is_refused_for_a_stage_without_a_map(tmp_path: Path) -> None:
    """`--failed-only` applies only to sweeps, because other stages have no tasks."""
    place = begun(tmp_path, {"id": "stage-1", "name": "One", "parameters": {"command": "false"}})
    assert place.call("run").code == 6
    refused = place.call(*FIX, "--failed-only")
    assert refused.code == 2
    assert "stage-1 is not a sweep" in refused.err


@pytest.mark.long
@pytest.mark.slow
def test_decision_to_keep_tasks_applies_to_later_rounds(tmp_path: Path) -> None:
    """The next round does not recompute the tasks that a person decided to keep."""
    given = plan(tmp_path, is_last=True, at_most=2)
    command = given["stages"][0]["parameters"]["command"]
    given["stages"][0]["inputs"] = ["run.sh"]
    given["stages"][0]["parameters"] |= {"command": "bash ../../../run.sh", "task_retries": 0}
    place = Place(tmp_path / "root")
    place.path.mkdir()
    (place.path / "run.sh").write_text(f"[ $WFCTL_PARAM_x != 1 ] || exit 3\n{command}\n")
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    for number, text in enumerate(("x\n1\n2\n", "x\n3\n", "x\n4\n"), 1):
        give(tmp_path, number, text)
    assert place.call("run").code == 6
    (place.path / "run.sh").write_text(f"{command}\n")
    amended(place, "--set", "rounds.walk.at_most=3")  # A person also approves the script.
    place.done("stage", "retry", "run", "--fix", "The script.", "--failed-only")
    place.done("run")
    assert lines(tmp_path / "trace") == ["x=0", "x=1", "x=2", "x=3", "x=50"]
    kept = "tasks finished by att-0002 were kept although their inputs changed"
    assert kept in place.call("report").out
