"""The job runner that works through DPDispatcher, which only ever runs as a child process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eventstore.private import make_folder, open_lock
from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.markers import make_folders
from reconciler.attempt.paths import IGNORE, IGNORE_ALL, RUN, AttemptPaths, forwarded
from reconciler.context import LaunchResult, Mode, SubmissionFacts
from reconciler.dpdispatcher import wrapper
from reconciler.errors import (
    AlreadyMonitored,
    LaunchFailed,
    MachineFileMissing,
    RejectedSubmission,
)
from reconciler.far import ask
from reconciler.host import processes, program
from reconciler.host import small_files as plain
from reconciler.host.program import is_held
from reconciler.records import traces
from reconciler.submission import build as submission
from service.root.disk import write_whole
from service.root.root import MARKER

_CHECKED_AS = "dpdispatcher.entrypoints.submit.submission_args"
_LAST_LINES = 15
#: Seconds between two looks at the monitor's lock, and for a monitor to take up its work.
_POLL = 0.1
_TAKE_UP = 30.0


class DPDispatcherRunner:
    """A JobRunner over ``dpdisp submit``.

    ``program`` is the dpdisp to run; without it WFCTL_DPDISP, the folder of this Python, and PATH
    are looked at, in this order. ``environ`` stands for the process's environment.
    """

    def __init__(
        self, program: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._program = program
        self._environ = dict(os.environ if environ is None else environ)
        # Launched by the command of another attempt, a monitor does not belong to its processes.
        self._environ.pop(RUN, None)

    def check(self, attempt: AttemptPaths, given: Mapping[str, Any]) -> str:
        """See JobRunner."""
        return genuine.digest_of(self.checked(attempt, given)[2])

    def prepare(self, attempt: AttemptPaths, given: Mapping[str, Any]) -> str:
        """See JobRunner."""
        # What is refused leaves nothing behind, so nothing is written before all is checked.
        own, where, text = self.checked(attempt, given)
        _make_private(attempt)
        _replace(attempt.machine_record, where.to_text())
        _replace(attempt.submission, text)
        digest = genuine.keep(attempt, text, where.to_text())
        machine.keep(attempt, self._environ)
        self._render(replace(attempt, sha256=digest), own)
        return digest

    def launch(self, attempt: AttemptPaths, mode: Mode) -> LaunchResult:
        """See JobRunner."""
        _clear_way(attempt)
        genuine.put_back(attempt)
        machine.keep(attempt, self._environ)
        self._render(attempt, submission.read(attempt.submission))
        self._record_launch(attempt)
        if is_held(attempt.monitor_lock):
            raise AlreadyMonitored(attempt.stage, attempt.monitor_lock)
        start = self._in_tmux if mode is Mode.TMUX else self._detached
        try:
            return start(attempt)
        except LaunchFailed:
            # One that was killed leaves no word of it. Twice is no chance: somebody has to look.
            return start(attempt)

    def wait(self, attempt: AttemptPaths, timeout: float | None = None) -> bool:
        """See JobRunner."""
        end = None if timeout is None else time.monotonic() + timeout
        while is_held(attempt.monitor_lock):
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_POLL)
        return True

    def facts(self, attempt: AttemptPaths) -> SubmissionFacts:
        """See JobRunner."""
        return traces.facts(attempt)

    def checked(
        self, attempt: AttemptPaths, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], machine.ExecutionHost, str]:
        """Return the attempt's own submission, the machine it goes to, and the text of its file.

        Writes nothing; raises as ``prepare``.
        """
        named, described = given.get("machine"), None
        source = machine.reference(named, attempt.stage_folder) if isinstance(named, dict) else None
        if source is not None and not source.exists():
            raise MachineFileMissing(attempt.stage, source)
        if source is not None and isinstance(named, dict):
            # That file is read by a process of its own.
            described = ask.describe(named, attempt)
        own, where = submission.for_attempt(given, attempt, described)
        text = json.dumps(own, indent=2, ensure_ascii=False) + "\n"
        tuple(forwarded(own))
        self._check(attempt, text, submission.uses_ref(own))
        return own, where, text

    def _check(self, attempt: AttemptPaths, text: str, allow_ref: bool) -> None:
        dargs = program.beside(self._find_program(), "dargs")
        flags = ["--allow-ref"] if allow_ref else []
        # Importing DPDispatcher writes a log into the current folder.
        with TemporaryDirectory() as place:
            copy = Path(place) / attempt.submission.name
            copy.write_text(text, encoding="utf-8", errors="surrogateescape")
            done = subprocess.run(
                [*program.starting(dargs), "check", "-f", _CHECKED_AS, *flags, copy.name],
                cwd=place,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        if done.returncode < 0:
            # Killed, it has said nothing of the submission.
            ended = f"`dargs check` was ended by signal {-done.returncode} before it answered"
            raise LaunchFailed(attempt.stage, done.returncode, ended)
        if done.returncode > 0 and (said := _OF_SYSTEM.search(done.stdout + done.stderr)):
            raise LaunchFailed(attempt.stage, done.returncode, f"`dargs check`: {said[1]}")
        if done.returncode > 0:
            raise RejectedSubmission(attempt.submission, _refusal(done.stdout + done.stderr))

    def _render(self, attempt: AttemptPaths, own: Mapping[str, Any]) -> None:
        where, allow_ref = machine.of(attempt), submission.uses_ref(own)
        wrapper.write(
            attempt.wrapper, wrapper.render(attempt, self._find_program(), where, allow_ref)
        )

    def _record_launch(self, attempt: AttemptPaths) -> None:
        if traces.read_json(attempt.launch_record) is not None:
            return
        record = {
            "root": str(attempt.root),
            "host": processes.host(),
            "boot_id": processes.boot_id(),
            "machine_id": processes.machine_id(),
            "dpdisp": str(self._find_program()),
            "dpdispatcher_version": program.version(self._find_program()),
            "places": traces.places_of(attempt),
        }
        _replace(attempt.launch_record, json.dumps(record, indent=2) + "\n")

    def _in_tmux(self, attempt: AttemptPaths) -> LaunchResult:
        if not processes.is_installed(self._environ):
            return self._detached(attempt, processes.MISSING)
        attempt.monitor_log.touch()  # with the modes of this process, not those of a tmux server
        before = _left_before(attempt)
        own = [str(attempt.wrapper), str(attempt.monitor_log)]
        command = ["bash", "-c", 'exec bash "$0" >> "$1" 2>&1', *own]
        become = [sys.executable, "-I", "-S", "-c", machine.BECOME]
        with machine.held(self._environ) as place:
            line = [*become, place, *command]
            refusal = processes.start(attempt.session, attempt.root, line, self._environ)
            if refusal is None:
                lives = partial(processes.is_live, attempt.session, self._environ)
                pid = _taken_up(attempt, before, lives)
                return LaunchResult(Mode.TMUX, session=attempt.session, pid=pid)
        note = f"tmux did not start a session ({refusal}): the monitor runs by setsid instead."
        return self._detached(attempt, note)

    def _detached(self, attempt: AttemptPaths, note: str | None = None) -> LaunchResult:
        before = _left_before(attempt)
        # The shell between us and the monitor ends at once, so the monitor is never our child.
        command = 'setsid bash "$0" >> "$1" 2>&1 < /dev/null & echo $!'
        with attempt.monitor_log.open("ab") as log:
            done = subprocess.run(
                ["bash", "-c", command, str(attempt.wrapper), str(attempt.monitor_log)],
                cwd=attempt.root,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
            )
        # A shell that was killed has told nothing, and its monitor may be at work all the same.
        started = int(done.stdout or 0)
        pid = _taken_up(attempt, before, lambda: processes.start_ticks(started) is not None)
        return LaunchResult(Mode.SETSID, pid=pid, note=note)

    def _find_program(self) -> Path:
        return program.find(self._environ, self._program)


#: The last line of a program that the operating system refused something: it says nothing of what
#: the program was to check.
_OF_SYSTEM = re.compile(r"^(\w+: \[Errno \d+\] .*)\s*\Z", re.MULTILINE)


def _clear_way(attempt: AttemptPaths) -> None:
    """Keep aside what is no file and lies where the monitor reads or writes one."""
    own = [attempt.monitor_record, attempt.launch_record, attempt.log, attempt.monitor_log]
    own += [attempt.exit_code_record, attempt.environment_record]
    shared = [attempt.monitor_lock, attempt.wrapper]
    for path in (*own, *shared, attempt.exit_code_marker, attempt.done_marker):
        if os.path.lexists(path) and not path.is_file():
            genuine.keep_aside(attempt, path)


def _left_before(attempt: AttemptPaths) -> tuple[str, int]:
    """Return what the last monitor wrote of itself, and the bytes of what monitors printed."""
    log = attempt.monitor_log
    return plain.text(attempt.monitor_record), log.stat().st_size if log.exists() else 0


def _taken_up(attempt: AttemptPaths, before: tuple[str, int], lives: Callable[[], object]) -> int:
    """Wait until a new monitor has written who it is; return its process id."""
    end = time.monotonic() + _TAKE_UP
    known, size = before
    while (mark := plain.text(attempt.monitor_record)) == known:
        gone = not lives() or time.monotonic() > end
        if gone and plain.text(attempt.monitor_record) == known:
            if is_held(attempt.monitor_lock):
                raise AlreadyMonitored(attempt.stage, attempt.monitor_lock)
            log = attempt.monitor_log
            printed = log.read_bytes()[size:] if log.exists() else b""
            said = _last_lines(printed.decode(errors="replace"))
            raise LaunchFailed(attempt.stage, None, said)
        time.sleep(0.01)
    return int(json.loads(mark)["pid"])


def _refusal(text: str) -> str:
    """Return the checker's own sentence, which names the field, without how it came to it."""
    line = _last_lines(text).rpartition("\n")[2]
    return re.sub(r"^dargs\.\S+: ", "", line)


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])


def _make_private(attempt: AttemptPaths) -> None:
    """Make the attempt's folder and its monitor's lock so that no other login can hold a lock.

    What an earlier life of the workflow left in the way is kept aside.
    """
    make_folders(attempt)
    write_whole(attempt.folder.parent / IGNORE, IGNORE_ALL)
    home = attempt.root / MARKER
    for folder in (home, attempt.starts.parent, attempt.starts):
        make_folder(folder, home)
    _clear_way(attempt)
    os.close(open_lock(attempt.monitor_lock, home))


def _replace(path: Path, text: str) -> None:
    write_whole(path, text.encode())
