"""The guard that runs before each tool of an agent's client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.install import SOURCE
from tests.cli.support import call

GUARD = SOURCE / "hooks" / "guard.sh"


def _calls(name: str) -> list[str]:
    """Return the calls of a list, which stand behind its first words."""
    text = Path(__file__).with_name(f"{name}.txt").read_text()
    return text.removesuffix("\n").split("\n%%\n")[1:]


HARMLESS, HARMFUL = _calls("harmless"), _calls("harmful")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that looks like a root."""
    (tmp_path / ".wfctl").mkdir()
    (tmp_path / ".wfctl/config.toml").touch()
    for name in ("stage-1", "memory/state", "conductor/tracks/t1"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "workflow-state.json",
        "progress.log",
        "login.state.json",
        "memory/state/phase.json",
        "conductor/tracks/t1/metadata.json",
    ):
        (tmp_path / name).touch()
    return tmp_path


def guarded(folder: Path, tool: str | None = None, **given: Any) -> tuple[int, str]:
    """Ask the guard about a tool's input; return its exit code and what it says."""
    named = {} if tool is None else {"tool_name": tool}
    asked = json.dumps({"cwd": str(folder), **named, "tool_input": given})
    done = subprocess.run(
        ["sh", str(GUARD)], input=asked, capture_output=True, text=True, check=False
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


@pytest.mark.parametrize("command", HARMFUL)
def test_a_command_that_writes_them_is_denied(root: Path, command: str) -> None:
    """In the plain forms; it says which command is the right one."""
    code, said = guarded(root, command=command, description="x")
    assert code == 2
    assert "`wfctl " in said


@pytest.mark.parametrize("command", HARMLESS)
def test_a_command_that_does_not_is_let_through(root: Path, command: str) -> None:
    """Looking is free, and so is any text that only names them."""
    assert guarded(root, command=command, description="writes progress.log?") == (0, "")


def test_the_lists_are_as_long_as_they_say() -> None:
    """A list that shrinks proves less."""
    assert len(set(HARMLESS)) >= 200
    assert len(set(HARMFUL)) >= 60


@pytest.mark.parametrize("tool", ["Read", "read", "read_file", "grep", "Glob", "mcp__x__y"])
def test_a_tool_that_reads_is_let_through(root: Path, tool: str) -> None:
    """In clients that ask before each of their tools."""
    assert guarded(root, tool, file_path="progress.log") == (0, "")
    assert guarded(root, tool, command="rm progress.log") == (0, "")


@pytest.mark.parametrize("tool", ["Edit", "write", "replace", "write_file", "NotebookEdit"])
def test_a_tool_that_writes_is_denied(root: Path, tool: str) -> None:
    """By the name that each client gives it."""
    assert guarded(root, tool, file_path="progress.log")[0] == 2


def test_a_command_runs_in_the_folder_that_it_names(root: Path) -> None:
    """Some clients name one beside the command."""
    assert guarded(root, "bash", command="echo x > progress.log", workdir="stage-1")[0] == 0
    assert guarded(root, "bash", command="rm progress.log", workdir=str(root))[0] == 2


def test_a_root_is_not_removed_from_within(root: Path) -> None:
    """Another root, such as one of a trial, is."""
    assert guarded(root / "stage-1", command=f"rm -rf '{root}' # progress.log")[0] == 2
    assert guarded(root.parent, command=f"rm -rf '{root}' # progress.log")[0] == 0


@pytest.mark.parametrize(
    "command",
    [
        "cat > docs/x.md <<'EOF'\n" + 'see "progress.log" \n' * 5000 + "EOF",
        'git commit -m "' + "see progress.log; " * 5000 + '"',
        "python3 <<'EOF'\n" + 'open("progress.log").read()\n' * 3000 + "EOF",
    ],
)
def test_a_long_command_is_judged_at_once(root: Path, command: str) -> None:
    """A client gives a hook seconds; the guard takes some milliseconds for 100 kB."""
    done = subprocess.run(
        ["sh", str(GUARD)],
        input=json.dumps({"cwd": str(root), "tool_input": {"command": command}}),
        text=True,
        timeout=2,
        check=False,
    )
    assert done.returncode == 0


#: Asks the plugin of opencode about a tool's call, as the client does.
_OPENCODE = """
const { Wfctl } = await import(process.argv[1])
const hooks = await Wfctl({ directory: process.argv[2] })
const [tool, args] = JSON.parse(process.argv[3])
try { await hooks["tool.execute.before"]({ tool }, { args }); console.log("") }
catch (error) { console.log(error.message) }
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("tool", "args", "said"),
    [
        ("read", {"filePath": "progress.log"}, ""),
        ("grep", {"pattern": "x", "path": ".wfctl"}, ""),
        ("bash", {"command": "cat progress.log", "description": "rm progress.log"}, ""),
        ("edit", {"filePath": "progress.log", "oldString": "a", "newString": "b"}, "wfctl note"),
        ("bash", {"command": "rm progress.log"}, "wfctl note"),
        ("patch", {"patchText": "*** Begin Patch\n*** Delete File: progress.log\n"}, "wfctl note"),
    ],
)
def test_opencode_asks_the_same_guard(
    root: Path, tool: str, args: dict[str, str], said: str
) -> None:
    """Its plugin passes the call on as it is."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    assert call("--root", str(root), "agent", "install", "opencode", "--project").code == 0
    module = root / ".opencode/plugins/wfctl.mjs"
    module.write_bytes((root / ".opencode/plugins/wfctl.js").read_bytes())
    done = subprocess.run(
        [node, "--input-type=module", "-e", _OPENCODE, module, root, json.dumps([tool, args])],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.stdout.strip() == "" if not said else said in done.stdout


def test_where_there_is_no_log_nothing_is_denied(tmp_path: Path) -> None:
    """The names are nobody's elsewhere."""
    assert guarded(tmp_path, file_path="progress.log") == (0, "")
    assert guarded(tmp_path, command="rm progress.log") == (0, "")


@pytest.mark.parametrize("text", ["", "{", "null", '{"tool_input":[]}', '{"cwd":"/nowhere"}'])
def test_what_is_no_call_is_let_through(text: str) -> None:
    """A client with other words is not stopped by us."""
    done = subprocess.run(["sh", str(GUARD)], input=f"{text}progress.log", text=True, check=False)
    assert done.returncode == 0


def test_without_its_programs_it_stops_nobody(root: Path) -> None:
    """It needs cat and awk; a machine that lacks them has no guard."""
    done = subprocess.run(
        ["/bin/sh", str(GUARD)],
        input=json.dumps({"cwd": str(root), "tool_input": {"command": "rm progress.log"}}),
        text=True,
        env={"PATH": "/nowhere"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
