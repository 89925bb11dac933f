"""The job runner that uses DPDispatcher.

DPDispatcher is never imported into this process. It always runs as a child process.
"""

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

from eventstore.disk_space import is_disk_full_error
from eventstore.private_files import create_private_folder, open_lock
from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.markers import make_folders
from reconciler.attempt.paths import IGNORE, IGNORE_ALL, RUN, AttemptPaths, iterate_forwarded_paths
from reconciler.context import LaunchResult, Mode, SubmissionFacts
from reconciler.dpdispatcher import wrapper
from reconciler.errors import (
    AlreadyMonitored,
    LaunchFailed,
    MachineFileMissing,
    RejectedSubmission,
)
from reconciler.far import query_machine
from reconciler.host import processes, program, tmux_sessions
from reconciler.host import small_files as plain
from reconciler.host.file_locks import is_lock_held
from reconciler.records import traces
from reconciler.submission import build as submission
from reconciler.submission.form import describe_form
from reconciler.submission.forwarded_links import check_forwarded_links
from service.root.atomic_files import write_whole
from service.root.paths_within_root import is_inside
from service.root.root import MARKER

_CHECKED_AS = "dpdispatcher.entrypoints.submit.submission_args"
_LAST_LINES = 15
#: Seconds between two checks of the monitor's lock, and seconds to wait until a new monitor has
#: started its work.
_POLL = 0.1
_TAKE_UP = 30.0


class DPDispatcherRunner:
    """A job runner that submits each attempt with the command ``dpdisp submit``.

    ``program`` is the path of the dpdisp program. If it is None, wfctl searches the variable
    WFCTL_DPDISP, the folder of this Python and PATH, in this order. ``environ`` replaces the
    environment of this process.
    """

    def __init__(
        self, program: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self._program = program
        self._environ = dict(os.environ if environ is None else environ)
        # This variable names the attempt whose command started this process. A monitor that is
        # launched here does not belong to that attempt.
        self._environ.pop(RUN, None)
        #: Forms of submissions that DPDispatcher has accepted. A check takes a third of a second.
        self._accepted_forms: set[str] = set()

    def check(self, attempt: AttemptPaths, given: Mapping[str, Any]) -> str:
        """Check the submission without writing, and return its SHA-256.

        Implements `JobRunner.check`.
        """
        return genuine.digest_submission(self.build_checked_submission(attempt, given)[2])

    def prepare(self, attempt: AttemptPaths, given: Mapping[str, Any]) -> str:
        """Check the submission, write it, and return its SHA-256.

        Implements `JobRunner.prepare`.
        """
        # All checks come before the first write, so that a refused launch leaves no files behind.
        own, where, text = self.build_checked_submission(attempt, given)
        if not (where.is_far or is_inside(Path(where.scratch), attempt.root)):
            _make_scratch(Path(where.scratch))
        _create_private_folder(attempt)
        _replace(attempt.machine_record, where.to_text())
        _replace(attempt.submission, text)
        digest = genuine.save_submission_copies(attempt, text, where.to_text())
        machine.write_environment(attempt, self._environ)
        self._write_wrapper_script(replace(attempt, sha256=digest), own)
        return digest

    def launch(self, attempt: AttemptPaths, mode: Mode) -> LaunchResult:
        """Start a monitor of a prepared attempt, and return its mode.

        Implements `JobRunner.launch`.
        """
        _move_blocking_objects_aside(attempt)
        genuine.restore_submission_file(attempt)
        machine.write_environment(attempt, self._environ)
        self._write_wrapper_script(attempt, submission.read_submission(attempt.submission))
        self._record_launch(attempt)
        if is_lock_held(attempt.monitor_lock):
            raise AlreadyMonitored(attempt.stage, attempt.monitor_lock)
        start = self._launch_in_tmux if mode is Mode.TMUX else self._launch_detached
        try:
            return start(attempt)
        except LaunchFailed:
            # A monitor that was killed leaves no message about the cause, so it is started once
            # more. If it fails again, the error is reported.
            return start(attempt)

    def wait(self, attempt: AttemptPaths, timeout: float | None = None) -> bool:
        """Wait until the stage has no running monitor, or until the timeout.

        Implements `JobRunner.wait`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while is_lock_held(attempt.monitor_lock):
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_POLL)
        return True

    def facts(self, attempt: AttemptPaths) -> SubmissionFacts:
        """Return the facts about the submission that the attempt's files contain.

        Implements `JobRunner.facts`.
        """
        return traces.read_submission_facts(attempt)

    def build_checked_submission(
        self, attempt: AttemptPaths, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], machine.ExecutionHost, str]:
        """Check a submission, and return the copy of it that belongs to the attempt.

        The result is the copy, the machine of its jobs, and the text of its file. Writes nothing.
        Raises the same errors as ``prepare``.
        """
        named, described = given.get("machine"), None
        source = (
            machine.find_machine_file(named, attempt.stage_folder)
            if isinstance(named, dict)
            else None
        )
        if source is not None and not source.exists():
            raise MachineFileMissing(attempt.stage, source)
        if source is not None and isinstance(named, dict):
            # The machine file may contain credentials, so only a separate process reads it.
            described = query_machine.query_machine_settings(named, attempt)
        own, where = submission.build_attempt_copy(given, attempt, described)
        text = json.dumps(own, indent=2, ensure_ascii=False) + "\n"
        check_forwarded_links(attempt.root, iterate_forwarded_paths(own), Path(where.scratch))
        form = describe_form(own)
        if form not in self._accepted_forms:
            self._check_with_dpdispatcher(attempt, text, submission.uses_ref(own))
            self._accepted_forms.add(form)
        return own, where, text

    def _check_with_dpdispatcher(self, attempt: AttemptPaths, text: str, allow_ref: bool) -> None:
        dargs = program.find_neighbor_program(self._find_program(), "dargs")
        flags = ["--allow-ref"] if allow_ref else []
        # DPDispatcher writes a log into the current folder when it is imported, so the check runs
        # in a temporary folder.
        with TemporaryDirectory() as place:
            copy = Path(place) / attempt.submission.name
            copy.write_text(text, encoding="utf-8", errors="surrogateescape")
            done = subprocess.run(
                [
                    *program.build_start_command(dargs),
                    "check",
                    "-f",
                    _CHECKED_AS,
                    *flags,
                    copy.name,
                ],
                cwd=place,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        if done.returncode < 0:
            # If a signal ended the check, the submission was neither accepted nor rejected.
            ended = f"signal {-done.returncode} ended `dargs check` before it answered"
            raise LaunchFailed(attempt.stage, done.returncode, ended)
        if done.returncode > 0 and (said := _OF_SYSTEM.search(done.stdout + done.stderr)):
            raise LaunchFailed(attempt.stage, done.returncode, f"`dargs check`: {said[1]}")
        if done.returncode > 0:
            raise RejectedSubmission(
                attempt.submission, _extract_field_error(done.stdout + done.stderr)
            )

    def _write_wrapper_script(self, attempt: AttemptPaths, own: Mapping[str, Any]) -> None:
        where, allow_ref = machine.load_execution_host(attempt), submission.uses_ref(own)
        wrapper.write_wrapper(
            attempt.wrapper, wrapper.render_wrapper(attempt, self._find_program(), where, allow_ref)
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
            "dpdispatcher_version": program.read_dpdispatcher_version(self._find_program()),
            "places": traces.identify_output_files(attempt),
        }
        _replace(attempt.launch_record, json.dumps(record, indent=2) + "\n")

    def _launch_in_tmux(self, attempt: AttemptPaths) -> LaunchResult:
        if not tmux_sessions.is_installed(self._environ):
            return self._launch_detached(attempt, processes.MISSING)
        attempt.monitor_log.touch()  # has the mode of this process, not of a tmux server
        before = _read_last_monitor_state(attempt)
        own = [str(attempt.wrapper), str(attempt.monitor_log)]
        command = ["bash", "-c", 'exec bash "$0" >> "$1" 2>&1', *own]
        become = [sys.executable, "-I", "-S", "-c", machine.BECOME]
        with machine.open_environment_memory_file(self._environ) as place:
            line = [*become, place, *command]
            refusal = tmux_sessions.start_session(
                attempt.session, attempt.root, line, self._environ
            )
            if refusal is None:
                lives = partial(tmux_sessions.is_live, attempt.session, self._environ)
                pid = _wait_for_monitor_pid(attempt, before, lives)
                return LaunchResult(Mode.TMUX, session=attempt.session, pid=pid)
        note = f"tmux did not start a session ({refusal}), so the monitor runs through setsid."
        return self._launch_detached(attempt, note)

    def _launch_detached(self, attempt: AttemptPaths, note: str | None = None) -> LaunchResult:
        before = _read_last_monitor_state(attempt)
        # The shell in between ends immediately, so that the monitor is not a child of this process
        # and survives it.
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
        # If the shell was killed, it printed no process id, but the monitor may be running.
        started = int(done.stdout or 0)
        pid = _wait_for_monitor_pid(
            attempt, before, lambda: processes.start_ticks(started) is not None
        )
        return LaunchResult(Mode.SETSID, pid=pid, note=note)

    def _find_program(self) -> Path:
        return program.find_dpdisp(self._environ, self._program)


#: Matches the last line of a program that failed because the operating system refused a request.
#: Such an error does not mean that the checked data is wrong.
_OF_SYSTEM = re.compile(r"^(\w+: \[Errno \d+\] .*)\s*\Z", re.MULTILINE)


def _make_scratch(folder: Path) -> None:
    """Create the folder in which the jobs will work.

    If this fails, the monitor reports the problem later. Only a full disk is an error here: in this
    case the OSError is raised.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if is_disk_full_error(error):
            raise


def _move_blocking_objects_aside(attempt: AttemptPaths) -> None:
    """Move objects aside, such as folders, that occupy the path of a file of the monitor."""
    own = [attempt.monitor_record, attempt.launch_record, attempt.log, attempt.monitor_log]
    own += [attempt.exit_code_record, attempt.environment_record]
    shared = [attempt.monitor_lock, attempt.wrapper]
    for path in (*own, *shared, attempt.exit_code_marker, attempt.done_marker):
        if os.path.lexists(path) and not path.is_file():
            genuine.move_to_stale_folder(attempt, path)


def _read_last_monitor_state(attempt: AttemptPaths) -> tuple[str, int]:
    """Return the record of the last monitor, and the current size of the monitors' log."""
    log = attempt.monitor_log
    return plain.read_text(attempt.monitor_record), log.stat().st_size if log.exists() else 0


def _wait_for_monitor_pid(
    attempt: AttemptPaths, before: tuple[str, int], lives: Callable[[], object]
) -> int:
    """Wait until a new monitor has recorded its process id, and return the id.

    ``before`` is the state before the start, from `_read_last_monitor_state`. Raises
    AlreadyMonitored if another monitor holds the lock, or LaunchFailed if the new monitor ended or
    did not start in time.
    """
    end = time.monotonic() + _TAKE_UP
    known, size = before
    while (mark := plain.read_text(attempt.monitor_record)) == known:
        gone = not lives() or time.monotonic() > end
        if gone and plain.read_text(attempt.monitor_record) == known:
            if is_lock_held(attempt.monitor_lock):
                raise AlreadyMonitored(attempt.stage, attempt.monitor_lock)
            log = attempt.monitor_log
            printed = log.read_bytes()[size:] if log.exists() else b""
            said = _last_lines(printed.decode(errors="replace"))
            raise LaunchFailed(attempt.stage, None, said)
        time.sleep(0.01)
    return int(json.loads(mark)["pid"])


def _extract_field_error(text: str) -> str:
    """Return the sentence of the checking program that names the wrong field.

    The traceback is omitted.
    """
    line = _last_lines(text).rpartition("\n")[2]
    return re.sub(r"^dargs\.\S+: ", "", line)


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])


def _create_private_folder(attempt: AttemptPaths) -> None:
    """Create the attempt's folder and the lock of its monitor with restricted access.

    No other user can then hold the lock. Leftover files of an earlier workflow are moved aside.
    """
    make_folders(attempt)
    write_whole(attempt.folder.parent / IGNORE, IGNORE_ALL)
    home = attempt.root / MARKER
    for folder in (home, attempt.start_claims_folder.parent, attempt.start_claims_folder):
        create_private_folder(folder, home)
    _move_blocking_objects_aside(attempt)
    os.close(open_lock(attempt.monitor_lock, home))


def _replace(path: Path, text: str) -> None:
    write_whole(path, text.encode())
