"""The kill matrix: any victim may be killed at any moment.

Afterwards no result is lost, no command is repeated, and no stage counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import conftest as cluster
from tests.cluster.support import PROMPT, Slurm
from tests.crash.blow import Held, settled
from tests.crash.cells import FEW, POSSIBLE, Backend, Cell, Target
from tests.crash.hits import hit
from tests.crash.outcome import (
    check_executions,
    check_result,
    check_verdicts,
    outcome_of,
    version,
)
from tests.crash.pauses import Pauses
from tests.crash.support import PATIENCE, Workflow, ending
from tests.crash.victims import Victim, find, kill
from tests.rounds import rounds

Hold = Callable[[Cell], Held]
slurm_conf, slurm, sshd = cluster.slurm_conf, cluster.slurm, cluster.sshd

#: Victims whose death also ends the command `run`.
_ENDS_THE_RUN = (Target.ORCHESTRATOR, Target.EVERYTHING, Target.EVERYTHING_NEAR)


@pytest.fixture
def hold(workflow: Workflow, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hold]:
    """Return a function that holds a cell's moment open; release everything afterwards."""
    pauses = Pauses(tmp_path / "points")
    found: list[Slurm] = []

    def held(cell: Cell) -> Held:
        paused = pauses.into(workflow)
        if cell.backend is Backend.SHELL:
            return Held(paused, cell, pauses, None)
        found.append(request.getfixturevalue("slurm"))
        environ = {**paused.environ, **found[0].environ, **PROMPT}
        far = request.getfixturevalue("sshd") if cell.backend.is_far else None
        return Held(replace(paused, environ=environ), cell, pauses, found[0], far)

    yield held
    pauses.release()
    for one in found:
        for id_ in one.jobs(workflow.root.parent):
            one.ask("scancel", id_)
    kill(find(workflow, Victim.EVERYTHING))


def survive(held: Held, record: Callable[[str, object], None]) -> None:
    """Kill once, recover, and check that nothing was lost, repeated or called failed."""
    workflow, cell = held.workflow, held.cell
    held.prepare()
    with ending(workflow.start("run")) as run:
        held.wait()
        before = version(workflow)
        struck = hit(workflow, cell.target, held.sshd)
        if cell.target in _ENDS_THE_RUN:
            run.wait(PATIENCE)
        held.let_go()
        workflow.succeed("rehydrate")
        held.bring_back()
        held.let_compute()
        if cell.target not in _ENDS_THE_RUN:
            assert run.wait(PATIENCE) == 0, workflow.said()
    settled(held)
    if cell.target in _ENDS_THE_RUN:
        workflow.succeed("run")
    outcome = outcome_of(workflow, cell, struck, before)
    record("cell", outcome.to_json())
    check_executions(workflow, cell)
    check_result(workflow)
    check_verdicts(workflow)


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("cell", FEW, ids=str)
def test_each_victim_and_each_moment_loses_nothing(
    hold: Hold, cell: Cell, record_property: Callable[[str, object], None]
) -> None:
    """After a kill, the stage completes and no finished command runs again."""
    survive(hold(cell), record_property)


@pytest.mark.parametrize(
    "cell", rounds([cell for cell in POSSIBLE if cell not in FEW], few=0, daily=36), ids=str
)
def test_any_victim_at_any_moment_loses_nothing(
    hold: Hold, cell: Cell, record_property: Callable[[str, object], None]
) -> None:
    """The previous test for every other possible cell of the kill matrix."""
    survive(hold(cell), record_property)
