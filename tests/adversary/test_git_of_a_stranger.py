"""wfctl runs no program that the configuration of a stranger's git repository names."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adoption import support as s
from tests.cli.support import Place
from tests.need import need_programs

_SIGNED = """tree {tree}
parent {parent}
author a <a@b.c> 1774951200 +0000
committer a <a@b.c> 1774951200 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 aGVsbG8=
 -----END PGP SIGNATURE-----

signed
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a workflow folder with two versions in git."""
    need_programs("git")
    first, second = tmp_path / "first", tmp_path / "second"
    s.write_files(first, s.document())
    s.write_files(second, s.document(s.stage(1, "ready")))
    return s.committed(tmp_path / "w", [first, second])


def git(folder: Path, *words: str, given: str | None = None) -> str:
    """Run git in a folder under the identity of its creator, and return its output."""
    done = try_git(folder, *words, given=given)
    done.check_returncode()
    return done.stdout.strip()


def try_git(
    folder: Path, *words: str, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git as the repository's creator, and return its output and exit code."""
    return subprocess.run(
        ["git", "-C", str(folder), *words],
        input=given,
        env={**os.environ, **s.git_identity()},
        check=False,
        capture_output=True,
        text=True,
    )


def program(tmp_path: Path) -> tuple[Path, Path]:
    """Write a program that creates a trace file when it runs; return both paths."""
    trace = tmp_path / "trace"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho ran >> {trace}\n")
    evil.chmod(0o755)
    return evil, trace


def signed(folder: Path, evil: Path) -> None:
    """Make `git log` verify signatures with the program in `gpg.program`."""
    tree, parent = git(folder, "rev-parse", "HEAD^{tree}", "HEAD^").split()
    text = _SIGNED.format(tree=tree, parent=parent)
    commit = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", given=text)
    git(folder, "reset", "-q", "--hard", commit)
    git(folder, "config", "log.showSignature", "true")
    git(folder, "config", "gpg.program", str(evil))


def promised(folder: Path, evil: Path, url: str) -> None:
    """Make a partial clone, which fetches missing objects with a configured program."""
    for name in (f"HEAD:{s.STATE}", "HEAD^"):
        lost = git(folder, "rev-parse", name)
        (folder / ".git/objects" / lost[:2] / lost[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": url,
        "remote.origin.uploadpack": str(evil),
        "protocol.ext.allow": "always",
        "protocol.file.allow": "always",
    }.items():
        git(folder, "config", name, value)


def hooked(folder: Path, evil: Path) -> None:
    """Install a hook that git runs at each change of a reference."""
    hook = folder / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(evil.read_bytes())
    hook.chmod(0o755)


def set_to(folder: Path, evil: Path, name: str) -> None:
    """Set a setting of the repository to the path of the program."""
    git(folder, "config", name, str(evil))


def signing(folder: Path, evil: Path) -> None:
    """Make git sign each tag with the program in `gpg.program`."""
    git(folder, "config", "tag.gpgSign", "true")
    set_to(folder, evil, "gpg.program")


#: For each attack: the function that prepares it, and the git command that would run the program.
WAYS: dict[str, tuple[Callable[[Path, Path], None], list[str]]] = {
    "signature": (signed, ["log", "-1"]),
    "ext": (lambda folder, evil: promised(folder, evil, f"ext::{evil}"), ["log"]),
    "file": (lambda folder, evil: promised(folder, evil, f"file://{folder}"), ["log"]),
    "hook": (hooked, ["tag", "-a", "-m", "x", "x"]),
    "fsmonitor": (lambda folder, evil: set_to(folder, evil, "core.fsmonitor"), ["status"]),
    "editor": (lambda folder, evil: set_to(folder, evil, "core.editor"), ["tag", "-a", "y"]),
    "tag": (signing, ["tag", "-a", "-m", "x", "z"]),
}
COMMANDS = {
    "session": ["session", "start"],
    "checkpoint": ["checkpoint", "--git-tag"],
    "machine": ["machine", "drift", "login"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", [*COMMANDS, "import"])
def test_program_named_by_a_repository_is_not_run(
    folder: Path, tmp_path: Path, way: str, command: str
) -> None:
    """wfctl commands that use git never run the program, whatever git setting names it."""
    evil, trace = program(tmp_path)
    if command != "import":
        assert s.import_(folder, "--consent", "trust").code == 0
        place = Place(folder)
        machine = {"worktrees": {"a": {"branch": "a", "path": "a"}}}
        place.done("machine", "init", "login", "--type", "feature", "--data", json.dumps(machine))
    lay, falls_for_it = WAYS[way]
    lay(folder, evil)
    try_git(folder, *falls_for_it)
    assert trace.exists()  # the attack works on git itself
    trace.unlink()
    if command == "import":
        s.import_(folder, "--git")
    else:
        answer = Place(folder).call(*COMMANDS[command])
        assert answer.code == 0 or (command != "session" and answer.code in (3, 7)), answer
    assert not trace.exists()
