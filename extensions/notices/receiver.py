"""Send a single notice to its receiver, which is a program or a web address."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: A notice as JSON values: ``kind``, ``workflow``, ``root``, ``text``, ``commands`` and others.
Notice = Mapping[str, Any]
#: Seconds that a receiver has to accept a notice, and maximum number of tries.
PATIENCE, _TRIES = 10.0, 3
_WEB = ("http://", "https://")


def send_notice_with_retries(receiver: str, notice: Notice, root: Path) -> str | None:
    """Send a notice to its receiver, with several tries.

    Returns None on success, otherwise the reason of the failure.
    """
    body = json.dumps(notice, ensure_ascii=False).encode()
    error: str | None = None
    for number in range(_TRIES):
        try:
            _send_notice(receiver, body, root)
        except (OSError, ValueError, subprocess.SubprocessError) as failed:
            error = str(failed)
            time.sleep(0.2 * 2**number)
        else:
            return None
    return error


def check_receiver(receiver: str) -> None:
    """Raise ValueError, with the reason, if notices cannot be sent to this receiver."""
    if not receiver.startswith(_WEB):
        if "://" in receiver:
            raise ValueError("a web address must start with http:// or https://")
        if not shlex.split(receiver):
            raise ValueError("the value is empty. Give a program or a web address")
        return
    address = urlsplit(receiver)
    is_spaced = any(letter.isspace() for letter in receiver)
    if not address.hostname or address.port == 0 or is_spaced:
        raise ValueError(
            "this value is not a valid web address. Use an address such as https://host/path"
        )


def _send_notice(receiver: str, body: bytes, root: Path) -> None:
    if receiver.startswith(_WEB):
        _post_notice(receiver, body)
        return
    # Pass the notice on stdin and start the program without a shell, so that no text in a notice is
    # executed.
    subprocess.run(
        shlex.split(receiver),
        input=body,
        # Use another folder if the workflow folder is missing, which may be the reason for the
        # notice.
        cwd=root if root.is_dir() else "/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=True,
    )


def _post_notice(address: str, body: bytes) -> None:
    """Send a notice to a web address by HTTP POST. Treat a redirection as an error."""
    import urllib.request  # Import here, because a program as receiver does not need this module.

    class NoRedirection(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "wfctl"}
    request = urllib.request.Request(address, body, headers)
    urllib.request.build_opener(NoRedirection).open(request, timeout=PATIENCE).close()
