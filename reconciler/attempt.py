"""Where an attempt keeps its files. Paths alone: nothing here looks at the disk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Attempt:
    """One submission and one run of a stage.

    ``root`` is the absolute workflow root, ``id`` looks like ``att-0001``, ``outputs`` are the
    stage's outputs relative to the root.
    """

    root: Path
    workflow: str
    stage: str
    id: str
    outputs: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """The name that is unique over workflows, stages and attempts."""
        return f"{self.workflow}/{self.stage}/{self.id}"

    @property
    def session(self) -> str:
        """The tmux session's name, spelled as tmux spells it."""
        return f"dpdisp_{self.stage}_{self.workflow}".replace(".", "_").replace(":", "_")

    @cached_property
    def stage_folder(self) -> Path:
        """The stage's job directory."""
        return self.root / self.stage

    @cached_property
    def folder(self) -> Path:
        """What belongs to this attempt alone."""
        return self.stage_folder / ".attempts" / self.id

    @property
    def submission(self) -> Path:
        """The attempt's copy: what is really submitted."""
        return self.folder / "submission.json"

    @property
    def work(self) -> Path:
        """Where DPDispatcher makes the scratch copies unless the profile names a place."""
        return self.folder / "work"

    @property
    def log(self) -> Path:
        """Everything that DPDispatcher printed for this attempt."""
        return self.folder / "dpdisp.log"

    @property
    def monitor_log(self) -> Path:
        """What the wrapper itself printed."""
        return self.folder / "monitor.log"

    @property
    def launch_record(self) -> Path:
        """Where and with what the attempt was first launched; its age is the launch's."""
        return self.folder / "launch.json"

    @property
    def machine_record(self) -> Path:
        """Where the attempt's jobs run, without anything that lets one in."""
        return self.folder / "machine.json"

    @property
    def place_record(self) -> Path:
        """Which machine the attempt's folder was made on, where that is another one."""
        return self.folder / "place.json"

    @property
    def last_words(self) -> Path:
        """How the scheduler said that it ended jobs, by id."""
        return self.folder / "last-words.json"

    @property
    def barrier(self) -> Path:
        """Keeps every job that comes late from starting its command."""
        return self.folder / "stopped"

    @property
    def monitor_record(self) -> Path:
        """Which process is the monitor."""
        return self.folder / "monitor.json"

    @property
    def monitor_lock(self) -> Path:
        """Held for as long as a monitor of this stage lives."""
        return self.stage_folder / ".monitor.lock"

    @property
    def wrapper(self) -> Path:
        """The script that watches the attempt."""
        return self.stage_folder / "dpdisp-run.sh"

    @property
    def exit_code_marker(self) -> Path:
        """The monitor's exit code, bound to its attempt."""
        return self.stage_folder / "DPDISP_EXIT_CODE"

    @property
    def done_marker(self) -> Path:
        """Says that the monitor is through, bound to its attempt."""
        return self.stage_folder / "DPDISP_DONE"
