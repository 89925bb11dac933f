"""Run git. All git calls of wfctl are here.

The repository may come from another person, so settings that would run its programs are disabled.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Git settings that could run a program or fetch an object from another place, set to harmless
#: values.
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
#: This setting overrides every ``protocol.NAME.allow``.
_NOWHERE = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
#: Prefixes of the git environment variables to keep. Other variables could select another
#: repository.
_OWN = ("GIT_AUTHOR_", "GIT_COMMITTER_")


def run_git(
    folder: Path, *arguments: str, text: str = "", within: float | None = None
) -> subprocess.CompletedProcess[bytes] | None:
    """Run git in the repository that contains ``folder``.

    Return None if git is not installed. ``text`` is the standard input. Raises
    `subprocess.TimeoutExpired` after ``within`` seconds.
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


#: Maximum number of seconds for each git command of `describe_code_commit`.
_WITHIN = 2.0
#: Settings that disable git filters, because filters would run programs on files.
_FILTERS = {"clean": "", "smudge": "", "process": "", "required": "false"}


def describe_code_commit(
    root: Path, used: Collection[str], made: Collection[str]
) -> dict[str, Any] | None:
    """Return the Git commit of a workflow's code, and the files that differ from it.

    ``commit`` is the hash of the commit. ``files`` contains the files of ``used`` that differ from
    the commit or are not in it. ``dirty`` states whether these or any other files of the repository
    differ. Files in ``made`` are ignored. All paths are relative to the root. Return None if there
    is no commit, or if git takes too long.
    """
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        commit, _, place = _run_git_text(root, "rev-parse", "HEAD", "--show-prefix").partition("\n")
        place = place.removesuffix("\n")
        written = tuple(f"{place}{path}/" for path in made)
        held = _run_git_text(root, "ls-files", "-z", "--full-name", ":/").split("\0")
        changed = _find_changed_files(root)
        own = {os.path.normpath(place + path): path for path in used}
        others = changed | (own.keys() - set(held))
        found = [one for one in others if not f"{one}/".startswith(written)]
        files = sorted(own[one] for one in found if one in own)
        return {"commit": commit, "dirty": bool(found), "files": files}
    return None


def _find_changed_files(root: Path) -> set[str]:
    """Return the files that differ from the commit, relative to the top of the repository."""
    listed = run_git(
        root, "config", "-z", "--name-only", "--get-regexp", r"^filter\.", within=_WITHIN
    )
    keys = os.fsdecode(listed.stdout).split("\0") if listed is not None else []
    if any("=" in key for key in keys):
        raise ValueError(keys)  # no setting can switch it off
    ends = ((key, _FILTERS.get(key.rpartition(".")[2])) for key in keys)
    off = [word for key, end in ends if end is not None for word in ("-c", f"{key}={end}")]
    # Ignore submodules, because git would use their own settings there, and these may run programs.
    how = ("--untracked-files=no", "--ignore-submodules=all", "--no-renames", "-z")
    found = _run_git_text(root, *off, "status", "--porcelain", *how)
    return {line[3:] for line in found.split("\0") if line}


def _run_git_text(root: Path, *arguments: str) -> str:
    """Return the output of a git command as text. Raises ValueError if the command fails."""
    done = run_git(root, *arguments, within=_WITHIN)
    if done is None or done.returncode != 0:
        raise ValueError(arguments)
    return os.fsdecode(done.stdout)
