"""Start and list tmux sessions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

#: Parts of error messages of tmux which mean that its server ended during the request.
_ENDED = ("server exited", "lost server", "no server running", "error connecting")


def is_installed(environ: Mapping[str, str] | None = None) -> bool:
    """Return whether tmux is on the PATH of the given environment.

    The default is the environment of this process.
    """
    path = None if environ is None else environ.get("PATH")
    return shutil.which("tmux", path=path) is not None


def start_session(
    name: str, folder: Path, command: list[str], environ: Mapping[str, str]
) -> str | None:
    """Start a command in a new tmux session without a terminal.

    Returns None, or the reason why the session did not start. If the tmux server ends during the
    call, the call is repeated once.
    """
    if destroys_sessions(environ):
        return "its setting destroy-unattached ends every session that has no terminal"
    line = ["new-session", "-d", "-s", name, "-c", str(folder), "--", *command]
    done = _run_tmux(line, environ)
    if any(words in done.stderr for words in _ENDED):
        done = _run_tmux(line, environ)
    return None if done.returncode == 0 else done.stderr.strip() or "no reason given"


def is_live(name: str, environ: Mapping[str, str]) -> bool | None:
    """Return whether a command runs in the tmux session with this exact name.

    Returns None if tmux is not installed. A session that remains open after its command has ended
    does not count.
    """
    if not is_installed(environ):
        return None
    done = _run_tmux(["list-panes", "-s", "-t", f"={name}:", "-F", "#{pane_dead}"], environ)
    return done.returncode == 0 and "0" in done.stdout.split()


def list_sessions(environ: Mapping[str, str]) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Return the tmux sessions in which a command runs, by name.

    Each value is the start time in seconds since the epoch, and the working folders. Returns an
    empty dict if tmux is not installed or no tmux server runs.
    """
    if not is_installed(environ):
        return {}
    form = (
        "#{pane_dead}\t#{session_created}\t#{session_name}\t#{session_path}\t#{pane_current_path}"
    )
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    for line in _run_tmux(["list-panes", "-a", "-F", form], environ).stdout.splitlines():
        dead, created, name, *folders = line.split("\t")
        if dead == "0":
            found[name] = (int(created), (*found.get(name, (0, ()))[1], *folders))
    return found


def _run_tmux(arguments: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["tmux", *arguments],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def destroys_sessions(environ: Mapping[str, str]) -> bool:
    """Return whether the user's tmux settings destroy every session without a terminal."""
    # A running server reports its settings. Otherwise this command starts a server, which reads the
    # user's settings.
    asked = ["start-server", ";", "show-options", "-gv", "destroy-unattached"]
    return _run_tmux(asked, environ).stdout.strip() in ("on", "keep-last")
