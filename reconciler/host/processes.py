"""Processes of this machine as evidence, and the small files in which others named them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eventstore.sqlite.queue import is_network, kind_of

#: What tmux says if there is no session.
MISSING = "tmux is not installed: the monitor runs detached by setsid instead."
#: What a client says of a server that ended while it was asked.
_ENDED = ("server exited", "lost server", "no server running", "error connecting")


def is_installed(environ: Mapping[str, str] | None = None) -> bool:
    """Say whether tmux is on the path of the environment, of this process's without one."""
    path = None if environ is None else environ.get("PATH")
    return shutil.which("tmux", path=path) is not None


def start(name: str, folder: Path, command: list[str], environ: Mapping[str, str]) -> str | None:
    """Start a command in a detached session; return None, or the reason why none was started.

    A server ends with its last session. A call that met one at its end is made once more.
    """
    if destroys_sessions(environ):
        return "its setting destroy-unattached ends every session without a terminal"
    line = ["new-session", "-d", "-s", name, "-c", str(folder), "--", *command]
    done = _run(line, environ)
    if any(words in done.stderr for words in _ENDED):
        done = _run(line, environ)
    return None if done.returncode == 0 else done.stderr.strip() or "no reason given"


def is_live(name: str, environ: Mapping[str, str]) -> bool | None:
    """Say whether the session of this exact name has a command running; None without tmux.

    A session that a setting keeps open after its command ended is not live.
    """
    if not is_installed(environ):
        return None
    done = _run(["list-panes", "-s", "-t", f"={name}:", "-F", "#{pane_dead}"], environ)
    return done.returncode == 0 and "0" in done.stdout.split()


def sessions(environ: Mapping[str, str]) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Return each session in which a command runs: when it was made, and the folders it works in.

    The time is in seconds since the epoch. Nothing if there is no tmux, or no server of it.
    """
    if not is_installed(environ):
        return {}
    form = (
        "#{pane_dead}\t#{session_created}\t#{session_name}\t#{session_path}\t#{pane_current_path}"
    )
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    for line in _run(["list-panes", "-a", "-F", form], environ).stdout.splitlines():
        dead, created, name, *folders = line.split("\t")
        if dead == "0":
            found[name] = (int(created), (*found.get(name, (0, ()))[1], *folders))
    return found


def _run(arguments: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["tmux", *arguments],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def destroys_sessions(environ: Mapping[str, str]) -> bool:
    """Say whether the user's tmux destroys a session that no terminal is attached to."""
    # No server may run yet; one that is started reads the user's settings.
    asked = ["start-server", ";", "show-options", "-gv", "destroy-unattached"]
    return _run(asked, environ).stdout.strip() in ("on", "keep-last")


_PROC = Path("/proc")
DELETED = " (deleted)"
#: How often, 5 ms apart, a process is looked at that becomes another program.
_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was recorded: ``ticks`` is field 22 of its stat, since boot ``boot_id``."""

    pid: int
    ticks: int
    boot_id: str

    def is_alive(self) -> bool:
        """Say whether this very process lives; a zombie does not."""
        return boot_id() == self.boot_id and start_ticks(self.pid) == self.ticks

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A live process that works below a folder; ``deleted`` where its own folder is gone."""

    pid: int
    ticks: int
    folder: str
    deleted: bool


@cache  # no process outlives it
def boot_id() -> str:
    """Return the kernel's name for the time since the machine was started."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def host() -> str:
    """Return this machine's name."""
    return os.uname().nodename


def machine_id() -> str | None:
    """Return what this machine is called whatever its name; None if nothing says so."""
    try:
        return Path("/etc/machine-id").read_text().strip() or None
    except OSError:
        return None


def is_stopped(pid: int) -> bool:
    """Say whether a process was told to stop where it is (SIGSTOP), and does nothing until told."""
    fields = _stat(pid)
    return fields is not None and fields[0] in "Tt"


def start_ticks(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None for a dead one."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def _stat(pid: int) -> list[str] | None:
    """Return the fields of a live process's stat, from its state (field 3) on."""
    try:
        # Unbuffered, as the kernel puts it together anew for each part that is read of it.
        with (_PROC / str(pid) / "stat").open("rb", buffering=0) as stream:
            text = stream.read().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may hold anything, parentheses and spaces too.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields


def identify(pid: int) -> Process | None:
    """Return the process of this id as a record that outlives the reuse of the id."""
    ticks = start_ticks(pid)
    return None if ticks is None else Process(pid, ticks, boot_id())


def group_began_with(group: int, variable: str) -> bool:
    """Say whether a live process of the group began with ``variable`` (NAME=value) set.

    Ids are used again; a variable that was given to nobody else tells whose group it is. One that
    began with an environment of its own, or is another user's, tells nothing.
    """
    fields = ((pid, _stat(pid)) for pid in _pids())
    group_of = {pid: int(found[2]) for pid, found in fields if found is not None}
    return any(of == group and _began_with(pid, variable) for pid, of in group_of.items())


def _pids() -> Iterator[int]:
    yield from (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _others(are: Callable[[int], bool]) -> tuple[Process, ...]:
    known = (identify(pid) for pid in _pids() if pid != os.getpid() and are(pid))
    return tuple(process for process in known if process is not None)


def _began_with(pid: int, variable: str) -> bool:
    try:
        return os.fsencode(variable) in environ_of(pid).split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def environ_of(pid: int) -> bytes:
    """Return the environment that a process began with, as /proc has it; raises OSError.

    While a process becomes another program it shows neither this nor its command line.
    """
    place = _PROC / str(pid)
    for _ in range(_LOOKS):
        if content := (place / "environ").read_bytes():
            return content
        if (place / "cmdline").read_bytes() or not (place / "exe").exists():
            break  # it has become one, or is a thread of the kernel
        time.sleep(0.005)
    return (place / "environ").read_bytes()


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line; nothing if the process no longer exists."""
    try:
        content = (_PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return [os.fsdecode(word) for word in content.split(b"\0")[:-1]]


def began_with(variable: str) -> tuple[Process, ...]:
    """Return every live process but this one that began with ``variable`` (NAME=value) set.

    A terminal server that one of them started, and those who work in it, are left out: it may
    serve a person by now.
    """
    return _others(lambda pid: _began_with(pid, variable) and not _serves_a_terminal(pid))


def _serves_a_terminal(pid: int) -> bool:
    while pid > 1:
        try:
            name = (_PROC / str(pid) / "comm").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        if name.startswith(("tmux", "screen", "SCREEN")):
            return True
        fields = _stat(pid)
        pid = 0 if fields is None else int(fields[1])
    return False


def holders(locks: Sequence[Path]) -> tuple[Process, ...]:
    """Return every process but this one that holds one of the locks for itself.

    Anyone who has the file open only to look at the lock is not among them.
    """
    places = {os.path.realpath(lock) for lock in locks}
    return _others(lambda pid: _holds(pid, places)) if places else ()


def _holds(pid: int, places: AbstractSet[str]) -> bool:
    folder = _PROC / str(pid)
    try:
        files = [fd.name for fd in (folder / "fd").iterdir() if str(fd.readlink()) in places]
        return any("WRITE" in (folder / "fdinfo" / name).read_text() for name in files)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # Gone meanwhile, or another user's, who cannot hold a lock of this one's files for us.
        return False


def census() -> tuple[Tenant, ...]:
    """Return every live process of this user with the folder it works in, sorted by that."""
    found = (tenant for tenant in map(_tenant, _pids()) if tenant is not None)
    return tuple(sorted(found, key=_place))


def below(everyone: Sequence[Tenant], folder: Path) -> tuple[Tenant, ...]:
    """Return those of a census who work in a folder or below it.

    The cost hardly grows with the census, so that one serves many folders.
    """
    place = os.path.realpath(folder).rstrip("/")
    # In the order of characters, 0 comes behind /.
    bounds = ((place, f"{place}\0"), (f"{place}/", f"{place}0"))
    ends = ((bisect_left(everyone, end, key=_place) for end in ends) for ends in bounds)
    return tuple(tenant for first, behind in ends for tenant in everyone[first:behind])


def _place(tenant: Tenant) -> str:
    return tenant.folder


def _tenant(pid: int) -> Tenant | None:
    try:
        folder = str((_PROC / str(pid) / "cwd").readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # Gone meanwhile, or another user's: neither is a job that this user started.
        return None
    ticks, deleted = start_ticks(pid), folder.endswith(DELETED)
    return None if ticks is None else Tenant(pid, ticks, folder.removesuffix(DELETED), deleted)


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as it was recorded; what nobody wrote down is None."""

    name: str | None
    boot_id: str | None = None
    machine_id: str | None = None

    def is_here(self, root: Path) -> bool:
        """Say whether it is this machine, whatever it is called by now.

        The same boot is the same machine. Another boot of one with the same machine id counts only
        where ``root`` lies on a disk of this machine, since clones share that id and network
        folders are seen by all of them.
        """
        if self.name in (None, host()) or self.boot_id == boot_id():
            return True
        known = self.machine_id is not None and self.machine_id == machine_id()
        return known and not is_network(kind_of(root))


def place_of(folder: str, places: AbstractSet[str]) -> str | None:
    """Return the place that a folder is or lies below; the cost is that of its depth alone."""
    while folder and folder not in places:
        folder = folder.rpartition("/")[0]
    return folder or None
