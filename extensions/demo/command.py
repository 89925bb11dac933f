"""The command ``wfctl demo``, which computes the size of a self-avoiding walk.

The demo kills its processes half-way and recovers. It only runs wfctl commands, as a person or an
agent would do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from cli.frame.options import File, argument
from cli.terminal.output import print_message
from service.errors import InvalidOption

_HERE = Path(__file__).parent
#: Seconds after the start of the first stage at which the demo kills all processes.
_KILL_AFTER = 4.0
_PATIENCE = 60.0


def demo(
    folder: File = argument(
        "[DIR]", "The folder to create (default: a new folder in the current folder)."
    ),
) -> None:
    """Run a small example workflow, kill it and recover it.

    The example is a real workflow in a new folder. It takes half a minute.
    """
    place = folder or Path(f"wfctl-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        raise InvalidOption(
            f"the path {place} already exists, but the demo needs a new folder. Choose another "
            "path."
        ) from None
    place = place.resolve()
    (place / "scripts").mkdir()
    shutil.copy(_HERE / "saw.py", place / "scripts")
    plan = (_HERE / "plan.toml").read_text("utf-8")
    name = f"self-avoiding-walk-{datetime.now(UTC):%Y-%m-%d}"
    (place / "plan.toml").write_text(f'workflow_id = "{name}"\n{plan}', "utf-8")
    print_message(f"A self-avoiding walk, in {place}\n")
    _run_wfctl(place, "init plan.toml --consent trust")
    _crash_half_way(place)
    for line in ("rehydrate", "run", "status"):
        _run_wfctl(place, line)
    for file in ("progress.log", "stage-3/fit.txt"):
        print(f"\n$ tail -n 12 {file}")
        lines = (place / file).read_text("utf-8").splitlines()
        print("\n".join(lines[-12:]), flush=True)
    for line in ("replay --check", "fsck"):
        _run_wfctl(place, line)
    print_message(f"\nEverything is in {place}; look around with wfctl log, show stage-1, events.")


def _run_wfctl(folder: Path, line: str) -> None:
    """Run a wfctl command as a user would. Exit with code 1 if the command fails."""
    print(f"\n$ wfctl {line}", flush=True)
    done = subprocess.run(_build_wfctl_command(folder, line), cwd=folder, check=False)
    if done.returncode != 0:
        verb, code = line.split(maxsplit=1)[0], done.returncode
        print_message(f"wfctl: the demo failed: wfctl {verb} ended with {code}")
        raise SystemExit(1)


def _build_wfctl_command(folder: Path, line: str) -> list[str]:
    from reconciler.host.program import command_of_module

    return [*command_of_module("cli.main"), "--root", str(folder), *line.split()]


def _crash_half_way(folder: Path) -> None:
    """Start the workflow, then kill its processes without a chance to clean up."""
    print("\n$ wfctl run &", flush=True)
    loop = subprocess.Popen(_build_wfctl_command(folder, "run"), cwd=folder, start_new_session=True)
    attempts = folder / "stage-1/.attempts"
    deadline = time.monotonic() + _PATIENCE
    while not (started := list(attempts.glob("att-0001*/job-*.started"))):
        if time.monotonic() > deadline:
            print_message(
                f"wfctl: the demo failed: no job started in {attempts} within {_PATIENCE:g} s"
            )
            raise SystemExit(1)
        time.sleep(0.1)
    monitor = int(json.loads((started[0].parent / "monitor.json").read_text())["pid"])
    time.sleep(_KILL_AFTER)
    print(f"\n$ kill -9 {loop.pid} {monitor}    # the loop, and the monitor of its job")
    os.killpg(loop.pid, signal.SIGKILL)
    os.kill(monitor, signal.SIGKILL)
    loop.wait()
