"""A malicious machine over SSH: wfctl writes only the expected files."""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import PROMPT, Sshd, init, write_machine
from tests.cluster.test_far_loop import sweep
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: Program on the remote account that adds false rows to each requested list of files, and false
#: files to each archive.
_EVIL = """
wfctl_evil_place={evil}
trap 'case $BASH_COMMAND in
    list_left\\ *) wfctl_evil=left ;;
    list_results*|list_left_results*) wfctl_evil=results ;;
    code=*) cat "$wfctl_evil_place/$wfctl_evil.rows" 2>/dev/null ;;
esac' DEBUG
[ -e "$wfctl_evil_place/packed" ] && tar() {{
    command tar "$@" || return
    case $1 in
        czfh)
            gunzip -c "$2" > "$2.more"
            command tar rf "$2.more" -C "$wfctl_evil_place/packed" \
                $(cd "$wfctl_evil_place/packed" && find * .[a-z]* -type f)
            gzip -c "$2.more" > "$2"; rm "$2.more" ;;
    esac
}}
"""


class Evil:
    """A remote account whose programs send false lists and archives."""

    def __init__(self, sshd: Sshd) -> None:
        self.place = sshd.folder / "evil"
        self.place.mkdir()
        home = sshd.folder / "home"
        (self.place / "env.sh").write_text(_EVIL.format(evil=self.place))
        (home / ".bashrc").write_text(f"export BASH_ENV={self.place}/env.sh; . $BASH_ENV\n")

    def add_rows(self, listing: str, *rows: str) -> None:
        """Append false rows to a list of files: ``left`` (leftover files) or ``results``."""
        (self.place / f"{listing}.rows").write_text("".join(f"{row}\n" for row in rows))

    def pack(self, path: str, content: str) -> None:
        """Add a false file to each archive that DPDispatcher downloads."""
        file = self.place / "packed" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def _coded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _file(path: str, content: str) -> str:
    digest = sha256(content.encode()).hexdigest()
    return f"file\t{_coded(path)}\t{len(content)}\t{digest}"


def _link(path: str, target: str) -> str:
    return f"link\t{_coded(path)}\t{_coded(target)}"


def _stage(command: str) -> dict[str, Any]:
    outputs = ["stage-1/out.txt"]
    return {"id": "stage-1", "name": "s", "outputs": outputs, "parameters": {"command": command}}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Create a file outside the root that the remote machine will try to overwrite."""
    file = tmp_path / "victim/authorized_keys"
    file.parent.mkdir()
    file.write_text("mine\n")
    return file


@pytest.fixture
def evil(sshd: Sshd) -> Evil:
    """Make the programs of the remote account send false lists and archives."""
    return Evil(sshd)


@pytest.fixture
def far(workflow: Workflow, sshd: Sshd, tmp_path: Path) -> str:
    """Write a machine file for the remote machine, and return its path."""
    return write_machine(workflow, machine(sshd, tmp_path / "far"))


def test_leftover_below_a_received_link_overwrites_nothing(
    workflow: Workflow, evil: Evil, far: str, victim: Path
) -> None:
    """A listed link to a local folder is not created, so no file outside the root changes."""
    (workflow.root / "stage-1").mkdir()
    stage = _stage('mkdir x; echo "theirs" > x/authorized_keys; echo 1 > out.txt; echo 2 > more')
    init(workflow, far, stage)
    evil.add_rows("left", _link("stage-1/x", str(victim.parent)), _link("stage-1/y", "../../.."))
    workflow.succeed("run", **PROMPT)
    assert victim.read_text() == "mine\n"
    assert (workflow.root / "stage-1/more").read_text() == "2\n"
    assert not os.path.lexists(workflow.root / "stage-1/x")
    assert not os.path.lexists(workflow.root / "stage-1/y")


@pytest.mark.parametrize("backward", ["out.txt", "*"])
def test_agent_instructions_and_tool_settings_stay_out_of_the_stage_folder(
    workflow: Workflow, far: str, backward: str
) -> None:
    """Files such as CLAUDE.md and .gitignore that a remote job wrote are not stored there."""
    names = ("CLAUDE.md", "AGENTS.md", ".gitignore", ".envrc", "Makefile", ".claude/settings.json")
    command = f"mkdir .claude; touch {' '.join(names)}; echo 2 > more; echo 1 > out.txt"
    stage = _stage(command)
    stage["parameters"]["backward_files"] = [backward]
    init(workflow, far, stage)
    workflow.succeed("run", **PROMPT)
    assert (workflow.root / "stage-1/more").read_text() == "2\n"
    assert not [name for name in names if (workflow.root / "stage-1" / name).exists()]


@pytest.mark.parametrize("backward", ["out.txt", "*"])
def test_modules_of_a_job_stay_out_of_the_stage_folder(
    workflow: Workflow, far: str, backward: str
) -> None:
    """wfctl does not store a job's Python modules where a local check would import them."""
    (workflow.root / "stage-1").mkdir()
    (workflow.root / "stage-1/check.py").write_text("import json\nassert json.loads('1') == 1\n")
    command = "mkdir json __pycache__; echo 2 > more; echo 1 > out.txt; "
    command += "echo 'loads = print' | tee json.py json/__init__.py json.so __pycache__/json.x.pyc"
    stage = _stage(command)
    stage["parameters"] |= {"backward_files": [backward], "verify": "python3 stage-1/check.py"}
    init(workflow, far, stage)
    workflow.succeed("run", **PROMPT)
    assert (workflow.root / "stage-1/more").read_text() == "2\n"
    assert not [*(workflow.root / "stage-1").glob("json*")]
    assert not (workflow.root / "stage-1/__pycache__").exists()
    workflow.succeed("audit", "bypasses")


@pytest.mark.parametrize(
    "row",
    [
        _file("stage-1//.attempts/x/y", "theirs\n"),
        _file("stage-1/.git/hooks/post-checkout", "theirs\n"),
        _file(".wfctl/config.toml", "theirs\n"),
        "file\tnonsense",
        f"file\t{_coded('stage-1/big')}\t{10**18}\t{'a' * 64}",
        f"file\t{b64encode(b'stage-1/bad' + bytes([255])).decode()}\t0\t{sha256().hexdigest()}",
        _file("stage-1/DPDISP_DONE", "theirs\n"),
    ],
)
def test_file_name_that_no_job_wrote_is_not_created(
    workflow: Workflow, evil: Evil, far: str, row: str
) -> None:
    """If the machine lists a dangerous or false file name, wfctl creates no such file."""
    init(workflow, far, _stage("echo 1 > out.txt"))
    before = (workflow.root / ".wfctl/config.toml").exists()
    evil.add_rows("left", row)
    workflow.succeed("run", **PROMPT)
    assert not (workflow.root / "stage-1/.git").exists()
    assert not list((workflow.root / "stage-1").glob("b*"))
    assert (workflow.root / "stage-1/DPDISP_DONE").read_text() != "theirs\n"
    assert (workflow.root / ".wfctl/config.toml").exists() == before
    workflow.succeed("fsck")


@pytest.mark.parametrize(
    ("path", "backward"), [(".wfctl/config.toml", ["out.txt"]), ("data/in", ["out.txt", "out.*"])]
)
def test_archive_of_results_creates_only_results(
    workflow: Workflow, evil: Evil, far: str, path: str, backward: list[str]
) -> None:
    """An additional file in the archive of results is ignored.

    wfctl then downloads each listed result once, even if two patterns match.
    """
    (workflow.root / "data").mkdir()
    (workflow.root / "data/in").write_text("mine\n")
    stage = {**_stage("echo 1 > out.txt"), "inputs": ["data/in"]}
    stage["parameters"]["backward_files"] = backward
    init(workflow, far, stage)
    evil.pack(path, "theirs\n")
    workflow.succeed("run", **PROMPT)
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    place = workflow.root / path
    assert not place.exists() or place.read_text() != "theirs\n"


def test_script_in_a_folder_of_results_is_not_replaced(workflow: Workflow, far: str) -> None:
    """All files of the stage are downloaded except the script that was sent to the job."""
    (workflow.root / "stage-1").mkdir()
    script = workflow.root / "stage-1/check.py"
    script.write_text("print(1)\n")
    stage = _stage("echo 1 > out.txt; echo 2 > more.txt; echo theirs > check.py")
    stage["inputs"] = ["stage-1/check.py"]
    stage["parameters"]["backward_files"] = ["*"]
    init(workflow, far, stage)
    workflow.succeed("run", **PROMPT)
    assert (workflow.root / "stage-1/more.txt").read_text() == "2\n"
    assert script.read_text() == "print(1)\n"


@pytest.mark.parametrize("code", [0, 3])
def test_pattern_for_all_files_downloads_no_file_of_wfctl(
    workflow: Workflow, evil: Evil, far: str, code: int
) -> None:
    """With the pattern `*`, files from the machine replace no file that belongs to wfctl."""
    own = [".attempts/.gitignore", ".attempts/att-0009-x/f", ".monitor.lock", "submission.json"]
    own += ["dpdisp-run.sh", "DPDISP_DONE"]
    stage = _stage(f"echo 1 > out.txt; echo 2 > more.txt; exit {code}")
    stage["parameters"]["backward_files"] = ["*"]
    init(workflow, far, stage)
    evil.add_rows("results", *(_file(f"stage-1/{path}", "theirs\n") for path in own))
    for path in own:
        evil.pack(f"stage-1/{path}", "theirs\n")
    assert workflow.call("run", **PROMPT).returncode == (6 if code else 0)
    assert (workflow.root / "stage-1/more.txt").read_text() == "2\n"
    places = [workflow.root / "stage-1" / path for path in own]
    assert not [path for path in places if path.is_file() and path.read_text() == "theirs\n"]


@pytest.mark.parametrize("code", [0, 4])
def test_results_replace_no_file_of_wfctl_and_no_script(
    workflow: Workflow, far: str, code: int
) -> None:
    """If a job changes files that were not sent to it, the local files stay unchanged.

    After exit code 4, wfctl instead of DPDispatcher downloads the results.
    """
    root = workflow.root
    for path in ("stage-1/check.py", "stage-2/later", "data/other"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("import sys; sys.exit(0)  # mine\n")
    files = "check.py submission.json dpdisp-run.sh .monitor.lock new ../stage-2/later"
    files += " ../stage-2/missing ../data/other ../init.sh ../workflow-state.json"
    evil = f"mkdir -p ../stage-2 ../data; for f in {files}; do echo theirs > $f; done"
    first = _stage(f"{evil}; echo 1 > out.txt; exit {code}")
    first["parameters"] |= {
        "forward_files": [],
        "backward_files": ["out.txt", "*"],
        "verify": "python3 stage-1/check.py",
    }
    second: dict[str, Any] = {"id": "stage-2", "name": "t", "inputs": ["data/other"]}
    second["parameters"] = {"command": "python3 later && python3 missing"}
    init(workflow, far, first, second)
    workflow.call("dispatch", "stage-1", "--sync", **PROMPT)
    workflow.call("stage", "complete", "stage-1", **PROMPT)
    theirs = [one for one in root.rglob("*") if one.is_file() and one.read_bytes() == b"theirs\n"]
    found = {str(one.relative_to(root)) for one in theirs if "/.attempts/" not in str(one)}
    assert found == {"stage-1/new"}


def test_error_file_of_a_failed_job_is_not_left_in_the_root(workflow: Workflow, far: str) -> None:
    """The end of the job's stderr is stored in the folder of the attempt."""
    init(workflow, far, _stage("echo oh no >&2; exit 3"))
    before = {path.name for path in workflow.root.iterdir()}
    assert workflow.call("run", **PROMPT).returncode == 6
    assert {path.name for path in workflow.root.iterdir()} - before <= {"stage-1", "progress.log"}
    [kept] = workflow.root.glob("stage-1/.attempts/*/*_last_err_file")
    assert "oh no" in kept.read_text()
    assert "oh no" in workflow.succeed("show", "stage-1")


def test_refused_archive_is_not_left_in_the_root(workflow: Workflow, evil: Evil, far: str) -> None:
    """DPDispatcher stops before it removes the archive, so wfctl removes it."""
    init(workflow, far, _stage("echo 1 > out.txt"))
    evil.pack("stage-9/x", "theirs\n")
    workflow.call("run", **PROMPT)
    assert not (workflow.root / "stage-9").exists()
    assert not list(workflow.root.glob("*.tar*"))


def test_sweep_accepts_no_unrequested_folder(workflow: Workflow, evil: Evil, far: str) -> None:
    """If the machine lists files that are no results, wfctl writes none of them."""
    (workflow.root / "check.py").write_text("mine\n")
    init(workflow, far, sweep(workflow, '[ "$WFCTL_PARAM_x" != 1 ] || exit 4', 2))
    content = "theirs\n"
    evil.add_rows("results", _file("check.py", content), _link("run/tasks", "/etc"))
    assert workflow.call("run", **PROMPT).returncode == 6
    assert (workflow.root / "check.py").read_text() == "mine\n"
    assert (workflow.root / "run/tasks/x=0/f.json").is_file()


def test_output_does_not_count_toward_the_limit_of_leftovers(workflow: Workflow, far: str) -> None:
    """A large output does not stop the download of a small leftover file."""
    stage = _stage("head -c 200 /dev/zero > out.txt; head -c 50 /dev/zero > a")
    stage["parameters"]["bring_back_limit"] = 100
    init(workflow, far, stage)
    workflow.succeed("run", **PROMPT)
    [left] = workflow.events("attempt.left")
    assert [(one["path"], one["at"]) for one in left["data"]["files"]] == [("stage-1/a", None)]
    assert (workflow.root / "stage-1/a").stat().st_size == 50
