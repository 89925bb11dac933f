"""Send notices about the autonomous runner, even if the runner is killed.

A separate process reads notices from a pipe and sends them. Only the runner holds the other end of
the pipe. If the pipe closes without a final notice, the runner was killed, and the process sends a
notice about this. The process uses nothing in the workflow folder. It therefore works with a full
disk, an unmounted folder, a locked log, or after the end of the runner's tmux session.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from extensions.notices.receiver import send_notice_with_retries
from reconciler.host.program import command_of_module


class RunnerNotices:
    """Sends notices about a runner through a separate process that outlives the runner."""

    def __init__(self, receiver: str, workflow: str, root: Path, pid: int) -> None:
        self._common = {"workflow": workflow, "root": str(root), "stage": None}
        process = subprocess.Popen(
            command_of_module(__name__),
            # Do not use the workflow folder as the working directory, so that it can be unmounted.
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            # Start a new session, so that a signal to the runner's process group or terminal does
            # not end this process too.
            start_new_session=True,
        )
        self._pipe: IO[str] | None = process.stdin
        killed = self._build_notice(
            "end",
            f"the autonomous runner (process {pid}) was killed by a user or the system, so no "
            "new session starts; running jobs continue",
            ["wfctl status", "wfctl run --autonomous"],
            is_last=True,
        )
        # Pass the address through the pipe. Every user can read a command line, and the address may
        # contain a secret.
        self._write({"receiver": receiver, "if_killed": killed})

    def tell_waiting(self, why: str) -> None:
        """Send a notice that the runner waits because of a problem, such as a full disk."""
        self._write(
            self._build_notice("failure", f"the autonomous runner is waiting: {why}", _LOOK)
        )

    def tell_end(self, why: str) -> None:
        """Send a final notice with the reason why the runner ended."""
        text = f"the autonomous runner ended: {why}; this is its last notice"
        self._write(self._build_notice("end", text, _LOOK, is_last=True))
        with suppress(OSError):
            if self._pipe is not None:
                self._pipe.close()

    def _build_notice(
        self, kind: str, text: str, commands: list[str], *, is_last: bool = False
    ) -> dict[str, Any]:
        given = {"kind": kind, "text": text, "commands": commands, "last": is_last}
        return {**self._common, **given, "waits": []}

    def _write(self, entry: dict[str, Any]) -> None:
        # Ignore errors of the pipe. The runner can work without notices, and `wfctl status` also
        # shows that it has ended.
        with suppress(OSError, ValueError):
            if self._pipe is not None:
                self._pipe.write(json.dumps(entry) + "\n")
                self._pipe.flush()


_LOOK = ["wfctl status"]


def relay_notices(pipe: IO[str]) -> None:
    """Send each notice that arrives through the pipe.

    If the pipe closes without a final notice, send the notice that the runner was killed.
    """
    first = json.loads(pipe.readline())
    receiver, root = first["receiver"], Path(first["if_killed"]["root"])
    for line in pipe:
        notice = json.loads(line)
        send_notice_with_retries(receiver, notice, root)
        if notice["last"]:
            return
    send_notice_with_retries(receiver, first["if_killed"], root)


if __name__ == "__main__":
    relay_notices(sys.stdin)
