"""With wrong answers of the scheduler, no command runs twice and no stage fails wrongly.

If the scheduler hides a job, the attempt may be submitted twice. Then only one job computes: the
other job finds that the start of the attempt is claimed, and exits.
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

#: Verdicts after which a person must decide, because the job cannot be seen.
_OPEN = ("FORGOTTEN", "UNSEEN")
_HONEST_TURNS = 12


def lies(tool: str) -> st.SearchStrategy[list[str]]:
    """Return a Hypothesis strategy for the next wrong answers of a scheduler command."""
    return st.lists(st.sampled_from(LIES[tool]), max_size=4)


class Lies(RuleBasedStateMachine):
    """A state machine: the jobs of one stage run and end, whatever the scheduler answers."""

    submitter: Submitter

    def __init__(self) -> None:
        super().__init__()
        self.world: World
        self.taken: set[str] = set()
        self.failed: set[str] = set()

    @initialize(sees_nodes=st.booleans(), sbatch=lies("sbatch"))
    def launch(self, sees_nodes: bool, sbatch: list[str]) -> None:
        """Dispatch the stage while sbatch may give wrong answers."""
        self.world = World(self.submitter, sees_nodes=sees_nodes)
        self.world.cluster.lie("sbatch", sbatch)
        self.world.dispatch()

    @rule(squeue=lies("squeue"), sbatch=lies("sbatch"), scancel=lies("scancel"))
    def look(self, squeue: list[str], sbatch: list[str], scancel: list[str]) -> None:
        """Reconcile the stage while the first answers of each command may be wrong."""
        for tool, told in (("squeue", squeue), ("sbatch", sbatch), ("scancel", scancel)):
            self.world.cluster.lie(tool, told)
        self.world.reconcile()

    @precondition(lambda self: self.world.cluster.jobs("PENDING"))
    @rule()
    def start(self) -> None:
        """Start the oldest pending job."""
        self.world.start(self.world.cluster.jobs("PENDING")[0])

    @precondition(lambda self: self.world.cluster.jobs("RUNNING"))
    @rule(code=st.sampled_from([0, 0, 0, 3]))
    def finish(self, code: int) -> None:
        """Let a command end, with success or failure."""
        id_ = self.world.cluster.jobs("RUNNING")[0]
        if code:
            self.failed.add(self.world.attempt_of(id_))
        self.world.finish(id_, code)

    @precondition(lambda self: self.world.cluster.jobs("PENDING", "RUNNING"))
    @rule(state=st.sampled_from(["CANCELLED", "NODE_FAIL"]))
    def take(self, state: str) -> None:
        """End a job by a cancellation or a failing node, so that no exit code is recorded."""
        id_ = self.world.cluster.jobs("PENDING", "RUNNING")[0]
        self.taken.add(self.world.attempt_of(id_))
        self.world.cluster.take(id_, state)

    @precondition(lambda self: self.world.cluster.jobs("COMPLETED", "FAILED", "CANCELLED"))
    @rule()
    def forget(self) -> None:
        """Let the scheduler forget an ended job."""
        self.world.cluster.forget(self.world.cluster.jobs("COMPLETED", "FAILED", "CANCELLED")[0])

    @invariant()
    def nothing_runs_twice(self) -> None:
        """Check that each attempt started at most once, and no two commands together."""
        if not hasattr(self, "world"):
            return
        begun = [attempt for [attempt] in self.world.trace("begin")]
        assert len(begun) == len(set(begun)), begun
        assert self.world.trace("beside") == []

    @invariant()
    def no_failure_without_evidence(self) -> None:
        """Check that a stage failed only after a failed command or two killed attempts."""
        if hasattr(self, "world") and self.world.status is Status.FAILED:
            assert self.failed or len(self.taken) == 2, self.world.last_error

    def teardown(self) -> None:
        """Make the scheduler answer correctly, and check that no result is lost."""
        if not hasattr(self, "world"):
            return
        try:
            self.come_to_an_end()
        finally:
            self.world.close()

    def come_to_an_end(self) -> None:
        """Let all jobs succeed, reconcile several times, and check the final state."""
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
        """Check that at most one command succeeded and that its result is in place."""
        well = [attempt for attempt, code in self.world.trace("end") if code == "0"]
        assert len(well) <= 1, "what was through ran again"
        if self.world.status is Status.POST_PROCESSING:
            assert (self.world.root / "stage-1/out.txt").read_text() == "1\n"
            return
        assert not well, f"{well} ended well, and the stage is {self.world.status}"
        assert self.world.status is Status.FAILED or self.world.verdict in _OPEN


@pytest.fixture(scope="module")
def submitter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitter]:
    """Load DPDispatcher once in a child process for all tests of this module."""
    made = Submitter.start(tmp_path_factory.mktemp("submitter"))
    yield made
    made.end()


def play(submitter: Submitter, examples: int, steps: int) -> None:
    """Run the state machine with the given numbers of examples and steps."""
    machine = type("TheseLies", (Lies,), {"submitter": submitter})
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # A step runs real processes, so Hypothesis would take too long to shrink a failing example.
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.slow
@pytest.mark.long
def test_lying_scheduler_causes_no_second_job_and_no_false_failure(submitter: Submitter) -> None:
    """The state machine runs a few random sequences of wrong answers and job events."""
    play(submitter, examples=6, steps=12)


@pytest.mark.soak
def test_long_lies_cause_no_second_job_and_no_false_failure(submitter: Submitter) -> None:
    """The state machine runs many long random sequences of wrong answers and job events."""
    play(submitter, examples=40, steps=20)
