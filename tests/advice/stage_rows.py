"""Errors of stages, their jobs, sessions and runners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.advice.log_rows import begun
from tests.advice.table import place_in, row
from tests.cli.support import Answer, Place, wfctl, write_plan
from tests.sessions.support import agent, silent, stage, workflow

NO_DPDISPATCHER = {"WFCTL_DPDISP": "/nowhere/dpdisp"}


def refused(folder: Path, **fields: Any) -> Answer:
    """Dispatch a stage with invalid fields."""
    folder.mkdir(parents=True, exist_ok=True)
    profiles = fields.pop("profiles", None)
    return workflow(folder, stage(1, **fields), consent="trust", profiles=profiles).json(
        "dispatch", "stage-1"
    )


def failed(place: Place, id_: str = "stage-1") -> Place:
    """Prepare a stage and fail it."""
    place.done("stage", "prepare", id_)
    place.done("stage", "fail", id_, "--error", "broken")
    return place


@row("illegal_transition", 5, "stage-1 cannot change from ready to")
def too_early(folder: Path) -> Answer:
    """Complete a stage that has not run."""
    return begun(folder).json("stage", "complete", "stage-1")


@row("dependencies_not_met", 5, "are not completed: stage-1 (ready)")
def not_yet(folder: Path) -> Answer:
    """Make a stage ready although its dependency is not completed."""
    return begun(folder).json("stage", "ready", "stage-2")


@row("attempt_mismatch", 5, "attempt in the command: att-0009")
def another_attempt(folder: Path) -> Answer:
    """Record the failure of an attempt that is not the active attempt of the stage."""
    place = begun(folder)
    place.done("dispatch", "stage-1")
    data = '{"stage": "stage-1", "attempt": "att-0009", "error": "it broke"}'
    return place.json("append", "stage.failed", "--data", data)


@row("retry_limit_reached", 5, "has used all retries: 3 of 3")
def no_retry_left(folder: Path) -> Answer:
    """Retry a stage more often than its limit allows."""
    place = failed(begun(folder))
    for _ in range(3):
        place.done("stage", "retry", "stage-1", "--fix", "the seed was 0")
        place.done("stage", "prepare", "stage-1")
        place.done("stage", "fail", "stage-1", "--error", "broken")
    return place.json("stage", "retry", "stage-1", "--fix", "the seed was 0")


@row("nothing_to_build_from", 5, "has no parameters.command", names="submission.json")
def no_command_to_build_from(folder: Path) -> Answer:
    """Build a submission for a stage without a command."""
    folder.mkdir(parents=True, exist_ok=True)
    place = failed(workflow(folder, silent(1), consent="trust"))
    return place.json("stage", "retry", "stage-1", "--fix", "the seed was 0", "--regenerate")


@row("missing_evidence", 5, "Describe in a sentence", given={"TEXT": "the seed was 0"})
def no_words(folder: Path) -> Answer:
    """Retry with a placeholder as the fix."""
    return failed(begun(folder)).json("stage", "retry", "stage-1", "--fix", "TEXT")


@row("no_command", 5, "line.imported", names="import")
def no_own_command(folder: Path) -> Answer:
    """Append an event that only an import records."""
    return begun(folder).json(
        "append", "line.imported", "--data", '{"raw": ["x"], "text": "x", "line": 1}'
    )


def session(folder: Path, reason: str) -> Answer:
    """Start a session, and end it with the given reason."""
    place = begun(folder)
    place.done("session", "start")
    return place.json("session", "end", "--reason", reason)


@row("not_finished", 5, "unfinished: stage-1, stage-2", names="Give another --reason")
def unfinished(folder: Path) -> Answer:
    """End a session as completed although stages are unfinished."""
    return session(folder, "completed")


@row("budget_left", 5, "has spent 0 of 6", names="waiting")
def affordable(folder: Path) -> Answer:
    """End a session with the reason that its budget is exhausted, although it is not."""
    return session(folder, "budget_exhausted")


@row("nothing_hinders", 5, "nothing that blocks a stage", names="--reason waiting")
def unhindered(folder: Path) -> Answer:
    """End a session with the reason that a stage is blocked, although none is."""
    return session(folder, "blocked")


@row("nothing_left", 5, "every stage is completed", names="--reason completed", slow=True)
def all_done(folder: Path) -> Answer:
    """End a session as waiting although every stage is completed."""
    folder.mkdir(parents=True, exist_ok=True)
    place = workflow(folder, stage(1), consent="trust")
    place.done("session", "start")
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    return place.json("session", "end", "--reason", "waiting")


@row("no_stage_command", 5, "the stage has no command", names="parameters.command")
def nothing_to_run(folder: Path) -> Answer:
    """Dispatch a stage without a command."""
    folder.mkdir(parents=True, exist_ok=True)
    return workflow(folder, silent(1), consent="trust").json("dispatch", "stage-1")


@row("no_runner", 3, "no autonomous runner is running", slow=True)
def nobody_runs(folder: Path) -> Answer:
    """Stop a background runner, although none runs."""
    return begun(folder).json("runner", "stop")


@row("agent_missing", 1, "it names 'nowhere'", names="--agent")
def no_agent(folder: Path) -> Answer:
    """Run with an agent program that does not exist."""
    return begun(folder).json("run", "--agent", "nowhere")


@row(
    "agent_not_started",
    1,
    "could not be started",
    names="Check that the file",
    slow=True,
)
def no_interpreter(folder: Path) -> Answer:
    """Run with an agent file that the system cannot execute."""
    folder.mkdir(parents=True, exist_ok=True)
    place = workflow(folder, silent(1), consent="trust")
    words = agent(folder, "true")
    Path(words).write_text("true\n")
    return place.json("run", "--agent", words)


@row("environment_not_ready", 1, "exit code 3", names="Correct the environment", slow=True)
def no_environment(folder: Path) -> Answer:
    """Make init.sh fail."""
    place = begun(folder)
    (place.path / "init.sh").write_text("exit 3\n")
    return place.json("run")


@row("missing_input", 1, "input in.txt does not exist", names="Create it")
def no_input(folder: Path) -> Answer:
    """Dispatch a stage whose input file is missing."""
    return refused(folder, inputs=["in.txt"])


@row("empty_input", 1, "input in.txt is empty", names="Create it again")
def nothing_in_it(folder: Path) -> Answer:
    """Dispatch a stage whose input file is empty."""
    place_in(folder).path.joinpath("in.txt").touch()
    return refused(folder, inputs=["in.txt"])


@row("unusable_link", 1, "leads to a folder that contains the link", names="remove the link")
def cycle_of_links(folder: Path) -> Answer:
    """Dispatch a stage whose input folder contains a link to itself."""
    data = place_in(folder).path / "data"
    data.mkdir()
    (data / "in.txt").write_text("1\n")
    (data / "latest").symlink_to(".")
    return refused(folder, inputs=["data"])


@row("unusable_submission", 1, "must be", names="Remove the line")
def flags(folder: Path) -> Answer:
    """Pass a scheduler flag that wfctl does not allow."""
    own = {"resource_overrides": {"custom_flags": ["#SBATCH -t 1"]}}
    return refused(folder, parameters=own)


@row(
    "rejected_submission",
    1,
    "dargs check",
    names="resource_overrides",
    slow=True,
)
def many(folder: Path) -> Answer:
    """Give a word as a value that must be a number."""
    return refused(folder, parameters={"resource_overrides": {"group_size": "many"}})


@row("unusable_path", 1, "contains '../in.txt'", names="Correct inputs of the stage")
def outside(folder: Path) -> Answer:
    """Dispatch a stage with an input outside the root."""
    place_in(folder)
    (folder / "in.txt").write_text("1")
    return refused(folder, inputs=["../in.txt"])


@row("linked_stage_folder", 1, "is a symbolic link to", names="remote_root")
def link_to_scratch(folder: Path) -> Answer:
    """Replace the stage folder with a link to scratch space."""
    folder.mkdir(parents=True, exist_ok=True)
    outputs = ["stage-1/out.txt"]
    place = workflow(folder, stage(1, outputs=outputs), consent="trust")
    (folder / "scratch").mkdir()
    (place.path / "stage-1").symlink_to(folder / "scratch")
    return place.json("dispatch", "stage-1")


@row(
    "invalid_submission",
    1,
    "not a JSON object",
    names="Correct the file, or remove it",
)
def no_submission(folder: Path) -> Answer:
    """Prepare a submission that is not JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    place = workflow(folder, stage(1), consent="trust")
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / "stage-1/submission.json").write_text("{")
    return place.json("dispatch", "stage-1")


def on(folder: Path, profile: dict[str, Any]) -> Answer:
    """Dispatch a stage with the given backend profile."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = {
        "workflow_id": "w",
        "default_backend": "there",
        "backend_profiles": {"there": profile},
        "stages": [stage(1)],
    }
    place = place_in(folder)
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    return place.json("dispatch", "stage-1")


@row("machine_file_missing", 5, "is missing", names="Create the file")
def no_machine_file(folder: Path) -> Answer:
    """Dispatch a stage whose machine file does not exist."""
    profile = {"type": "remote", "batch_type": "Slurm", "config_path": "nowhere.json"}
    return on(folder, profile)


@row(
    "unusable_profile",
    1,
    "backend profile",
    names="Correct the profile in the plan",
)
def unfit_profile(folder: Path) -> Answer:
    """Give a backend profile that names no machine."""
    return on(folder, {"type": "remote"})


@row("program_missing", 1, "was not found", names="WFCTL_DPDISP")
def no_dpdispatcher(folder: Path) -> Answer:
    """Set a DPDispatcher program that does not exist."""
    place = begun(folder)
    return wfctl("-o", "json", "dispatch", "stage-1", cwd=place.path, environ=NO_DPDISPATCHER)


@row("no_diagnostic_run", 5, "stage-1")
def diagnosed_sweep(folder: Path) -> Answer:
    """Request a diagnostic run of a sweep."""
    folder.mkdir(parents=True, exist_ok=True)
    sweep = {"map": {"points": [{"T": 1}]}, "task_outputs": ["out.txt"]}
    one = stage(1, parameters=sweep) | {"outputs": ["stage-1/tasks.csv"]}
    place = failed(workflow(folder, one, consent="trust"))
    return place.json("stage", "diagnose", "stage-1", "--submit")
