"""Inspect processes and tmux sessions of this machine, as evidence of running attempts."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eventstore.sqlite.file_system import detect_file_system_type, is_network_file_system

#: Message to the user if tmux is not installed.
MISSING = "tmux is not installed, so the monitor runs in the background through setsid."


_PROC = Path("/proc")
DELETED = " (deleted)"
#: Maximum number of checks, 5 ms apart, of a process whose environment is empty because it is
#: starting another program.
_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Process:
    """The identity of a process, which stays unique even if its id is reused.

    ``ticks`` is its start time in clock ticks since the boot ``boot_id`` (field 22 of
    ``/proc/PID/stat``).
    """

    pid: int
    ticks: int
    boot_id: str

    def is_alive(self) -> bool:
        """Return whether exactly this process still runs. A zombie does not count."""
        return boot_id() == self.boot_id and start_ticks(self.pid) == self.ticks

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FolderProcess:
    """A running process of this user, with its working folder.

    ``deleted`` states that the folder no longer exists.
    """

    pid: int
    ticks: int
    folder: str
    deleted: bool


@cache  # the boot id cannot change while this process runs
def boot_id() -> str:
    """Return the id that the kernel gave to the current boot of this machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def host() -> str:
    """Return this machine's name."""
    return os.uname().nodename


def machine_id() -> str | None:
    """Return the id of this machine, which does not depend on its name, or None if unknown."""
    try:
        return Path("/etc/machine-id").read_text().strip() or None
    except OSError:
        return None


def is_process_paused(pid: int) -> bool:
    """Return whether the signal SIGSTOP has paused a process."""
    fields = _read_stat(pid)
    return fields is not None and fields[0] in "Tt"


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since the boot.

    Returns None if the process has ended.
    """
    fields = _read_stat(pid)
    return None if fields is None else int(fields[19])


def _read_stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` from field 3 (the state) on.

    Returns None if the process has ended.
    """
    try:
        # The kernel creates this text for each read call. A single unbuffered read is enough.
        with (_PROC / str(pid) / "stat").open("rb", buffering=0) as stream:
            text = stream.read().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The process name is in parentheses and may itself contain parentheses and spaces.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields


def identify(pid: int) -> Process | None:
    """Return the unique identity of the process with this id, or None if it has ended."""
    ticks = start_ticks(pid)
    return None if ticks is None else Process(pid, ticks, boot_id())


def has_group_variable(group: int, variable: str) -> bool:
    """Return whether a process of a group started with ``variable`` (NAME=value) set.

    The variable proves that the group is still the expected one, because ids of groups are reused.
    Only the environment at the start of a process is visible, and only for processes of this user.
    """
    fields = ((pid, _read_stat(pid)) for pid in _list_pids())
    group_of = {pid: int(found[2]) for pid, found in fields if found is not None}
    return any(of == group and _has_start_variable(pid, variable) for pid, of in group_of.items())


def _list_pids() -> Iterator[int]:
    yield from (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _find_processes(are: Callable[[int], bool]) -> tuple[Process, ...]:
    known = (identify(pid) for pid in _list_pids() if pid != os.getpid() and are(pid))
    return tuple(process for process in known if process is not None)


def _has_start_variable(pid: int, variable: str) -> bool:
    try:
        return os.fsencode(variable) in environ_of(pid).split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def environ_of(pid: int) -> bytes:
    """Return the environment with which a process started, read from ``/proc``.

    The environment is empty for a moment while a process starts another program, so the read is
    repeated. Raises OSError.
    """
    place = _PROC / str(pid)
    for _ in range(_LOOKS):
        if content := (place / "environ").read_bytes():
            return content
        if (place / "cmdline").read_bytes() or not (place / "exe").exists():
            break  # the process has become another program, or is a kernel thread
        time.sleep(0.005)
    return (place / "environ").read_bytes()


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line, or an empty list if it has ended."""
    try:
        content = (_PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return [os.fsdecode(word) for word in content.split(b"\0")[:-1]]


def find_processes_with(variable: str) -> tuple[Process, ...]:
    """Return each other process that started with ``variable`` (NAME=value) set.

    Terminal servers such as tmux, and the processes in their sessions, are omitted, because a
    person may be using them.
    """
    return _find_processes(
        lambda pid: _has_start_variable(pid, variable) and not _is_in_terminal_session(pid)
    )


def _is_in_terminal_session(pid: int) -> bool:
    while pid > 1:
        try:
            name = (_PROC / str(pid) / "comm").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        if name.startswith(("tmux", "screen", "SCREEN")):
            return True
        fields = _read_stat(pid)
        pid = 0 if fields is None else int(fields[1])
    return False


def find_lock_holders(locks: Sequence[Path]) -> tuple[Process, ...]:
    """Return each other process that holds one of the lock files exclusively.

    A process that only checks whether a file is locked is not included.
    """
    places = {os.path.realpath(lock) for lock in locks}
    return _find_processes(lambda pid: _holds_lock(pid, places)) if places else ()


def _holds_lock(pid: int, places: AbstractSet[str]) -> bool:
    folder = _PROC / str(pid)
    try:
        files = [fd.name for fd in (folder / "fd").iterdir() if str(fd.readlink()) in places]
        return any("WRITE" in (folder / "fdinfo" / name).read_text() for name in files)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # The process has ended or belongs to another user. Other users cannot hold these locks.
        return False


def list_user_processes() -> tuple[FolderProcess, ...]:
    """Return the running processes of this user, sorted by their working folders."""
    found = (tenant for tenant in map(_read_folder_process, _list_pids()) if tenant is not None)
    return tuple(sorted(found, key=_get_folder))


def find_processes_below(
    everyone: Sequence[FolderProcess], folder: Path
) -> tuple[FolderProcess, ...]:
    """Return the listed processes that work in a folder or below it.

    ``everyone`` must be sorted by folder. The search is fast even in a long list, so one list can
    be used for many folders.
    """
    place = os.path.realpath(folder).rstrip("/")
    # The paths below the folder start with `place/`. They sort before `place0`, because `0` is the
    # character after `/`.
    bounds = ((place, f"{place}\0"), (f"{place}/", f"{place}0"))
    ends = ((bisect_left(everyone, end, key=_get_folder) for end in ends) for ends in bounds)
    return tuple(tenant for first, behind in ends for tenant in everyone[first:behind])


def _get_folder(tenant: FolderProcess) -> str:
    return tenant.folder


def _read_folder_process(pid: int) -> FolderProcess | None:
    try:
        folder = str((_PROC / str(pid) / "cwd").readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # The process has ended or belongs to another user, so it cannot be a process of this user's
        # jobs.
        return None
    ticks, deleted = start_ticks(pid), folder.endswith(DELETED)
    return (
        None if ticks is None else FolderProcess(pid, ticks, folder.removesuffix(DELETED), deleted)
    )


@dataclass(frozen=True, slots=True)
class Host:
    """A recorded machine, for comparison with this machine. Unknown fields are None."""

    name: str | None
    boot_id: str | None = None
    machine_id: str | None = None

    def is_here(self, root: Path) -> bool:
        """Return whether the record describes this machine, even if its name has changed.

        An equal boot id proves this. After a reboot, an equal machine id proves it only if ``root``
        is on a local disk: clones of a machine share the machine id, and a network folder is
        visible on many machines.
        """
        if self.name in (None, host()) or self.boot_id == boot_id():
            return True
        known = self.machine_id is not None and self.machine_id == machine_id()
        return known and not is_network_file_system(detect_file_system_type(root))


def find_containing_folder(folder: str, places: AbstractSet[str]) -> str | None:
    """Return the folder in ``places`` that contains the given folder, or None.

    The search time depends only on the depth of the folder.
    """
    while folder and folder not in places:
        folder = folder.rpartition("/")[0]
    return folder or None
