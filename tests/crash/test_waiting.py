"""`wait` waits for several jobs together, and ends soon after the last of them."""

from __future__ import annotations

import json
import time

import pytest

from tests.crash.support import Workflow, ending, stage, until

pytestmark = pytest.mark.slow

#: Maximum seconds from the end of the last job to the end of the wait: ten times the target.
PROMPT = 10.0


def gated(id_: str) -> dict[str, object]:
    """Return a stage whose job ends once a file with its name exists."""
    gate = f"../../../../../../{id_}.go"
    return stage(id_, f"while [ ! -e {gate} ]; do sleep 0.02; done; echo 1 > out.txt")


def launch(workflow: Workflow, *ids: str) -> None:
    """Launch stages, each of whose jobs waits for its own file."""
    workflow.init(*(gated(id_) for id_ in ids))
    for id_ in ids:
        workflow.succeed("dispatch", id_)


def open_gate(workflow: Workflow, id_: str) -> None:
    """Let the job of the stage end."""
    (workflow.root / f"{id_}.go").touch()


def ended_at(workflow: Workflow, id_: str) -> float:
    """Return the time at which the job of the stage recorded its end."""
    [record] = workflow.attempts(id_)[0].glob("job-*.exit")
    return record.stat().st_mtime


@pytest.mark.long
def test_each_awaited_stage_is_recorded_as_it_ends(workflow: Workflow) -> None:
    """`wait` records the stage that ends first while the job of the other stage runs."""
    launch(workflow, "stage-1", "stage-2")
    with ending(workflow.start("wait", "stage-1", "stage-2", "-o", "json")) as waiting:
        open_gate(workflow, "stage-2")
        until(lambda: workflow.stage("stage-2")["status"] == "post_processing")
        assert workflow.stage("stage-1")["status"] == "running"
        assert waiting.poll() is None
        open_gate(workflow, "stage-1")
        out, _ = waiting.communicate(timeout=60)
        late = time.time() - ended_at(workflow, "stage-1")
    assert (waiting.returncode, json.loads(out)["data"]["ended"]) == (0, True)
    assert late < PROMPT


@pytest.mark.long
def test_wait_ends_soon_after_its_job(workflow: Workflow) -> None:
    """`wait` ends within seconds after the job recorded its end."""
    launch(workflow, "stage-1")
    with ending(workflow.start("wait", "stage-1")) as waiting:
        open_gate(workflow, "stage-1")
        waiting.wait(60)
        assert time.time() - ended_at(workflow, "stage-1") < PROMPT


@pytest.mark.long
def test_wait_for_several_stages_times_out(workflow: Workflow) -> None:
    """After the timeout, `wait` exits with code 1 and lists ended and running stages."""
    launch(workflow, "stage-1", "stage-2")
    open_gate(workflow, "stage-1")
    workflow.succeed("wait", "stage-1")
    done = workflow.call("wait", "stage-1", "stage-2", "--timeout", "0.5", "-o", "json")
    assert done.returncode == 1
    ends = json.loads(done.stdout)["data"]["stages"]
    assert [(end["stage"], end["ended"]) for end in ends] == [("stage-1", True), ("stage-2", False)]
    open_gate(workflow, "stage-2")
    workflow.succeed("wait", "stage-2")


def test_wait_for_an_unknown_stage_is_refused(workflow: Workflow) -> None:
    """`wait` reports the unknown stage before it waits for any other stage."""
    launch(workflow, "stage-1")
    assert workflow.call("wait", "stage-1", "stage-9").returncode == 3
    open_gate(workflow, "stage-1")
    workflow.succeed("wait", "stage-1")
