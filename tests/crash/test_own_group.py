"""A command that ends its helpers by a signal to its own process group, as `kill 0` does."""

from __future__ import annotations

import pytest

from reconciler.host.processes import start_ticks
from tests.crash.support import Workflow
from tests.crash.test_background import Maker, of_one, of_tasks

pytestmark = pytest.mark.slow


def helper(workflow: Workflow) -> str:
    """Return a command that starts a helper and writes its process id."""
    return f'sleep 300 & echo $! > "{workflow.root.parent}/helper"; echo 1 > out.txt'


def check_ended(workflow: Workflow) -> None:
    """Check that the helper of the command has ended."""
    assert start_ticks(int((workflow.root.parent / "helper").read_text())) is None


@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_a_command_that_signals_its_own_group_fails_once_with_the_reason(
    workflow: Workflow, made: Maker
) -> None:
    """The signal ends the command's own shell too, in each attempt again."""
    workflow.init(made(workflow, f"trap 'kill 0' EXIT; {helper(workflow)}"))
    assert workflow.call("run").returncode == 6
    check_ended(workflow)
    assert len(workflow.attempts("stage-1")) == 1
    found = workflow.stage("stage-1")
    assert found["status"] == "failed"
    named = workflow.succeed("why", "stage-1") + workflow.succeed("status")
    assert "to its own process group, as by 'kill 0'" in named + str(found), (named, found)


@pytest.mark.parametrize("made", [of_one, of_tasks])
def test_a_command_that_spares_its_own_shell_succeeds(workflow: Workflow, made: Maker) -> None:
    """No shell of wfctl is in the command's process group."""
    workflow.init(made(workflow, f"trap \"trap '' TERM; kill 0\" EXIT; {helper(workflow)}"))
    workflow.succeed("run")
    check_ended(workflow)
    assert workflow.stage("stage-1")["status"] == "completed"
