"""Hand one notice to its receiver: a program or a web address."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: What a receiver is told: ``kind``, ``workflow``, ``root``, ``text``, ``commands`` and others.
Notice = Mapping[str, Any]
#: Seconds for a receiver to take one notice, and how often it is tried.
PATIENCE, _TRIES = 10.0, 3
_WEB = ("http://", "https://")


def hand_over(receiver: str, notice: Notice, root: Path) -> str | None:
    """Give a notice to its receiver; return why the receiver did not take it, None if it did."""
    body = json.dumps(notice, ensure_ascii=False).encode()
    error: str | None = None
    for number in range(_TRIES):
        try:
            _give(receiver, body, root)
        except (OSError, ValueError, subprocess.SubprocessError) as failed:
            error = str(failed)
            time.sleep(0.2 * 2**number)
        else:
            return None
    return error


def _give(receiver: str, body: bytes, root: Path) -> None:
    if receiver.startswith(_WEB):
        import urllib.request  # a program as receiver does not need it

        headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "wfctl"}
        request = urllib.request.Request(receiver, body, headers)
        urllib.request.urlopen(request, timeout=PATIENCE).close()
        return
    # A program gets the notice on its stdin; no shell reads the line.
    subprocess.run(
        shlex.split(receiver),
        input=body,
        # The root may be what is gone.
        cwd=root if root.is_dir() else "/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=True,
    )
