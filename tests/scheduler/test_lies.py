"""A scheduler that lies, beside what is so: nothing runs twice, nothing is called failed unproved.

Of an attempt that was submitted twice because the scheduler hid the first copy, one copy computes;
the other finds the start claimed and leaves at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lifecycle.state.status import Status
from tests.scheduler.cluster import LIES
from tests.scheduler.monitor import Submitter
from tests.scheduler.world import World

#: What waits for a person: nobody can say more than that the job is not seen.
_OPEN = ("FORGOTTEN", "UNSEEN")
_HONEST_TURNS = 12


def lies(tool: str) -> st.SearchStrategy[list[str]]:
    """Draw what a tool answers next in place of the truth."""
    return st.lists(st.sampled_from(LIES[tool]), max_size=4)


class Lies(RuleBasedStateMachine):
    """One stage; its jobs come to be and end as they do, whatever the scheduler says of them."""

    submitter: Submitter

    def __init__(self) -> None:
        super().__init__()
        self.world: World
        self.taken: set[str] = set()
        self.failed: set[str] = set()

    @initialize(sees_nodes=st.booleans(), sbatch=lies("sbatch"))
    def launch(self, sees_nodes: bool, sbatch: list[str]) -> None:
        """Dispatch the stage, the scheduler lying from the start."""
        self.world = World(self.submitter, sees_nodes=sees_nodes)
        self.world.cluster.lie("sbatch", sbatch)
        self.world.dispatch()

    @rule(squeue=lies("squeue"), sbatch=lies("sbatch"), scancel=lies("scancel"))
    def look(self, squeue: list[str], sbatch: list[str], scancel: list[str]) -> None:
        """Somebody reconciles; the first answers of each tool may be lies."""
        for tool, told in (("squeue", squeue), ("sbatch", sbatch), ("scancel", scancel)):
            self.world.cluster.lie(tool, told)
        self.world.reconcile()

    @precondition(lambda self: self.world.cluster.jobs("PENDING"))
    @rule()
    def start(self) -> None:
        """The oldest job that waits runs."""
        self.world.start(self.world.cluster.jobs("PENDING")[0])

    @precondition(lambda self: self.world.cluster.jobs("RUNNING"))
    @rule(code=st.sampled_from([0, 0, 0, 3]))
    def finish(self, code: int) -> None:
        """A command ends, well or badly."""
        id_ = self.world.cluster.jobs("RUNNING")[0]
        if code:
            self.failed.add(self.world.attempt_of(id_))
        self.world.finish(id_, code)

    @precondition(lambda self: self.world.cluster.jobs("PENDING", "RUNNING"))
    @rule(state=st.sampled_from(["CANCELLED", "NODE_FAIL"]))
    def take(self, state: str) -> None:
        """A job ends without a word, through no fault of its own."""
        id_ = self.world.cluster.jobs("PENDING", "RUNNING")[0]
        self.taken.add(self.world.attempt_of(id_))
        self.world.cluster.take(id_, state)

    @precondition(lambda self: self.world.cluster.jobs("COMPLETED", "FAILED", "CANCELLED"))
    @rule()
    def forget(self) -> None:
        """The scheduler knows nothing any more of a job that is over."""
        self.world.cluster.forget(self.world.cluster.jobs("COMPLETED", "FAILED", "CANCELLED")[0])

    @invariant()
    def nothing_runs_twice(self) -> None:
        """Each attempt began once at most, and no two commands computed at once."""
        if not hasattr(self, "world"):
            return
        begun = [attempt for [attempt] in self.world.trace("begin")]
        assert len(begun) == len(set(begun)), begun
        assert self.world.trace("beside") == []

    @invariant()
    def no_failure_without_evidence(self) -> None:
        """A stage has failed only where a command did, or where two attempts were taken."""
        if hasattr(self, "world") and self.world.status is Status.FAILED:
            assert self.failed or len(self.taken) == 2, self.world.last_error

    def teardown(self) -> None:
        """Told the truth at last, the stage comes to its end, and no result is lost."""
        if not hasattr(self, "world"):
            return
        try:
            self.come_to_an_end()
        finally:
            self.world.close()

    def come_to_an_end(self) -> None:
        """Let everything that lives end well, and look until nothing is in flight."""
        world = self.world
        world.cluster.tell_the_truth()
        for _ in range(_HONEST_TURNS):
            for id_ in world.cluster.jobs("PENDING"):
                world.start(id_)
                self.nothing_runs_twice()
            for id_ in world.cluster.jobs("RUNNING"):
                world.finish(id_, 0)
            world.reconcile()
            self.nothing_runs_twice()
            self.no_failure_without_evidence()
        world.check_verdicts()
        self.check_end()

    def check_end(self) -> None:
        """A command that ended well has its result in place."""
        well = [attempt for attempt, code in self.world.trace("end") if code == "0"]
        assert len(well) <= 1, "what was through ran again"
        if self.world.status is Status.POST_PROCESSING:
            assert (self.world.root / "stage-1/out.txt").read_text() == "1\n"
            return
        assert not well, f"{well} ended well, and the stage is {self.world.status}"
        assert self.world.status is Status.FAILED or self.world.verdict in _OPEN


@pytest.fixture(scope="module")
def submitter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitter]:
    """Load DPDispatcher once."""
    made = Submitter.start(tmp_path_factory.mktemp("submitter"))
    yield made
    made.end()


def play(submitter: Submitter, examples: int, steps: int) -> None:
    """Play that many games of that many steps."""
    machine = type("TheseLies", (Lies,), {"submitter": submitter})
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # A step takes real processes: to make a game shorter would take longer than a test may.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.slow
@pytest.mark.long
def test_a_lying_scheduler_costs_nothing(submitter: Submitter) -> None:
    """Never a second live job for one attempt, never a failure without evidence."""
    play(submitter, examples=6, steps=12)


@pytest.mark.long
def test_a_scheduler_that_lies_for_long_costs_nothing(submitter: Submitter) -> None:
    """The same in many more games."""
    play(submitter, examples=40, steps=20)
