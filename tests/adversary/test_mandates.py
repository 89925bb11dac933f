"""An agent tries ten thousand times to exceed its mandate (permission given in advance)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from eventstore.event import Actor
from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.rules.amendments import amendment_of_proposal
from lifecycle.rules.decide import decide, state_after
from lifecycle.rules.impact import compute_approval_impact
from lifecycle.rules.mandates import find_covering_mandate
from lifecycle.state.effort import compute_mandate_use
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from service.consent.proof import (
    PlannedApproval,
    build_proof,
    build_statement,
    explain_invalid_approval,
)
from tests.lifecycle.support import AT, attempt, completed, computed, given

HEAD = "a" * 64
UNTIL = "2026-04-01T00:00:00Z"
LATE = "2026-04-01T00:00:00.000001Z"
GRANTED: dict[str, Any] = {
    "stages": ["stage-1", "stage-2"],
    "amendments": 25,
    "reruns": 4,
    "tasks": 40,
    "core_hours": 1.0,
    "by": ["agent:bo", "agent:opt-*"],
    "until": UNTIL,
    "values": {
        "stage-1.parameters.dt": {"from": 0.001, "to": 0.1},
        "stage-1.parameters.seed": {"from": 1, "to": 99, "step": 2},
        "stage-1.parameters.box.x": {"from": 0, "to": 1},
        "stage-2.parameters.method": ["nvt", "npt", 3],
    },
}
PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "mandates": {"sampling": GRANTED},
    "stages": [
        {
            "id": "stage-1",
            "name": "Run",
            "parameters": {
                "command": "run",
                "dt": 0.01,
                "seed": 1,
                "box": {"x": 0.5, "y": 0.5},
                "steps": 100,
                "time_limit": 60,
            },
        },
        {
            "id": "stage-2",
            "name": "Look",
            "depends_on": ["stage-1"],
            "parameters": {"command": "look", "method": "nvt", "time_limit": 30},
        },
        {"id": "stage-3", "name": "Tell"},
    ],
}
#: Parameter values inside the mandate, and values that exceed it slightly, greatly or by type.
VALUES: list[Any] = [
    *(0.001, 0.1, 0.05, 0.0999999999, 0.10000000001, 0.0009999, 0.01, 0, 1, 1.0, 2, 3, 5, 99, 101),
    *(97, 98, 1.5, -1, -0.05, 1e308, 10**15, "0.05", "3", "nvt", "npt", "NVT", "nvt ", "nv\u0442"),
    *(True, False, None, [0.05], [], {}, {"x": 0.7}, {"x": 0.7, "y": 0.5}, {"x": 2, "y": 0.5}),
    *({"x": 0.7, "y": 0.6}, {"x": [0.7], "y": 0.5}, {"x": 0.7, "y": 0.5, "z": 0}, "rm -rf /"),
    *({"x": True, "y": 0.5}, {"from": 0.001, "to": 0.1}, [0.01, 0.02], {"y": 0.5, "x": 0.25}),
]
NAMES = [
    *(
        "dt",
        "dt",
        "seed",
        "seed",
        "box",
        "box",
        "method",
        "method",
        "Dt",
        "dt ",
        "dt\u200b",
        "d\u200dt",
    ),
    *("parameters.dt", "command", "verify", "time_limit", "steps", "box.x", "map", "x", "metrics"),
]
ACTORS = ["bo", "bo", "bo", "opt-2", "bob", "Bo", "bo ", "opt", "x:opt-2"]


def is_number(value: Any) -> bool:
    """Return whether a value is a number and not a boolean."""
    return type(value) in (int, float)


#: For each parameter of a stage: a function that returns whether the mandate allows a value.
SIGNED: dict[tuple[str, str], Callable[[Any], bool]] = {
    ("stage-1", "dt"): lambda v: is_number(v) and 0.001 <= v <= 0.1,
    ("stage-1", "seed"): lambda v: type(v) is int and 1 <= v <= 99 and v % 2 == 1,
    ("stage-1", "box"): lambda v: (
        isinstance(v, dict)
        and set(v) == {"x", "y"}
        and v["y"] == 0.5
        and is_number(v["x"])
        and 0 <= v["x"] <= 1
    ),
    ("stage-2", "method"): lambda v: (type(v), v) in ((str, "nvt"), (str, "npt"), (int, 3)),
}


def is_signed(command: p.AmendmentProposed) -> bool:
    """Return whether the mandate allows every value and every rerun in a proposal."""
    if command.kind not in ("parameter_change", "stage_rerun") or command.stage is None:
        return False
    if set(command.changes) - {"parameters"} or command.insert or command.rewired:
        return False
    reached = {command.stage, *command.also}
    changes: Any = command.changes.get("parameters") or {}
    named = ((command.stage, name) for name in changes)
    return reached <= {"stage-1", "stage-2"} and all(
        key in SIGNED and "new" in changes[key[1]] and SIGNED[key](changes[key[1]]["new"])
        for key in named
    )


def hostile(choose: random.Random) -> p.AmendmentProposed:
    """Return a random proposal: many are within the mandate, most exceed it slightly."""
    stage: str | None = choose.choice(["stage-1", "stage-1", "stage-2", "stage-3"])
    known: dict[str, Any] = {"description": "x", "reason": "because"}
    draw = choose.random()
    if draw < 0.1:
        also = choose.sample(["stage-1", "stage-2", "stage-3"], choose.randint(0, 2))
        return p.AmendmentProposed(kind="stage_rerun", stage=stage, also=also, **known)
    if draw < 0.2:
        return p.AmendmentProposed(**(choose.choice(OTHERS) | known))
    names = choose.sample(NAMES, choose.choice([1, 1, 1, 2]))
    leaves = {name: {"new": choose.choice(VALUES)} for name in names}
    if choose.random() < 0.05:
        leaves[choose.choice(["dt", "seed", "box"])] = {}
    kind: Any = choose.choice(["parameter_change"] * 5 + ["stage_rerun"])
    known |= {"changes": {"parameters": leaves}}
    return p.AmendmentProposed(kind=kind, stage=stage, **known)


OTHERS: list[dict[str, Any]] = [
    {"kind": "parameter_change", "changes": {"consent": {"new": "trust"}}},
    {
        "kind": "parameter_change",
        "changes": {"mandates": {"sampling": {"new": {**GRANTED, "amendments": 999}}}},
    },
    {"kind": "parameter_change", "changes": {"mandates": {"mine": {"new": {**GRANTED, "by": []}}}}},
    {"kind": "parameter_change", "changes": {"session_config": {"session_budget": {"new": 900}}}},
    {"kind": "parameter_change", "stage": "stage-1", "changes": {"name": {"new": "Rest"}}},
    {
        "kind": "parameter_change",
        "stage": "stage-1",
        "changes": {"outputs": {"new": ["stage-1/x"]}},
    },
    {
        "kind": "criteria_change",
        "stage": "stage-1",
        "changes": {"success_criteria": {"new": "any"}},
    },
    {"kind": "stage_skip", "stage": "stage-2"},
    {
        "kind": "stage_insert",
        "insert": {"id": "more", "name": "More", "parameters": {"command": "x"}},
    },
    {"kind": "plan_change", "rewired": {"stage-1": {"parameters": {"dt": {"new": 0.05}}}}},
]


class Life:
    """One workflow with a mandate, and what an adversary obtained from it."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.state = given(plan=PLAN)
        self.core_seconds = 0.0
        self.taken = 0
        self.reruns = 0
        self.is_granted = True

    def record(self, *commands: Payload, at: str = AT) -> None:
        """Check commands against the rules, and apply their events to the state."""
        for command in commands:
            self.state = state_after(self.state, decide(self.state, command, at), at)

    def run(self) -> None:
        """Run all stages that are ready, for the maximum time that the rules allow."""
        for id_, seconds in (("stage-1", 60), ("stage-2", 30)):
            stage = self.state.stages[id_]
            if stage.status is not Status.READY:
                continue
            by_mandate = bool(stage.mandates)
            number = f"att-{len(stage.attempts) + 1:04d}"
            try:
                self.record(attempt(id_, "sync"))
            except LifecycleError:
                assert by_mandate, "a stage that no mandate changed is computed without one"
                continue
            self.record(computed(id_, number), at="2026-03-31T11:00:00.000000Z")
            self.record(completed(id_))
            self.core_seconds += seconds if by_mandate else 0

    def attack(self) -> None:
        """Propose a change, forge its approval, and compare the verdict with the mandate."""
        actor, at = f"agent:{self.choose.choice(ACTORS)}", self.choose.choice([AT] * 9 + [LATE])
        asked = hostile(self.choose)
        try:
            (proposal,) = decide(self.state, asked, AT)
        except LifecycleError:
            return
        self.state = state_after(self.state, [proposal], AT)
        assert isinstance(proposal, p.AmendmentProposed)
        approval = forged(self.state, proposal, actor, at)
        against = explain_invalid_approval(self.state, approval)
        name, _ = find_covering_mandate(
            self.state,
            amendment_of_proposal(proposal),
            compute_approval_impact(self.state, amendment_of_proposal(proposal)),
            actor,
            at,
        )
        assert (against is None) == (name is not None), (proposal, against)
        if against is None:
            self.is_within(proposal, actor, at)
            self.record(p.AmendmentApproved.of(approval.data))
        else:
            self.record(p.AmendmentRejected(amendment=str(proposal.amendment)))

    def is_within(self, proposal: p.AmendmentProposed, actor: str, at: str) -> None:
        """Count an accepted amendment, and assert that the mandate allows it."""
        self.taken += 1
        self.reruns += (1 + len(proposal.also)) * (proposal.kind == "stage_rerun")
        assert self.is_granted, "it was taken back"
        assert is_signed(proposal), proposal
        assert actor in ("agent:bo", "agent:opt-2")
        assert at == AT
        assert self.taken <= GRANTED["amendments"]
        assert self.reruns <= GRANTED["reruns"]

    def revoke(self) -> None:
        """Revoke the mandate, as a person does."""
        back = p.AmendmentProposed(
            kind="parameter_change", description="x", changes={"mandates": {"sampling": {}}}
        )
        self.record(back)
        last = [*self.state.amendments][-1]
        self.record(p.AmendmentApproved(amendment=last, proof={"policy": "trust"}))
        self.is_granted = False


def forged(state: Workflow, proposal: p.AmendmentProposed, actor: str, at: str) -> PlannedApproval:
    """Return an approval forged by an attacker who knows the format of proofs."""
    amendment = amendment_of_proposal(proposal)
    impact = compute_approval_impact(state, amendment)
    statement = build_statement(state, amendment, impact, HEAD, {})
    data = p.AmendmentApproved(
        amendment=amendment.id,
        version=state.version + 1,
        invalidated_stages=list(impact.affected),
        approved_by="mandate sampling",
        proof=build_proof(statement, "mandate", mandate="sampling"),
    )
    kind, _, name = actor.partition(":")
    return PlannedApproval(data.as_json(), HEAD, Actor(kind, name), at)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(one, marks=[pytest.mark.long] if one > 4 else []) for one in range(25)]
)
def test_no_proposal_exceeds_the_mandate(seed: int) -> None:
    """Values, amendments, reruns and core seconds stay within the limits, also after revocation."""
    life = Life(seed)
    for number in range(400):
        life.attack()
        if life.choose.random() < 0.5:
            life.run()
        if number == 300:
            life.revoke()
    assert life.taken, "some of the proposals are within the mandate"
    assert life.core_seconds <= GRANTED["core_hours"] * 3600
    spent = compute_mandate_use(life.state, "sampling")
    assert (spent.amendments, spent.reruns) == (life.taken, life.reruns)
    assert spent.tasks <= GRANTED["tasks"]
    assert spent.core_seconds >= life.core_seconds
