"""tmux: sessions by their exact name."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

#: What is said where there is none.
MISSING = "tmux is not installed: the monitor runs detached by setsid instead."
#: What a client says of a server that ended while it was asked.
_ENDED = ("server exited", "lost server", "no server running", "error connecting")


def is_installed(environ: Mapping[str, str] | None = None) -> bool:
    """Say whether tmux is on the path of the environment, of this process's without one."""
    path = None if environ is None else environ.get("PATH")
    return shutil.which("tmux", path=path) is not None


def start(name: str, folder: Path, command: list[str], environ: Mapping[str, str]) -> str | None:
    """Start a command in a detached session; return None, or what tmux said when it refused.

    A server ends with its last session. A call that met one at its end is made once more.
    """
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

    The time is in seconds since the epoch. Nothing where there is no tmux, or no server of it.
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
