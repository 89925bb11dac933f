"""Files that remote tasks write next to their results, under arbitrary names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.support import PROMPT, Sshd, init, write_machine
from tests.cluster.test_far_loop import ends, sweep, tasks
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow

pytestmark = pytest.mark.slow

#: Shell command of a task that writes folders named like other tasks and like unknown tasks, and
#: false entries into the journals of the task runner.
_STRANGE = (
    'for at in done failed; do mkdir -p "$WFCTL_TASKS/back/$at/x=0" "$WFCTL_TASKS/back/$at/own"; '
    'echo 9 > "$WFCTL_TASKS/back/$at/x=0/f.json"; echo 9 > "$WFCTL_TASKS/back/$at/own/f.json"; '
    'done; { head -c 999 /dev/urandom; printf "\\ne\\t1\\tbogus\\t0\\t1\\t\\n"; } '
    '> "$WFCTL_TASKS/back/journal.9"; mkdir -p "$WFCTL_TASKS/back/journal.7"'
)


@pytest.mark.long
def test_folder_named_like_another_task_replaces_no_result(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """Folders that a task writes under other tasks' names do not change their results."""
    go = workflow.root / "go"
    waits = f'[ "$WFCTL_PARAM_x" = 0 ] || [ -e "{go}" ] || exit 3'
    strange = f'[ "$WFCTL_PARAM_x" != 1 ] || {{ {_STRANGE}; }}'
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, sweep(workflow, f"{waits}; {strange}", 3))
    assert workflow.call("run").returncode == 6
    go.touch()
    own = workflow.root / "run/tasks/own/f.json"
    workflow.succeed("stage", "retry", "run", "--fix", "go")
    workflow.succeed("run", **PROMPT)
    assert json.loads((workflow.root / "run/tasks/x=0/f.json").read_text()) == {"f": 0}
    assert not own.exists()
    assert ends(workflow) == ["x=0", "x=1", "x=2"]
    assert tasks(workflow, "run")["counts"]["done"] == 3
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")


@pytest.mark.long
@pytest.mark.parametrize("left", ["echo 1 > a; ln a b", "echo 1 > $'\\xff'"])
def test_file_that_dpdispatcher_cannot_download_is_downloaded(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, left: str
) -> None:
    """Hard links and names that are not UTF-8 are downloaded, and each task runs once."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, sweep(workflow, left, 2))
    workflow.succeed("run", **PROMPT)
    assert ends(workflow) == ["x=0", "x=1"]
    assert tasks(workflow, "run")["counts"]["done"] == 2
    came = [one for one in (workflow.root / "run/tasks/x=1").iterdir() if one.stat().st_size == 2]
    assert came
    workflow.succeed("fsck", "--protocol")
