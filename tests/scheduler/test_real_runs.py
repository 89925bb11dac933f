"""`wfctl run` with the real DPDispatcher and a scheduler whose first answers are wrong."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.crash.outcome import begun, check_result, check_verdicts, ended
from tests.crash.support import PATIENCE, Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.rounds import first
from tests.scheduler import hurried
from tests.scheduler.cluster import Cluster

_WORK = """\
echo "begin $WFCTL_ATTEMPT" >> "{trace}"
sleep 2
echo 1 > out.txt
echo "end $WFCTL_ATTEMPT" >> "{trace}"
"""
#: For each story, the wrong first answers of each scheduler command. All later answers are right.
STORIES = {
    "the submission is taken and the answer lost": {"sbatch": ["taken"] * 4},
    "the submission is taken without an id": {"sbatch": ["mute"], "squeue": ["forget"]},
    "the id is another job's": {"sbatch": ["other"], "squeue": ["slow", "other"]},
    "the queue forgets what waits": {"squeue": ["slow", "slow", "slow", *["forget"] * 2]},
    "the queue answers in garbage": {"sbatch": ["garbage"], "squeue": ["garbage"] * 6},
    "nobody answers for long": {"sbatch": ["silent"] * 5, "squeue": ["silent", "broken"] * 2},
}


@contextmanager
def at_work(cluster: Cluster) -> Iterator[None]:
    """Start each pending job of a cluster soon after its submission; stop at the end."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.3):
            for id_ in cluster.jobs("PENDING"):
                cluster.start(id_)
            for id_, process in list(cluster.running.items()):
                if process.poll() is not None:
                    cluster.settle(id_)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()
        cluster.end()


def prepared(
    workflow: Workflow, here: Path, cluster: Cluster, work: str = _WORK, query_interval: int = 0
) -> Workflow:
    """Create a workflow of one stage that runs on the fake cluster."""
    (here / "python").mkdir()
    shutil.copy(hurried.__file__, here / "python" / "sitecustomize.py")
    script = here / "work.sh"
    script.write_text(work.format(trace=workflow.root / "trace"))
    machine = {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."}
    resources = {"number_node": 1, "cpu_per_node": 1, "group_size": 1}
    stage = {
        "id": "stage-1",
        "name": "the stage-1",
        "outputs": ["stage-1/out.txt"],
        "parameters": {"command": f"bash {script}"},
    }
    plan = {
        "workflow_id": "w-crash",
        "default_backend": "hpc",
        "backend_profiles": {
            "hpc": {
                "type": "remote",
                "config": machine,
                "resource_defaults": resources,
                "query_interval": query_interval,
            }
        },
        "stages": [stage],
    }
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    paths = {
        "PATH": cluster.path,
        "PYTHONPATH": f"{here / 'python'}:{workflow.environ['PYTHONPATH']}",
        "WFCTL_PATIENCE": "1",
    }
    made = replace(workflow, environ={**workflow.environ, **paths})
    made.succeed("init", "plan.json", "--consent", "trust")
    return made


def run_through(workflow: Workflow, here: Path, lies: dict[str, list[str]]) -> None:
    """Run the workflow with a lying scheduler, and check that the command ran once."""
    cluster = Cluster(here / "cluster")
    made = prepared(workflow, here, cluster)
    for tool, told in lies.items():
        cluster.lie(tool, told)
    with at_work(cluster), ending(made.start("run")) as run:
        assert run.wait(PATIENCE * 2) == 0, made.said()
        until(lambda: not cluster.jobs("PENDING", "RUNNING"))
    starts = begun(made)
    assert starts == ended(made) == starts[:1]
    check_result(made)
    check_verdicts(made)


@pytest.mark.long
@pytest.mark.slow
def test_run_with_a_lying_scheduler_runs_the_command_once(
    workflow: Workflow, tmp_path: Path
) -> None:
    """All real parts take part: wrapper script, watcher, DPDispatcher and reconciler."""
    run_through(workflow, tmp_path, STORIES["the submission is taken without an id"])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("query_interval", first([3600, 0]))
@pytest.mark.parametrize("is_driven", first([True, False]), ids=["driven", "alone"])
def test_time_limit_is_recorded_before_the_scheduler_forgets_the_job(
    workflow: Workflow, tmp_path: Path, is_driven: bool, query_interval: int
) -> None:
    """The monitor sees the state TIMEOUT in time, although it polls less and less often."""
    cluster = Cluster(tmp_path / "cluster")
    made = prepared(workflow, tmp_path, cluster, "sleep 300", query_interval)
    with at_work(cluster), ending(made.start("run")) as run:
        until(lambda: cluster.jobs("RUNNING") and _looks(made) > 4)
        if not is_driven:
            strike(made, Victim.ORCHESTRATOR)
        [id_] = cluster.jobs("RUNNING")
        # The monitor now pauses 16 seconds between two polls. It must still record the end within
        # 14 seconds.
        seen = partial(
            until, lambda: list(made.root.glob("stage-1/.attempts/*/last-words.json")), 14
        )
        cluster.time_out(id_, completing=2, remembered=seen)
        if is_driven:
            assert run.wait(PATIENCE) == 6, made.said()
        until((made.root / "stage-1/DPDISP_DONE").exists)
        made.call("run")
    assert "TIMEOUT by its scheduler" in made.stage("stage-1")["last_error"]
    assert len(made.events("stage.launched")) == 1


def _looks(made: Workflow) -> int:
    logs = made.root.glob("stage-1/.attempts/att-0001-*/dpdisp.log")
    return sum(log.read_text().count("it waits or runs") for log in logs)


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES)
def test_no_lie_of_the_scheduler_fails_or_repeats_a_run(
    workflow: Workflow, tmp_path: Path, story: str
) -> None:
    """For each kind of wrong answer, the run succeeds and its command runs once."""
    run_through(workflow, tmp_path, STORIES[story])
