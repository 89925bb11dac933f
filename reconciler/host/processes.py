"""Inspect processes of this machine as evidence of running attempts."""

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

from eventstore.sqlite.write_queue import is_network, kind_of

#: Message if tmux is not installed.
MISSING = "tmux is not installed, so the monitor runs in the background through setsid."


_PROC = Path("/proc")
DELETED = " (deleted)"
#: Maximum number of checks, 5 ms apart, of a process that replaces itself with another program.
_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Process:
    """A recorded process.

    ``ticks`` is field 22 of its stat, counted since the boot ``boot_id``.
    """

    pid: int
    ticks: int
    boot_id: str

    def is_alive(self) -> bool:
        """Return whether this process still runs. A zombie does not run."""
        return boot_id() == self.boot_id and start_ticks(self.pid) == self.ticks

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A running process that works below a folder.

    ``deleted`` means that its own folder is gone.
    """

    pid: int
    ticks: int
    folder: str
    deleted: bool


@cache  # the boot id cannot change while this process runs
def boot_id() -> str:
    """Return the kernel's id of the current boot."""
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


def is_stopped(pid: int) -> bool:
    """Return whether SIGSTOP has stopped a process."""
    fields = _read_stat(pid)
    return fields is not None and fields[0] in "Tt"


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, or None for a dead process."""
    fields = _read_stat(pid)
    return None if fields is None else int(fields[19])


def _read_stat(pid: int) -> list[str] | None:
    """Return the fields of a running process's stat, starting with its state (field 3)."""
    try:
        # Read without a buffer, because the kernel generates the text again for each read.
        with (_PROC / str(pid) / "stat").open("rb", buffering=0) as stream:
            text = stream.read().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The process name is in parentheses and may itself contain parentheses and spaces.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields


def identify(pid: int) -> Process | None:
    """Return a record of the process with this id that stays unique if the id is reused."""
    ticks = start_ticks(pid)
    return None if ticks is None else Process(pid, ticks, boot_id())


def group_began_with(group: int, variable: str) -> bool:
    """Return whether a running process of the group started with ``variable`` (NAME=value) set.

    Ids are reused, but a unique variable identifies the owner of the group. A process with a new
    environment, or of another user, proves nothing.
    """
    fields = ((pid, _read_stat(pid)) for pid in _list_pids())
    group_of = {pid: int(found[2]) for pid, found in fields if found is not None}
    return any(of == group and _began_with(pid, variable) for pid, of in group_of.items())


def _list_pids() -> Iterator[int]:
    yield from (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _find_processes(are: Callable[[int], bool]) -> tuple[Process, ...]:
    known = (identify(pid) for pid in _list_pids() if pid != os.getpid() and are(pid))
    return tuple(process for process in known if process is not None)


def _began_with(pid: int, variable: str) -> bool:
    try:
        return os.fsencode(variable) in environ_of(pid).split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def environ_of(pid: int) -> bytes:
    """Return the initial environment of a process from /proc. Raises OSError.

    While a process replaces itself with another program, its environment and command line are
    empty.
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
    """Return the words of a process's command line, or an empty list for a dead process."""
    try:
        content = (_PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return [os.fsdecode(word) for word in content.split(b"\0")[:-1]]


def find_processes_with(variable: str) -> tuple[Process, ...]:
    """Return every running process, except this one, that started with ``variable`` (NAME=value).

    A terminal server that such a process started is left out, together with the processes in it,
    because a person may use the server now.
    """
    return _find_processes(lambda pid: _began_with(pid, variable) and not _serves_a_terminal(pid))


def _serves_a_terminal(pid: int) -> bool:
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
    """Return every process, except this one, that holds one of the locks exclusively.

    A process that opened the file only to check the lock is not included.
    """
    places = {os.path.realpath(lock) for lock in locks}
    return _find_processes(lambda pid: _holds_lock(pid, places)) if places else ()


def _holds_lock(pid: int, places: AbstractSet[str]) -> bool:
    folder = _PROC / str(pid)
    try:
        files = [fd.name for fd in (folder / "fd").iterdir() if str(fd.readlink()) in places]
        return any("WRITE" in (folder / "fdinfo" / name).read_text() for name in files)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # The process no longer exists or belongs to another user, who cannot hold our locks.
        return False


def list_tenants() -> tuple[Tenant, ...]:
    """Return every running process of this user with its working folder, sorted by folder."""
    found = (tenant for tenant in map(_read_tenant, _list_pids()) if tenant is not None)
    return tuple(sorted(found, key=_get_folder))


def find_tenants_below(everyone: Sequence[Tenant], folder: Path) -> tuple[Tenant, ...]:
    """Return the processes of a list that work in a folder or below it.

    The cost hardly grows with the length of the list, so one list can be used for many folders.
    """
    place = os.path.realpath(folder).rstrip("/")
    # In sort order, `0` is the character after `/`.
    bounds = ((place, f"{place}\0"), (f"{place}/", f"{place}0"))
    ends = ((bisect_left(everyone, end, key=_get_folder) for end in ends) for ends in bounds)
    return tuple(tenant for first, behind in ends for tenant in everyone[first:behind])


def _get_folder(tenant: Tenant) -> str:
    return tenant.folder


def _read_tenant(pid: int) -> Tenant | None:
    try:
        folder = str((_PROC / str(pid) / "cwd").readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # The job no longer exists or belongs to another user, so this user did not start it.
        return None
    ticks, deleted = start_ticks(pid), folder.endswith(DELETED)
    return None if ticks is None else Tenant(pid, ticks, folder.removesuffix(DELETED), deleted)


@dataclass(frozen=True, slots=True)
class Host:
    """A recorded machine. Unrecorded fields are None."""

    name: str | None
    boot_id: str | None = None
    machine_id: str | None = None

    def is_here(self, root: Path) -> bool:
        """Return whether the record describes this machine, even if its name has changed.

        The same boot id means the same machine. After a reboot, an equal machine id proves this
        only if ``root`` is on a local disk, because clones share the machine id and network folders
        are visible from many machines.
        """
        if self.name in (None, host()) or self.boot_id == boot_id():
            return True
        known = self.machine_id is not None and self.machine_id == machine_id()
        return known and not is_network(kind_of(root))


def place_of(folder: str, places: AbstractSet[str]) -> str | None:
    """Return the place that contains a folder.

    The cost depends only on the depth of the folder.
    """
    while folder and folder not in places:
        folder = folder.rpartition("/")[0]
    return folder or None
