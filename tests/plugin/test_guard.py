"""The guard that runs before each tool of an agent's client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.install.clients import SOURCE

GUARD = SOURCE / "hooks" / "guard.sh"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that looks like a root."""
    (tmp_path / ".wfctl").mkdir()
    (tmp_path / ".wfctl/config.toml").touch()
    for name in ("stage-1", "memory/state", "conductor/tracks/t1"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def guarded(folder: Path, shell: str = "sh", **given: Any) -> tuple[int, str]:
    """Ask the guard about a tool's input; return its exit code and what it says."""
    asked = json.dumps({"cwd": str(folder), "tool_input": given}, separators=(",", ":"))
    done = subprocess.run(
        [shell, str(GUARD)], input=asked, capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("workflow-state.json", "wfctl amend propose"),
        ("progress.log", "wfctl note TEXT"),
        ("./stage-1/../progress.log", "wfctl note TEXT"),
        (".wfctl/events.db", "wfctl log"),
        ("login.state.json", "wfctl machine update"),
        ("memory/state/phase.json", "wfctl machine update"),
        ("conductor/tracks/t1/metadata.json", "wfctl machine update"),
    ],
)
def test_a_file_that_wfctl_writes_is_denied_with_the_right_command(
    root: Path, path: str, command: str
) -> None:
    """By its path from the root, and by its whole one."""
    for named in (path, str(root / path)):
        code, said = guarded(root, file_path=named, old_string="a", new_string="b")
        assert code == 2
        assert f"`{command}" in said


def test_a_link_to_a_folder_leads_to_the_same_answer(root: Path, tmp_path: Path) -> None:
    """The folder is followed to where it is."""
    (tmp_path / "elsewhere").symlink_to(root)
    assert guarded(tmp_path, file_path=str(tmp_path / "elsewhere/progress.log"))[0] == 2


@pytest.mark.parametrize(
    "path", ["stage-1/progress.log", "doc.md", "stage-1/out.state.json", "my-progress.log.txt"]
)
def test_files_of_the_user_are_let_through(root: Path, path: str) -> None:
    """Only the files of the root itself are wfctl's, whatever stands in the content."""
    content = 'see progress.log: "file_path":"progress.log" > workflow-state.json'
    assert guarded(root, file_path=str(root / path), content=content) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        "echo done >> progress.log",
        'echo done > "progress.log"',
        "jq . x >workflow-state.json",
        "sed -i s/failed/completed/ workflow-state.json",
        "cat x | tee -a progress.log",
        "rm -rf .wfctl",
        "cd stage-1; mv ../progress.log old",
        "sqlite3 .wfctl/events.db 'delete from events'",
        "cp new.json workflow-state.json",
        "git checkout -- workflow-state.json",
        "python3 -c \"import json; json.dump({}, open('login.state.json', 'w'))\"",
        "*** Begin Patch\n*** Update File: workflow-state.json\n@@\n-a\n+b",
    ],
)
def test_a_command_that_writes_them_is_denied(root: Path, command: str) -> None:
    """As far as its text shows it."""
    assert guarded(root, command=command, description="x")[0] == 2


@pytest.mark.parametrize(
    "command",
    [
        "cat progress.log 2>/dev/null | tail > /tmp/last.txt",
        "grep -c completed workflow-state.json 2>&1",
        "git add progress.log workflow-state.json && git commit -m 'a > b'",
        "cp progress.log /tmp/kept.log",
        "wfctl drift revert workflow-state.json",
        "ls -la .wfctl",
        "python3 analyse.py > out.json",
    ],
)
def test_a_command_that_reads_them_is_let_through(root: Path, command: str) -> None:
    """Looking is free."""
    assert guarded(root, command=command, description="writes progress.log?") == (0, "")


def test_where_there_is_no_log_nothing_is_denied(tmp_path: Path) -> None:
    """The names are nobody's elsewhere."""
    assert guarded(tmp_path, file_path="progress.log") == (0, "")
    assert guarded(tmp_path, command="rm progress.log") == (0, "")


@pytest.mark.parametrize("text", ["", "{", "null", '{"tool_input":[]}', '{"cwd":"/nowhere"}'])
def test_what_is_no_call_is_let_through(text: str) -> None:
    """A client with other words is not stopped by us."""
    done = subprocess.run(["sh", str(GUARD)], input=f"{text}progress.log", text=True, check=False)
    assert done.returncode == 0


def test_it_starts_no_program_but_one(root: Path) -> None:
    """It runs before each tool: with an empty path of programs it fails at cat alone."""
    words = GUARD.read_text()
    code = [line for line in words.splitlines() if not line.lstrip().startswith("#")]
    assert "\n".join(code).count("$(") == 1
    assert not {"grep", "awk", "jq"} & set(words.split())
