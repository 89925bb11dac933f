"""The diagnosis of a failure finds its category and the output line that shows the cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempt.paths import AttemptPaths
from reconciler.verdict.diagnosis import diagnose
from tests.cli.support import Place, attempt_data, tree, write_plan
from tests.cli.terminal import agreed_to
from tests.reconciler.support import JOB, submitted

CATEGORIES = {
    "bash: line 1: lmp_mpi: command not found": "software",
    "ModuleNotFoundError: No module named 'ase'": "software",
    "Segmentation fault (core dumped)": "software",
    "RuntimeError: it did not converge": "software",
    "FileNotFoundError: [Errno 2] No such file or directory: 'in.lj'": "input",
    "ERROR: Unknown command: pear_style lj/cut (../input.cpp:232)": "input",
    "ERROR: Cannot open input script in.lj: No such file or directory": "input",
    "json.decoder.JSONDecodeError: Expecting value": "input",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch": "resource",
    "slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026 DUE TO TIME LIMIT ***": "resource",
    "OSError: [Errno 28] No space left on device": "resource",
    "MemoryError": "resource",
    "sbatch: error: invalid partition specified: gpu": "scheduler",
    "slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026 DUE TO PREEMPTION ***": "scheduler",
    "ssh: connect to host h port 22: Connection refused": "scheduler",
    "Step Temp 1.0": "unknown",
}
EXITS = {127: "software", 137: "resource", 139: "software", 1: "unknown", None: "unknown"}


def attempt_in(folder: Path, err: str = "", log: str = "") -> AttemptPaths:
    """Create the files of an attempt whose job wrote the given stderr and stdout."""
    attempt = AttemptPaths(folder, "wf", "stage-1", "att-0001")
    attempt.folder.mkdir(parents=True)
    attempt.launch_record.write_text("{}")
    (attempt.stage_folder / "err").write_text(err)
    (attempt.stage_folder / "log").write_text(log)
    return attempt


@pytest.mark.parametrize("name", ["err", "log"])
@pytest.mark.parametrize("line", CATEGORIES)
def test_error_message_determines_the_category(tmp_path: Path, line: str, name: str) -> None:
    """The diagnosis finds the message in the file `err` or `log` of the job."""
    attempt = attempt_in(tmp_path, **{name: f"start\n{line}\nend\n"})
    found = diagnose(attempt, submitted(), "TASK_FAILED")
    assert found.category == CATEGORIES[line]
    assert found.category == "unknown" or found.because.startswith(f"{name}: ")
    assert found.category == "unknown" or found.because.endswith(line)


@pytest.mark.parametrize("code", EXITS)
def test_exit_code_determines_the_category_without_a_message(
    tmp_path: Path, code: int | None
) -> None:
    """Exit code 127 means a missing program, and a code above 128 means a signal."""
    job = {**{f: getattr(JOB, f) for f in JOB.__slots__}, "exit_code": code}
    evidence = submitted(type(JOB)(**job))
    assert diagnose(attempt_in(tmp_path), evidence, "TASK_FAILED").category == EXITS[code]


def test_kill_message_outranks_a_traceback(tmp_path: Path) -> None:
    """The message of the out-of-memory killer is more specific than a Python traceback."""
    err = "Traceback (most recent call last):\nValueError: x\nslurmstepd: error: oom_kill\n"
    assert diagnose(attempt_in(tmp_path, err), submitted(), "TASK_FAILED").category == "resource"


@pytest.mark.parametrize(
    ("verdict", "category"), [("OUTPUT_MISSING", "missing_output"), ("REJECTED", "input")]
)
def test_verdict_determines_the_category_without_job_output(
    tmp_path: Path, verdict: str, category: str
) -> None:
    """A job that succeeded or never started has no error message to read."""
    assert diagnose(attempt_in(tmp_path), None, verdict).category == category


def failing(folder: Path, command: str, **stage: Any) -> Place:
    """Create a workflow of one stage, and run its command in a job that fails."""
    parameters = {"command": command, "expected_seconds": 1, **stage.pop("parameters", {})}
    entry = {"id": "stage-1", "name": "Run", **stage, "parameters": parameters}
    place = Place(folder / "root")
    place.path.mkdir()
    plan = write_plan(folder, {"workflow_id": "w", "stages": [entry]})
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    assert place.json("dispatch", "stage-1", "--sync").code == 0
    return place


def status(place: Place) -> dict[str, Any]:
    """Return the current state of the stage."""
    found: dict[str, Any] = place.done("show", "stage-1")
    return found


@pytest.mark.slow
def test_failed_job_is_recorded_with_its_diagnosis(tmp_path: Path) -> None:
    """The event and progress.log have the category, and `stage diagnose` prints it again."""
    place = failing(tmp_path, "echo working; no-such-program", outputs=["stage-1/out.txt"])
    (event,) = place.done("events", "--type", "stage.failed")
    assert event["data"]["category"] == "software"
    assert "command not found" in event["data"]["because"]
    assert "; category: software)" in place.log()
    before = tree(place.path)
    told = place.done("stage", "diagnose", "stage-1")
    assert (told["category"], told["because"]) == ("software", event["data"]["because"])
    assert "exit code 127, a program that was not found" in told["jobs"][0]
    assert place.call("stage", "diagnose", "stage-1").out.startswith("stage-1 att-0001: software")
    assert tree(place.path) == before


@pytest.mark.long
@pytest.mark.slow
def test_diagnostic_run_downloads_log_and_err(tmp_path: Path) -> None:
    """The diagnostic run counts as a retry and leaves the submission file unchanged."""
    command = "echo so far; echo why >&2; exit 3"
    place = failing(tmp_path, command, outputs=["stage-1/out.txt"])
    own = {"work_base": ".", "machine": {"batch_type": "Shell", "context_type": "LocalContext"}}
    task = {"command": command, "task_work_path": "stage-1", "backward_files": ["out.txt"]}
    given = json.dumps({**own, "resources": {"group_size": 1}, "task_list": [task]})
    (place.path / "stage-1/submission.json").write_text(given)
    place.done("stage", "diagnose", "stage-1", "--submit", "--sync")
    found = status(place)
    assert (found["status"], found["retry_count"]) == ("failed", 1)
    assert [a["diagnostic"] for a in found["attempts"]] == [False, True]
    assert found["last_error"].startswith("diagnostic run: ")
    assert "diagnostic run: exit code 3" in (place.path / "stage-1/err").read_text()
    assert (place.path / "stage-1/submission.json").read_text() == given
    diagnostic = json.loads((place.path / "stage-1/submission.diagnostic.json").read_text())
    assert diagnostic["task_list"][0]["backward_files"] == ["log", "err"]
    assert "stage-1: retry #1 after fix: none: the attempt is a diagnostic run" in place.log()


@pytest.mark.long
@pytest.mark.slow
def test_successful_diagnostic_run_leaves_the_stage_failed(tmp_path: Path) -> None:
    """A diagnostic run downloads no outputs, so its success does not complete the stage."""
    place = failing(
        tmp_path, "test -e ../../../../../there && echo hi > out.txt", outputs=["stage-1/out.txt"]
    )
    (place.path / "there").touch()
    place.done("stage", "diagnose", "stage-1", "--submit", "--sync")
    assert status(place)["status"] == "failed"
    assert not (place.path / "stage-1/out.txt").exists()


def failed(place: Place, attempts: int = 1) -> None:
    """Record the given number of failures of the stage, with a retry between them."""
    for number in range(attempts):
        if number:
            place.done("stage", "retry", "stage-1", "--fix", "mended")
        place.done("append", "attempt.started", "--data", attempt_data())
        place.done("stage", "fail", "stage-1", "--error", "it broke", "--category", "input")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Create a workflow of one stage that has not run."""
    monkeypatch.setenv("WFCTL_ACTOR", "user:ada")
    parameters = {"command": "true", "dt": 0.005}
    plan = {
        "workflow_id": "w",
        "stages": [{"id": "stage-1", "name": "A", "parameters": parameters}],
    }
    place = Place(tmp_path / "root")
    place.path.mkdir()
    assert place.call("init", str(write_plan(tmp_path, plan)), "--consent", "trust").code == 0
    return place


@pytest.mark.parametrize(
    "way", [["retry", "stage-1", "--fix", "x"], ["diagnose", "stage-1", "--submit"]]
)
def test_retry_limit_includes_diagnostic_runs(place: Place, way: list[str]) -> None:
    """After three retries or diagnostic runs, only an approved rerun makes it ready."""
    failed(place, attempts=4)
    answer = place.json("stage", *way)
    assert (answer.code, answer.error["code"]) == (5, "retry_limit_reached")
    rerun = ["--type", "stage_rerun", "--stage", "stage-1", "--reason", "once more"]
    place.done("amend", "propose", *rerun)
    assert place.json("stage", "retry", "stage-1", "--fix", "x").code == 5
    assert place.call("amend", "approve", "amend-1").code == 0
    found = status(place)
    assert (found["status"], found["retry_count"]) == ("ready", 0)


def test_diagnosis_requires_a_failure(place: Place) -> None:
    """`stage diagnose`, with and without `--submit`, refuses a stage that has not failed."""
    assert place.json("stage", "diagnose", "stage-1", "--submit").code == 5
    assert place.json("stage", "diagnose", "stage-1").code == 3


def test_fail_command_accepts_known_categories_only(place: Place) -> None:
    """`stage fail --category` records a known category and refuses an unknown one."""
    failed(place)
    assert status(place)["category"] == "input"
    line = ["stage", "fail", "stage-1", "--error", "x", "--category", "mood"]
    assert place.json(*line).code == 2


def test_retry_waits_for_amendment_of_edited_parameters(place: Place) -> None:
    """wfctl refuses the retry until a person reverts the edit, or adopts and approves it."""
    failed(place)
    path = place.path / "workflow-state.json"
    state = json.loads(path.read_text())
    state["stages"][0]["parameters"]["dt"] = 0.002
    path.write_text(json.dumps(state, indent=2))
    answer = place.json("stage", "retry", "stage-1", "--fix", "a smaller step")
    assert answer.code == 6
    assert answer.error["data"]["fields"] == ["stage-1.parameters.dt"]
    agreed_to(place.path, "drift", "revert")
    assert place.json("stage", "retry", "stage-1", "--fix", "none needed").code == 0


def submission(place: Place, **resources: Any) -> None:
    """Write a submission file with the given resources, like a launch does."""
    task = {"command": "true", "task_work_path": "stage-1"}
    given = {"resources": {"group_size": 1, **resources}, "task_list": [task]}
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / "stage-1/submission.json").write_text(json.dumps(given))


def test_retry_with_more_resources_waits_for_an_amendment(place: Place) -> None:
    """wfctl refuses the retry if the submission file requests resources nobody approved."""
    failed(place)
    submission(place)
    own = place.path / "stage-1/.attempts/att-0001"
    own.mkdir(parents=True)
    (place.path / "stage-1/submission.json").rename(own / "submission.json")
    submission(place, cpu_per_node=64)
    answer = place.json("stage", "retry", "stage-1", "--fix", "more cores")
    assert answer.code == 6
    assert answer.error["data"]["fields"] == ["parameters.resource_overrides"]
    submission(place)
    assert place.json("stage", "retry", "stage-1", "--fix", "the script").code == 0


def test_regenerating_a_submission_requires_a_command(tmp_path: Path) -> None:
    """`stage retry --regenerate` refuses a stage without a command in its parameters."""
    plan = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "A"}]}
    place = Place(tmp_path / "root")
    place.path.mkdir()
    assert place.call("init", str(write_plan(tmp_path, plan)), "--consent", "trust").code == 0
    failed(place)
    answer = place.json("stage", "retry", "stage-1", "--fix", "x", "--regenerate")
    assert (answer.code, answer.error["code"]) == (5, "nothing_to_build_from")
