"""The git history of a stranger's folder: its configuration names programs, and none is run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.adoption import support as s
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
    """A workflow's files with two versions in git."""
    need_programs("git")
    first, second = tmp_path / "first", tmp_path / "second"
    s.write_files(first, s.document())
    s.write_files(second, s.document(s.stage(1, "ready")))
    return s.committed(tmp_path / "w", [first, second])


def git(folder: Path, *words: str, given: str | None = None) -> str:
    """Run git as whoever made the folder did."""
    done = subprocess.run(
        ["git", "-C", str(folder), *words], input=given, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def program(tmp_path: Path) -> tuple[Path, Path]:
    """Return a program that leaves a trace, and the trace."""
    trace = tmp_path / "trace"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho ran >> {trace}\n")
    evil.chmod(0o755)
    return evil, trace


def test_no_program_looks_at_signatures(folder: Path, tmp_path: Path) -> None:
    """log.showSignature has git run what gpg.program names."""
    evil, trace = program(tmp_path)
    tree, parent = git(folder, "rev-parse", "HEAD^{tree}", "HEAD^").split()
    text = _SIGNED.format(tree=tree, parent=parent)
    commit = git(folder, "hash-object", "-t", "commit", "-w", "--stdin", given=text)
    git(folder, "reset", "-q", "--hard", commit)
    git(folder, "config", "log.showSignature", "true")
    git(folder, "config", "gpg.program", str(evil))
    git(folder, "log", "-1")
    assert trace.exists()  # the attack works on git itself
    trace.unlink()
    assert s.import_(folder, "--git").code == 0
    assert not trace.exists()


@pytest.mark.parametrize("way", ["ext", "file"])
def test_nothing_is_fetched_that_is_missing(folder: Path, tmp_path: Path, way: str) -> None:
    """A partial clone fetches an object by a program that its configuration names."""
    evil, trace = program(tmp_path)
    blob = git(folder, "rev-parse", f"HEAD:{s.STATE}")
    (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    url = f"ext::{evil}" if way == "ext" else f"file://{folder}"
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
    line = ["git", "-C", str(folder), "cat-file", "blob", blob]
    subprocess.run(line, check=False, capture_output=True)
    assert trace.exists()  # the attack works on git itself
    trace.unlink()
    answer = s.import_(folder, "--git")
    assert answer.code == 3, answer
    assert not trace.exists()


@pytest.mark.parametrize("name", ["core.fsmonitor", "core.pager", "diff.external"])
def test_no_other_program_of_the_folder_is_run(folder: Path, tmp_path: Path, name: str) -> None:
    """Nor one for a look at the files, for pages, or for differences."""
    evil, trace = program(tmp_path)
    git(folder, "config", name, str(evil))
    assert s.import_(folder, "--git").code == 0
    assert not trace.exists()
