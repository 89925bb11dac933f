"""Random optimization loops, compared with a simple model of the expected behaviour."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest

from lifecycle.errors import (
    InvalidPlan,
    LifecycleError,
    NeedsConsent,
    OutsideEnvelope,
    Refused,
    UnknownLoop,
)
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide, state_after
from lifecycle.rules.rounds import find_point_problems
from lifecycle.state.effort import MandateUse, find_exceeded_mandate_limits
from lifecycle.state.loops import Round
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from service.reading.stream_log import from_bytes, to_bytes
from tests.lifecycle.looped import begin_round, create_workflow, finish_round, with_rounds
from tests.lifecycle.support import AT, attempt, completed, computed, follow, given, propose

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


def start_round(state: Workflow, **more: Any) -> dict[str, Any]:
    """Return the fields of the event that starts the next round, with the point x = 7."""
    fields: dict[str, Any] = {"loop": "search", "points": [{"x": 7}], "by": "agent:x", **more}
    [event] = decide(state, p.RoundBegun(**fields), AT)
    return event.model_dump()


@pytest.mark.parametrize("number", [None, 3])
def test_event_of_a_new_round_has_the_next_number(number: int | None) -> None:
    """The proposer may leave out the number of the round."""
    event = start_round(with_rounds(2), round=number)
    assert (event["round"], event["points"], event["by"]) == (3, [{"x": 7}], "agent:x")


@pytest.mark.parametrize("number", [2, 4])
def test_round_with_another_number_is_refused(number: int) -> None:
    """The error has the numbers of the last and of the next round."""
    expected = (
        f"round {number} of the loop search cannot start, because the last round is round 2. The "
        "next round must be round 3"
    )
    with pytest.raises(Refused, match=expected) as error:
        start_round(with_rounds(2), round=number)
    assert error.value.data["round"] == 2


def test_round_of_an_unknown_loop_is_refused() -> None:
    """The error names the loops of the plan."""
    with pytest.raises(UnknownLoop, match="search"):
        start_round(with_rounds(1), loop="other")


def test_round_waits_for_the_decision_on_an_amendment() -> None:
    """The error names every amendment that waits, and a decided one does not matter."""
    state = with_rounds(1)
    for _number in (1, 2):
        state, _ = propose(state, "parameter_change", "tell", changes={"name": {"new": "T"}})
    with pytest.raises(NeedsConsent, match="while amend-1, amend-2 waits for a decision") as error:
        start_round(state)
    assert error.value.data["amendments"] == ["amend-1", "amend-2"]
    rejections = [p.AmendmentRejected(amendment=f"amend-{number}") for number in (1, 2)]
    assert start_round(follow(state, *rejections))["round"] == 2


def test_round_of_a_loop_that_has_ended_is_refused() -> None:
    """The error has the reason of the end."""
    with pytest.raises(Refused, match=r"search has ended: its limit of 2 rounds\."):
        start_round(with_rounds(2, at_most=2))


def test_round_starts_only_after_the_end_of_the_last_round() -> None:
    """The error names the unfinished stages of the loop."""
    running = begin_round(with_rounds(1), 1)
    half = follow(running, attempt("run", "sync"), computed("run", "att-0002"), completed("run"))
    for state, stages in ((running, "run, next"), (half, "next")):
        expected = (
            "the next round cannot start, because round 2 of the loop search has not ended "
            rf"\(unfinished stages: {stages}\)"
        )
        with pytest.raises(Refused, match=expected) as error:
            start_round(state)
        assert error.value.data["round"] == 2


@pytest.mark.parametrize(
    ("source", "text"),
    [(None, "another source"), ("next/f.json", "next/f.json"), ("run/a.csv", "run/a.csv")],
)
def test_points_of_another_source_are_refused(source: str | None, text: str) -> None:
    """The error has the source, the file that the loop accepts, and the stage that writes it."""
    state = finish_round(create_workflow(search={"ask": "next/f.json"}))
    expected = (
        f"the points come from {text}, but the loop search accepts only points from the file "
        "next/f.json, as the stage next wrote it"
    )
    with pytest.raises(Refused, match=expected) as error:
        start_round(state, source=source)
    assert error.value.data["source"] == source


def test_round_outside_of_the_limits_is_refused_with_its_number() -> None:
    """The error has the number of the round that cannot start, and every problem."""
    with pytest.raises(OutsideEnvelope, match="round 3 of ") as error:
        start_round(with_rounds(2), points=[{"x": 41}])
    assert [text.partition(":")[0] for text in error.value.data["problems"]] == ["point 1"]


def test_loop_that_has_ended_cannot_be_stopped() -> None:
    """A loop ends by its limit, or by a person or agent who stops it, also during a round."""
    stop = p.LoopStopped(loop="search", reason="enough")
    assert decide(with_rounds(1), stop, AT)[0] == stop
    for state, why in (
        (with_rounds(1, at_most=1), "its limit of 1 round"),
        (follow(with_rounds(1), stop), "stopped: enough"),
        (follow(create_workflow(), stop), "stopped: enough"),
    ):
        with pytest.raises(Refused, match=rf"search has already ended: {why}\."):
            decide(state, stop, AT)


def problems_of(state: Workflow, *points: dict[str, Any]) -> list[str]:
    """Return the reasons why the next round of the loop cannot have the given points."""
    loop = state.loop("search")
    return [*find_point_problems(state, loop, state.loops["search"], [*points])]


def test_round_has_at_least_one_point_and_at_most_the_allowed_number() -> None:
    """A loop without a maximum allows any number of points."""
    one, two, three = ({"x": x} for x in (1, 2, 3))
    free, limited = with_rounds(1), with_rounds(1, each=2)
    assert problems_of(free) == ["the round has no points; expected at least one point"]
    assert problems_of(free, one, two, three) == []
    assert problems_of(limited, one, two) == []
    expected = ["the round has 3 points; the loop allows at most 2"]
    assert problems_of(limited, one, two, three) == expected


def test_points_outside_of_the_bounds_are_listed_with_their_numbers() -> None:
    """Points are compared with each other only if all are within the bounds."""
    state = with_rounds(1)
    found = problems_of(state, {"x": 1}, {"x": 41}, {"x": 1}, {"x": -1})
    assert [text.partition(":")[0] for text in found] == ["point 2", "point 4"]
    [repeated] = problems_of(state, {"x": 1}, {"x": 1})
    assert repeated.endswith("(the first 1 are those so far)")


def test_points_beyond_the_limits_of_the_loop_are_refused() -> None:
    """The problem of the limits is reported in addition to that of a point."""
    state = with_rounds(1, tasks=4)
    assert problems_of(state, {"x": 1}) == []
    limit = "3 tasks may be computed, and 2 of its 4 are left"
    assert problems_of(state, {"x": 1}, {"x": 2}) == [limit]
    found = problems_of(state, {"x": 41}, {"x": 2})
    assert (len(found), found[1]) == (2, limit)


def with_default(kind: Any) -> Workflow:
    """Return the state of a loop whose points may lack the value `kind`, which has a default."""
    changed = plan(ask="agent")
    changed["stages"][0]["parameters"]["kind"] = kind
    return given(plan=changed)


def test_points_that_differ_only_by_a_default_value_are_equal() -> None:
    """A point is compared with the points so far and with the other new points."""
    state = with_default("a")
    because = "because the stage run has the default values kind=a (the first 1 are those so far)"
    assert problems_of(state, {"x": 0}) == [
        f"points 1 and 2 have the same values (kind=a,x=0 and x=0), {because}"
    ]
    assert problems_of(state, {"x": 1}, {"x": 1, "kind": "a"}) == [
        f"points 2 and 3 have the same values (x=1 and kind=a,x=1), {because}"
    ]
    assert problems_of(state, {"x": 1}, {"x": 1, "kind": "b"}) == []


@pytest.mark.parametrize("default", [["a"], {"a": 1}, None])
def test_default_that_is_no_text_or_number_is_not_compared(default: Any) -> None:
    """A value of a point is a text or a number, so it cannot equal such a default."""
    assert problems_of(with_default(default), {"x": 0}) == []


def test_recorded_points_that_are_equal_by_default_do_not_refuse_new_points() -> None:
    """Earlier versions started rounds with such points."""
    state = with_default("a")
    state.loops["search"].rounds[-1] = Round(1, points=[{"x": 0}])
    assert problems_of(state, {"x": 5}) == []
