"""Random optimization loops, compared with a simple model of the expected behaviour."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest

from lifecycle.errors import InvalidPlan, LifecycleError, OutsideEnvelope
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide, state_after
from lifecycle.state.effort import MandateUse, find_exceeded_mandate_limits
from lifecycle.state.loops import Round
from lifecycle.state.status import Status
from service.reading.stream_log import from_bytes, to_bytes
from tests.lifecycle.support import AT, attempt, given

OUTPUT = "next/points.csv"
LOOP: dict[str, Any] = {
    "stages": ["run", "next"],
    "points": "run",
    "ask": OUTPUT,
    "each": 3,
    "at_most": 6,
    "until": {"metric": "next.f", "below": 0},
    "within": {"x": {"from": 0, "to": 40, "step": 1}, "kind": ["a", "b"]},
}
PLAN: dict[str, Any] = {
    "workflow_id": "search",
    "rounds": {"search": LOOP},
    "stages": [
        {
            "id": "run",
            "name": "Run",
            "outputs": ["run/tasks.csv"],
            "parameters": {"command": "run", "map": {"points": [{"x": 0, "kind": "a"}]}},
        },
        {
            "id": "next",
            "name": "Next",
            "depends_on": ["run"],
            "outputs": [OUTPUT],
            "parameters": {
                "command": "next",
                "metrics": {"f": {"at": "f.json#/f", "better": "lower"}},
            },
        },
        {"id": "tell", "name": "Tell", "depends_on": ["next"], "parameters": {"command": "tell"}},
    ],
}
PLAN["stages"][1]["outputs"].append("next/f.json")
#: Possible x values of a proposed point. Most are valid, so that many rounds start.
XS: list[Any] = [*range(41), -1, 41, 0.5, "3", True, None, 1e9]
KINDS: list[Any] = ["a", "a", "b", "b", "c", "", 1]


def plan(**more: Any) -> dict[str, Any]:
    """Return the plan with changes of its loop."""
    found = deepcopy(PLAN)
    found["rounds"]["search"] |= more
    return found


class Life:
    """An optimization loop, and the state that the test expects the loop to have."""

    def __init__(self, seed: int, ask: str) -> None:
        self.choose = random.Random(seed)
        self.ask = ask
        self.at_most = self.choose.randint(1, 6)
        self.state = given(plan=plan(ask=ask, at_most=self.at_most))
        self.points: list[tuple[Any, Any]] = [(0, "a")]
        self.rounds = 1
        self.value: float | None = None
        self.digest = ""
        self.is_stopped = False

    def record(self, *commands: Payload) -> None:
        """Apply commands by the rules, and then save and reload the state."""
        for command in commands:
            self.state = state_after(self.state, decide(self.state, command, AT), AT)
        self.state = from_bytes(to_bytes(self.state))

    @property
    def is_over(self) -> bool:
        """Return whether the loop is expected to have ended."""
        met = self.value is not None and self.value < 0
        return self.has_ended and (met or self.rounds >= self.at_most or self.is_stopped)

    @property
    def has_ended(self) -> bool:
        """Return whether both stages of the round are completed."""
        stages = (self.state.stages[id_] for id_ in ("run", "next"))
        return all(one.status is Status.COMPLETED for one in stages)

    def compute(self) -> None:
        """Run the ready stage to its end; it may fail and be retried."""
        every = self.state.stages.values()
        ready = (
            one
            for one in every
            if one.status is Status.READY and not self.state.unmet_dependencies(one)
        )
        for stage in [*ready][:1]:
            number = f"att-{len(stage.attempts) + 1:04d}"
            self.record(attempt(stage.id, "sync"))
            if self.choose.random() < 0.2 and stage.retry_count < 2:
                self.record(p.StageFailed(stage=stage.id, error="it broke", attempt=number))
                self.record(p.StageRetried(stage=stage.id, fix="put right"))
                return
            self.record(p.StageComputed(stage=stage.id, attempt=number, exit_code=0))
            self.complete(stage.id)

    def complete(self, id_: str) -> None:
        """Complete a stage. The stage `next` also writes new points and the value of its metric."""
        known: dict[str, Any] = {}
        if id_ == "next":
            self.digest = f"{self.choose.getrandbits(256):064x}"
            self.value = self.choose.choice([3, 2, 1, 0, 0, 5, 7, -1])
            number: Any = {"name": "f", "path": "next/f.json", "pointer": "/f", "value": self.value}
            known = {
                "outputs": [p.FileDigest(path=OUTPUT, size=1, sha256=self.digest)],
                "metrics": [p.MeasuredNumber(**number)],
            }
        self.record(p.StageCompleted(stage=id_, evidence="looked at it", **known))

    def propose(self) -> None:
        """Propose a round with random points, and check that wfctl decides as expected."""
        count = self.choose.choice([0, 1, 1, 1, 2, 2, 3, 4])
        asked = [
            {"x": self.choose.choice(XS), "kind": self.choose.choice(KINDS)} for _ in range(count)
        ]
        if self.choose.random() < 0.1:
            asked = [*asked, self.choose.choice([{}, {"x": 1}, {"x": 1, "kind": "a", "y": 1}])]
        right = self.choose.random() < 0.8
        number = max(2, self.rounds + self.choose.choice([0, 1, 1, 1, 2]))
        source: dict[str, Any] = {"source": OUTPUT, "data": {OUTPUT: self.digest}}
        if not right:
            source = self.choose.choice([{}, {"source": OUTPUT, "data": {OUTPUT: "0" * 64}}])
        may = (right or self.ask == "agent") and self.may_begin(asked, number)
        try:
            self.record(
                p.RoundBegun(loop="search", points=asked, by="agent:x", round=number, **source)
            )
        except LifecycleError:
            assert not may, (asked, number, self.state.loops)
            return
        assert may, (asked, number, self.state.loops)
        self.rounds += 1
        self.points += [(one["x"], one["kind"]) for one in asked]

    def may_begin(self, asked: list[dict[str, Any]], number: int | None) -> bool:
        """Return whether a round with these points is expected to start."""
        new = [(one.get("x"), one.get("kind")) for one in asked]
        fit = all(
            set(one) == {"x", "kind"}
            and type(one["x"]) is int
            and 0 <= one["x"] <= 40
            and one["kind"] in ("a", "b")
            for one in asked
        )
        is_new = len({*new, *self.points}) == len(new) + len(self.points)
        due = self.has_ended and not self.is_over and number in (None, self.rounds + 1)
        return due and fit and is_new and 1 <= len(asked) <= 3

    def stop(self) -> None:
        """Try to stop the loop, and check that wfctl allows this only if expected."""
        may = not self.is_over and not self.is_stopped
        try:
            self.record(p.LoopStopped(loop="search", reason="enough"))
        except LifecycleError:
            assert not may
            return
        assert may
        self.is_stopped = True

    def again(self) -> None:
        """Approve a rerun of a completed stage, so that the current round is open again."""
        done = [i for i in ("run", "next") if self.state.stages[i].status is Status.COMPLETED]
        if not done or self.state.stages["tell"].status is Status.COMPLETED:
            return
        id_ = self.choose.choice(done)
        self.record(p.AmendmentProposed(kind="stage_rerun", stage=id_, description="again"))
        last = [*self.state.amendments][-1]
        self.record(p.AmendmentApproved(amendment=last, proof={"policy": "trust"}))

    def widen(self) -> None:
        """Change the maximum number of rounds by an approved amendment."""
        self.at_most = self.choose.choice([max(1, self.rounds - 1), self.rounds, self.rounds + 2])
        if self.state.rounds["search"]["at_most"] == self.at_most:
            return
        loop = {**self.state.rounds["search"], "at_most": self.at_most}
        changes: Any = {"rounds": {"search": {"new": loop}}}
        self.record(
            p.AmendmentProposed(kind="parameter_change", description="more", changes=changes)
        )
        last = [*self.state.amendments][-1]
        self.record(p.AmendmentApproved(amendment=last, proof={"policy": "trust"}))

    def check(self) -> None:
        """Check that the state of wfctl equals the expected state."""
        loop = self.state.loops["search"]
        assert [one.number for one in loop.rounds] == [*range(1, self.rounds + 1)]
        assert [(one["x"], one["kind"]) for one in loop.points_from_rounds] == self.points[1:]
        assert (loop.over is not None) == self.is_over, (loop, self.is_over)
        assert (loop.round.ended_at is not None) == self.has_ended
        tell = self.state.stages["tell"]
        if not self.is_over:
            assert tell.status in (Status.PENDING, Status.READY, Status.INVALIDATED)
            assert self.state.unmet_dependencies(tell)
            assert self.state.workflow_status != "completed"
        for one in loop.rounds[:-1]:
            assert one.numbers["next.f"]["value"] >= 0 or self.is_stopped


@pytest.mark.slow
@pytest.mark.parametrize("ask", [OUTPUT, "agent"])
@pytest.mark.parametrize("seed", range(20))
def test_random_loop_agrees_with_its_model(seed: int, ask: str) -> None:
    """After each of 120 random actions, wfctl has the rounds and points that the model expects."""
    life = Life(seed, ask)
    steps = [life.compute] * 6 + [life.propose] * 6 + [life.again, life.widen]
    for number in range(120):
        life.choose.choice([*steps, *([life.stop] if number > 90 else [])])()
        life.check()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no end": ({"at_most": None}, "expected a whole number"),
    "a stage that there is not": ({"stages": ["run", "next", "z"]}, "no stage 'z'"),
    "stages that are not connected": (
        {"stages": ["run", "tell"]},
        "lies between stages of the loop",
    ),
    "points of a stage without a map": ({"points": "next"}, "whose map has points"),
    "an output of nobody": ({"ask": "next/other.csv"}, "expected an output of one of its stages"),
    "no bounds": ({"within": {}}, "expected bounds for each value"),
    "bounds of another value": ({"within": {"y": [1]}}, "expected bounds for"),
    "bounds without the first points": (
        {"within": {"x": {"from": 5, "to": 9}, "kind": ["a"]}},
        "the first points: x: 0 is not within",
    ),
    "a number that there is not": ({"until": {"metric": "next.g", "below": 1}}, "no stage of the"),
    "a criterion without a test": ({"until": {"metric": "next.f"}}, "expected a metric and one of"),
    "an error that there is not": (
        {"until": {"metric": "next.f", "relative_error": 0.1}},
        "has no error",
    ),
    "core hours without a time limit": ({"core_hours": 1}, "has no parameters.time_limit"),
    "an unknown field": ({"until_then": 1}, "unknown field"),
    "rounds that are no number": ({"each": "two"}, "expected a whole number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_loop_is_refused_with_its_problem(name: str) -> None:
    """wfctl refuses the plan of the loop and states the problem."""
    change, message = WRONG[name]
    with pytest.raises(InvalidPlan) as error:
        build_creation_payload(plan(**change), created=AT)
    assert message in str(error.value.data["problems"])


def test_numbers_of_earlier_rounds_are_kept() -> None:
    """The state keeps the metric values of all earlier rounds, for criteria and reports."""
    life = Life(3, "agent")
    life.at_most = 9
    life.state = given(plan=plan(ask="agent", at_most=9))
    values = []
    for x in range(1, 5):
        while not life.has_ended:
            life.compute()
        life.value = abs(life.value or 0)
        values.append(life.state.loops["search"].round.numbers["next.f"]["value"])
        if life.state.loops["search"].over is not None:
            break
        life.record(p.RoundBegun(loop="search", points=[{"x": x, "kind": "a"}], by="agent:x"))
    found = [
        one.numbers["next.f"]["value"] for one in life.state.loops["search"].rounds if one.numbers
    ]
    assert found == values
    assert isinstance(life.state.loops["search"].round, Round)


def test_round_starts_only_if_all_its_stages_are_within_the_limits() -> None:
    """The limit of tasks includes the tasks of all stages of the loop, not only the points."""
    life = Life(3, "agent")
    until = {"metric": "next.f", "below": -9}
    life.state = given(plan=plan(ask="agent", tasks=4, until=until))
    for id_ in ("run", "next"):
        life.record(attempt(id_, "sync"))
        life.record(p.StageComputed(stage=id_, attempt="att-0001", exit_code=0))
        life.complete(id_)
    points: list[dict[str, Any]] = [{"x": x, "kind": "a"} for x in (1, 2)]
    with pytest.raises(OutsideEnvelope) as error:
        life.record(p.RoundBegun(loop="search", points=points, by="agent:x"))
    assert "3 tasks may be computed, and 2 of its 4 are left" in str(error.value)
    life.record(p.RoundBegun(loop="search", points=points[:1], by="agent:x"))
    assert life.state.loops["search"].round.number == 2


@pytest.mark.parametrize(
    ("tasks", "left", "said"),
    [
        (1, 0, "1 task may be computed, and 0 of its 4 are left"),
        (3, 1, "3 tasks may be computed, and 1 of its 4 is left"),
        (3, -1, "3 tasks may be computed, and 0 of its 4 are left"),
    ],
)
def test_remaining_tasks_are_reported_with_correct_grammar(
    tasks: int, left: int, said: str
) -> None:
    """wfctl prints "1 task" but "3 tasks", and shows a negative number of remaining tasks as 0."""
    envelope = given(plan=plan(tasks=4)).mandate("rounds.search")
    assert envelope is not None
    assert [*find_exceeded_mandate_limits(envelope, MandateUse(tasks=4 - left), tasks, 0.0)] == [
        said
    ]
