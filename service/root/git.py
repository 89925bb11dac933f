"""The one door to git: the repository may be a stranger's, and none of its programs is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

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


#: Seconds that each question of `code_of` may take.
_WITHIN = 2.0
#: What git would run on the content of a file, and what says that it must.
_FILTERS = {"clean": "", "smudge": "", "process": "", "required": "false"}


def code_of(root: Path, used: Collection[str], made: Collection[str]) -> dict[str, Any] | None:
    """Return the commit of what lies in a root, and whether it is as the commit has it.

    ``commit`` is in hex; ``files`` are those of ``used`` that are others than in the commit, or
    are not in it; ``dirty`` says that there is one, or that another file of the repository differs.
    Those that are ``made``, or lie below them, do not count. All paths are relative to the root.
    None if there is no commit, or git does not name it in time.
    """
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        commit, _, place = _asked(root, "rev-parse", "HEAD", "--show-prefix").partition("\n")
        place = place.removesuffix("\n")
        written = tuple(f"{place}{path}/" for path in made)
        held = _asked(root, "ls-files", "-z", "--full-name", ":/").split("\0")
        changed = _changed(root)
        own = {os.path.normpath(place + path): path for path in used}
        others = changed | (own.keys() - set(held))
        found = [one for one in others if not f"{one}/".startswith(written)]
        files = sorted(own[one] for one in found if one in own)
        return {"commit": commit, "dirty": bool(found), "files": files}
    return None


def _changed(root: Path) -> set[str]:
    """Return the files that differ from the commit, relative to the top of the repository."""
    listed = git(root, "config", "-z", "--name-only", "--get-regexp", r"^filter\.", within=_WITHIN)
    keys = os.fsdecode(listed.stdout).split("\0") if listed is not None else []
    if any("=" in key for key in keys):
        raise ValueError(keys)  # no word of ours can switch it off
    ends = ((key, _FILTERS.get(key.rpartition(".")[2])) for key in keys)
    off = [word for key, end in ends if end is not None for word in ("-c", f"{key}={end}")]
    # In a submodule git would be run by a configuration of its own.
    how = ("--untracked-files=no", "--ignore-submodules=all", "--no-renames", "-z")
    found = _asked(root, *off, "status", "--porcelain", *how)
    return {line[3:] for line in found.split("\0") if line}


def _asked(root: Path, *arguments: str) -> str:
    done = git(root, *arguments, within=_WITHIN)
    if done is None or done.returncode != 0:
        raise ValueError(arguments)
    return os.fsdecode(done.stdout)
