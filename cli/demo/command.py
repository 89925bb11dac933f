"""``wfctl demo``: the size of a self-avoiding walk, with a crash half-way.

Everything goes through the command line, as a person or an agent would do it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.terminal.output import say
from service.errors import InvalidOption

_HERE = Path(__file__).parent
#: Seconds into the first stage's computation at which everything is killed.
_KILL_AFTER = 4.0
_PATIENCE = 60.0


def demo(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="A folder to make; else a new one here.")
    ] = None,
) -> None:
    """Run a real small workflow, kill it half-way, and bring it back."""
    place = _Place(_fresh_folder(folder))
    place.furnish()
    say(f"A self-avoiding walk, in {place.folder}\n")
    place.wfctl("init", "plan.toml", "--consent", "trust")
    place.crash_half_way()
    place.wfctl("rehydrate")
    place.wfctl("run")
    place.wfctl("status")
    place.show("progress.log", last=12)
    place.show("stage-3/fit.txt", last=12)
    place.wfctl("replay", "--check")
    place.wfctl("fsck")
    say(f"\nEverything is in {place.folder}; look around with wfctl log, show stage-1, events.")


def _fresh_folder(folder: Path | None) -> Path:
    place = folder or Path(f"wfctl-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    try:
        place.mkdir(parents=True)
    except FileExistsError:
        raise InvalidOption(
            f"{place} exists; the demo wants a folder of its own: name a new one"
        ) from None
    return place.resolve()


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder that the demo plays in."""

    folder: Path

    def furnish(self) -> None:
        """Put the plan and the program there."""
        (self.folder / "scripts").mkdir()
        shutil.copy(_HERE / "saw.py", self.folder / "scripts")
        plan = (_HERE / "plan.toml").read_text("utf-8")
        name = f"self-avoiding-walk-{datetime.now(UTC):%Y-%m-%d}"
        (self.folder / "plan.toml").write_text(f'workflow_id = "{name}"\n{plan}', "utf-8")

    def wfctl(self, *arguments: str) -> None:
        """Run a command as a user would; a failure ends the demo."""
        print(f"\n$ wfctl {' '.join(arguments)}", flush=True)
        done = subprocess.run(self._command(*arguments), cwd=self.folder, check=False)
        if done.returncode != 0:
            say(f"wfctl: the demo failed: wfctl {arguments[0]} ended with {done.returncode}")
            raise typer.Exit(1)

    def crash_half_way(self) -> None:
        """Start the loop, then kill it and the monitor of its job, with no chance to tidy up."""
        print("\n$ wfctl run &", flush=True)
        loop = subprocess.Popen(self._command("run"), cwd=self.folder, start_new_session=True)
        attempts = self.folder / "stage-1/.attempts"
        deadline = time.monotonic() + _PATIENCE
        while not (started := list(attempts.glob("att-0001*/job-*.started"))):
            if time.monotonic() > deadline:
                say(f"wfctl: the demo failed: no job started in {attempts} within {_PATIENCE:g} s")
                raise typer.Exit(1)
            time.sleep(0.1)
        monitor = int(json.loads((started[0].parent / "monitor.json").read_text())["pid"])
        time.sleep(_KILL_AFTER)
        print(f"\n$ kill -9 {loop.pid} {monitor}    # the loop, and the monitor of its job")
        os.killpg(loop.pid, signal.SIGKILL)
        os.kill(monitor, signal.SIGKILL)
        loop.wait()

    def show(self, name: str, last: int) -> None:
        """Print the end of a file."""
        print(f"\n$ tail -n {last} {name}")
        lines = (self.folder / name).read_text("utf-8").splitlines()
        print("\n".join(lines[-last:]), flush=True)

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "cli.main", "--root", str(self.folder), *arguments]
