"""The one door to git: the repository may be a stranger's, and none of its programs is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

#: Each of these would run a program, or ask for an object elsewhere.
_OFF = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "core.sshCommand": "false",
    "core.askPass": "",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "tag.gpgSign": "false",
    "protocol.allow": "never",
}
_ALONE = ("--no-pager", "--no-optional-locks", "--no-replace-objects")
#: The last word on protocols, which goes before every ``protocol.NAME.allow``.
_NOWHERE = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
#: Of the caller's own variables for git: any other would lead to another repository.
_OWN = ("GIT_AUTHOR_", "GIT_COMMITTER_")


def git(
    folder: Path, *arguments: str, text: str = "", within: float | None = None
) -> subprocess.CompletedProcess[bytes] | None:
    """Run git on the repository that holds ``folder``; None if there is no git.

    ``text`` is what it reads on stdin. Raises `subprocess.TimeoutExpired` where it takes longer
    than ``within`` seconds.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith(_OWN)}
    off = [word for name, value in _OFF.items() for word in ("-c", f"{name}={value}")]
    try:
        return subprocess.run(
            ["git", "-C", str(folder), *_ALONE, *off, *arguments],
            input=text.encode(),
            env=kept | _NOWHERE,
            capture_output=True,
            check=False,
            timeout=within,
        )
    except FileNotFoundError:
        return None
