"""Errors caused by other processes, by other machines, and by files next to a log."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

from reconciler.host.stage_lock import hold_stage
from tests.advice.log_rows import begun
from tests.advice.table import place_in, root_in, row
from tests.cli.support import HERE, Answer, Place, attempt_data, wfctl, write_plan
from tests.crash.support import until
from tests.machines.place import MachinePlace
from tests.machines.test_dotagent import DEMAND, at_architecture
from tests.programs import path_without
from tests.reconciler.test_recovery import deadly_flock
from tests.sessions.support import stage, workflow


def out_of_the_way(root: Path) -> None:
    """Remove the folder that replaced a file."""
    with suppress(FileNotFoundError):
        (root / "progress.log").rmdir()


@row("files_behind", 1, "recorded up to version 3", first={"replay": out_of_the_way})
def folder_in_the_way(folder: Path) -> Answer:
    """Replace progress.log with a folder of the same name."""
    place = begun(folder)
    (place.path / "progress.log").unlink()
    (place.path / "progress.log").mkdir()
    return place.json("note", "hello")


@row("UNSAFE_RESUME", 6, "was not resumed", names="A person decides")
def output_gone(folder: Path) -> Answer:
    """Delete the output of a completed phase."""
    flow = MachinePlace(root_in(folder))
    flow.init("wf-1", "dotagent")
    flow.done("append", "wf-1", "phase.started")
    at_architecture(flow)
    (flow.path / DEMAND).unlink()
    return flow.call("rehydrate", "wf-1")


@row("already_driven", 4, "another run of this workflow is active", names="stop it")
def second_loop(folder: Path) -> Answer:
    """Run a workflow while another process holds the lock of the run loop."""
    place = begun(folder)
    with (place.path / ".wfctl/run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return place.json("run")


@row("driver_missing", 1, "the driver psycopg", names="pip install")
def no_driver(folder: Path) -> Answer:
    """Create a workflow on a server with a driver that cannot be imported."""
    plan = write_plan(root_in(folder))
    shadow = folder / "modules/psycopg"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise ImportError('no libpq')\n")
    url = ("--database-url", "postgresql://nowhere.invalid/w")
    environ = {"PYTHONPATH": f"{shadow.parent}{os.pathsep}{HERE}", "PYTHONSAFEPATH": "1"}
    return wfctl("-o", "json", "init", str(plan), *url, cwd=root_in(folder), environ=environ)


@row("inline_secret", 5, "contains a secret", names="config_path")
def password(folder: Path) -> Answer:
    """Prepare a submission that contains a password."""
    folder.mkdir(parents=True, exist_ok=True)
    place = workflow(folder, stage(1), consent="trust")
    (place.path / "stage-1").mkdir(exist_ok=True)
    far = {"hostname": "h", "username": "u", "password": "hunter2"}
    machine = {"batch_type": "Shell", "context_type": "SSHContext", "remote_root": "/x"}
    given = {"machine": {**machine, "local_root": ".", "remote_profile": far}, "resources": {}}
    (place.path / "stage-1/submission.json").write_text(json.dumps({**given, "task": {}}))
    return place.json("dispatch", "stage-1")


def begin_on(folder: Path, url: str) -> Answer:
    """Create a workflow with its log at another URL."""
    plan = write_plan(root_in(folder))
    return place_in(folder).json("init", str(plan), "--database-url", url)


@row("store_unreachable", 1, "Connection refused", names="Check the server")
def no_server(folder: Path) -> Answer:
    """Name a server that does not exist."""
    return begin_on(folder, "postgresql://u@127.0.0.1:9/w")


@row("store_unwritable", 1, "unable to open", names="get permission to write")
def no_place_for_it(folder: Path) -> Answer:
    """Give the path of a database file in a folder without write permission."""
    return begin_on(folder, "sqlite:////proc/events.db")


def runner_of(folder: Path, command: str) -> Place:
    """Create a workflow of one job for a runner without tmux."""
    folder.mkdir(parents=True, exist_ok=True)
    path_without("tmux", folder / "bin")
    return workflow(folder, stage(1, command), consent="trust")


def run(place: Place) -> Answer:
    """Start a runner without tmux."""
    environ = {"PYTHONPATH": str(HERE), "PATH": str(place.path.parent / "bin")}
    with patch.dict(os.environ, environ):
        return place.json("run", "--autonomous", "--between", "0.1")


@row("already_autonomous", 4, "another autonomous runner", slow=True)
def second_runner(folder: Path) -> Answer:
    """Start a second background runner for the same workflow."""
    place = runner_of(folder, "sleep 2")
    assert run(place).code == 0
    return run(place)


@row("runner_failed", 1, "did not react within 0 s", names="check", slow=True)
def late(folder: Path) -> Answer:
    """Start a background runner with a start timeout of zero seconds."""
    place = runner_of(folder, "true")
    with patch("reconciler.loop.background_runner._START_TIMEOUT", 0):
        answer = run(place)
    until(lambda: place.json("runner", "stop").code == 0)
    return answer


@row("damaged_attempt", 1, "the file does not name a machine")
def no_machine_told(folder: Path) -> Answer:
    """Damage the only record of the machine on which an attempt runs."""
    place = begun(folder)
    place.done("append", "attempt.started", "--data", attempt_data())
    record = place.path / "stage-1/.attempts/att-0001/machine.json"
    record.parent.mkdir(parents=True)
    record.write_text("no")
    place.done("reconcile")
    return place.json("logs", "stage-1")


@row("damaged_event", 1, "does not match its recorded hash", names="another export or backup")
def another_line(folder: Path) -> Answer:
    """Restore an archive with an inserted line and a matching checksum."""
    place, file = begun(folder), folder / "kept"
    place.done("db", "backup", str(file), "--as", "archive")
    line = b'{"a":1,"hash":"' + b"0" * 64 + b'","position":1}'
    old = file.read_bytes().splitlines()[:-1]
    body = b"".join((line if one.startswith(b'{"actor"') else one) + b"\n" for one in old)
    end = json.dumps({"end": {"sha256": sha256(body).hexdigest()}})
    file.write_bytes(body + end.encode() + b"\n")
    return place.json("db", "restore", str(file), "--database-url", f"sqlite:///{folder}/other.db")


@row("launch_failed", 1, "the monitor did not start", slow=True)
def killed_monitor(folder: Path) -> Answer:
    """Kill the monitor process of each attempt as soon as it starts."""
    folder.mkdir(parents=True, exist_ok=True)
    place = workflow(folder, stage(1), consent="trust")
    with patch.dict(os.environ, {"PATH": deadly_flock(folder / "deadly", 2)}):
        return place.json("dispatch", "stage-1")


@row("root_busy", 1, "another wfctl process holds", names="look for a wfctl process that hangs")
def held_by_another(folder: Path) -> Answer:
    """Hold the lock of the stages, and shorten the wait for the lock."""
    place = begun(folder)
    lock = place.path / ".wfctl/stages.lock"
    with (
        hold_stage(lock, "stage-1", 1),
        patch("reconciler.context.hold_stage", lambda path, stage, _: hold_stage(path, stage, 0.1)),
    ):
        return place.json("dispatch", "stage-1")
