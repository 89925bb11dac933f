"""Claims: one agent at a time works on a task, until its claim is released or expires."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extensions.machines.rules import payload as p
from extensions.machines.rules.decide import compute_state_after, decide
from extensions.machines.rules.machine import Caller
from tests.cli.support import Answer, call
from tests.machines.place import MachinePlace
from tests.machines.support import AT, begun, when

TASK = ("login", "T-1")
A = Caller("agent:a")
LATER = "2030-01-01T00:00:00.000000Z"


def _as(place: MachinePlace, who: str, *words: str) -> Answer:
    return call("--root", str(place.path), "-o", "json", "--actor", who, "machine", *words)


def _claimed(place: MachinePlace, who: str, *words: str) -> tuple[str, str]:
    """Claim the task, and return the option that proves the claim."""
    return ("--under", _as(place, who, "task", "claim", *TASK, *words).data["claim"]["handle"])


def _begun(place: MachinePlace) -> None:
    place.init("login")
    place.done("task", *TASK, "--title", "The form")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "actor"),
    [("file", "agent:worker-{}"), ("file", "agent:unknown"), ("server", "agent:worker-{}")],
    indirect=["place"],
)
def test_one_of_eight_parallel_claims_succeeds(place: MachinePlace, actor: str) -> None:
    """Seven of eight processes are refused, and learn who holds the claim until when."""
    _begun(place)
    answers = place.at_once([("task", "claim", *TASK)] * 8, actor)
    assert sorted(code for code, _ in answers) == [0, *[4] * 7]
    (claim,) = [answer["data"]["claim"] for code, answer in answers if not code]
    for code, answer in answers:
        if code:
            told = answer["error"]
            assert (told["code"], told["data"]["by"]) == ("TASK_HELD", claim["by"])
            assert told["data"]["until"] == claim["until"]
    assert place.types("login").count("machine.task_claimed") == 1
    assert place.wfctl("fsck").code == 0


@pytest.mark.parametrize("other", ["agent:b", "agent:a"])
def test_only_the_claimer_changes_a_task(place: MachinePlace, other: str) -> None:
    """wfctl refuses every change of a claimed task by a caller without the claim's handle.

    Another session of the same client does not have the handle and is refused, too.
    """
    _begun(place)
    under = _claimed(place, "agent:a")
    seen = str(place.head("login"))
    for words in (
        ("task", *TASK, "--status", "complete"),
        ("task", *TASK, "owner=me"),
        ("task", "release", *TASK),
        ("task", "claim", *TASK),
        ("update", "login", "tasks[0].status=complete", "--expected-version", seen),
        ("update", "login", 'tasks=[{"id": "T-1", "status": "complete"}]'),
        ("update", "login", "tasks=[]"),
        ("task", *TASK, "--status", "complete", "--dry-run"),
    ):
        refused = _as(place, other, *words)
        assert (refused.code, refused.error["code"]) == (4, "TASK_HELD"), words
        assert refused.error["data"]["by"] == "agent:a"
    assert place.head("login") == int(seen)
    assert _as(place, "agent:b", "task", "login", "T-2", "--title", "Another").code == 0
    assert _as(place, "agent:b", "update", "login", "note=free").code == 0
    stale = ("--under", "claim-1")
    assert _as(place, other, "task", *TASK, "--status", "complete", *stale).code == 4
    shell = ("task", *TASK, "--status", "complete", *under)
    assert _as(place, "user:shell", *shell).code == 0, "the claim is a handle, for all who show it"
    assert _as(place, "agent:b", "task", *TASK, "title=again").code == 0


def test_claim_is_renewed_and_released_by_its_claimer(place: MachinePlace) -> None:
    """The claimer can extend the claim. After its release, another agent can claim the task."""
    _begun(place)
    first = _as(place, "agent:a", "task", "claim", *TASK, "--for", "1m").data["claim"]
    under = ("--under", first["handle"])
    again = _as(place, "agent:a", "task", "claim", *TASK, *under)
    assert (again.code, again.error["code"]) == (4, "TASK_HELD")
    assert "--renew" in again.error["message"]
    longer = ("task", "claim", *TASK, "--renew", "--for", "2h")
    assert _as(place, "agent:a", *longer).code == 4
    renewed = _as(place, "agent:a", *longer, *under).data["claim"]
    assert (renewed["renew"], renewed["handle"]) == (True, first["handle"])
    assert renewed["until"] > first["until"]
    assert _as(place, "agent:b", "task", "claim", *TASK, "--renew").code == 4
    assert _as(place, "agent:a", "task", "release", *TASK, "--reason", "not today").code == 4
    given_up = ("task", "release", *TASK, "--reason", "not today", *under)
    assert _as(place, "agent:a", *given_up).code == 0
    assert _as(place, "agent:a", "task", "release", *TASK).data["events"] == []
    assert _as(place, "agent:b", "task", "claim", *TASK).code == 0


@pytest.mark.slow
def test_expired_claim_can_be_taken_over(place: MachinePlace) -> None:
    """When the claim of a dead agent has expired, another agent can claim the task."""
    _begun(place)
    assert _as(place, "agent:dead", "task", "claim", *TASK, "--for", "1s").code == 0
    while (answer := _as(place, "agent:b", "task", "claim", *TASK)).code == 4:
        assert answer.error["data"]["by"] == "agent:dead"
    assert answer.data["claim"]["before"] == "agent:dead"
    assert _as(place, "agent:dead", "task", *TASK, "--status", "complete").code == 4


def test_claim_of_another_agent_can_be_ended_with_a_reason(place: MachinePlace) -> None:
    """With `--despite-claim REASON`, an agent changes the task, and the log has the reason."""
    _begun(place)
    assert _as(place, "agent:a", "task", "claim", *TASK).code == 0
    words = ("task", *TASK, "--status", "complete", "--despite-claim", "a has crashed")
    assert _as(place, "agent:b", *words).code == 0
    released, changed = place.events("login")[-2:]
    assert released["type"] == "machine.task_released"
    assert released["data"] == {
        "task": "T-1",
        "reason": "a has crashed",
        "despite": True,
        "by": "agent:a",
    }
    assert changed["data"]["changes"]["status"] == "complete"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("task", "claim", "login", "T-9"), "no task 'T-9'"),
        (("task", "claim", *TASK, "--for", "soon"), "not a valid duration"),
        (("task", "claim", *TASK, "--for", "0s"), "seconds"),
        (("task", "claim", *TASK, "--for", "40d"), "seconds"),
        (("task", "login", "claim"), "wfctl machine task claim login TASK"),
        (("task", "release", *TASK, "--reason", "x", "--despite-claim", "y"), "Remove --reason"),
    ],
)
def test_invalid_claim_is_refused(place: MachinePlace, words: tuple[str, ...], says: str) -> None:
    """wfctl refuses an unknown task, an invalid duration and a wrong order of arguments."""
    _begun(place)
    before = place.head("login")
    answer = place.call(*words)
    assert (answer.code, answer.error["code"]) == (2, "INVALID_INPUT")
    assert says in answer.error["message"]
    assert place.head("login") == before


def test_completed_task_cannot_be_claimed(place: MachinePlace) -> None:
    """wfctl refuses to claim a complete task, or a task of a cancelled machine."""
    _begun(place)
    place.done("task", *TASK, "--status", "complete")
    place.refused("INVALID_INPUT", 2, "task", "claim", *TASK)
    place.done("task", "login", "T-2")
    place.done("cancel", "login")
    place.refused("ALREADY_CANCELLED", 5, "task", "claim", "login", "T-2")


def test_claim_is_shown_by_get_and_rehydrate(place: MachinePlace) -> None:
    """`machine get` and `machine rehydrate` show who holds the claim of a task."""
    _begun(place)
    words = ("task", "claim", *TASK, "--command-id", "c-1")
    assert place.call(*words).data["repeated"] is False
    assert place.call(*words).data["repeated"] is True
    assert place.call("get", "login").envelope["_meta"]["claims"]["T-1"]["by"] == "user:ada"
    (task,) = place.done("rehydrate", "login")["taskProgress"]["open"]
    assert task["claimedBy"] == "user:ada"
    assert place.wfctl("replay", "--check").code == 0


def test_resume_does_not_restart_a_claimed_task(place: MachinePlace) -> None:
    """If one agent claims a running task, `rehydrate` by another agent does not reset the task."""
    place.init("wf", "dotagent")
    _at_work(place)
    assert _as(place, "agent:a", "task", "claim", "wf", "task-001").code == 0
    assert "claimed by agent:a" in json.dumps(_as(place, "agent:b", "rehydrate", "wf").envelope)
    (task,) = place.json("memory/state/execution.json")["tasks"]
    assert task["status"] == "running"


def _at_work(place: MachinePlace) -> Any:
    place.done("task", "wf", "task-001", "--status", "running")
    return place.json("memory/state/execution.json")


@pytest.mark.parametrize(
    ("by", "until"), [("agent:b", LATER), ("", LATER), ("agent:a", None)], ids=str
)
def test_forged_claim_is_ignored(by: str, until: str | None) -> None:
    """A forged event that claims the task for another agent, or forever, has no effect."""
    state = when(begun("feature"), p.MachineTaskChanged(task="T-1", changes={"title": "one"}))
    state = compute_state_after(
        state, decide(state, p.MachineTaskClaimed(task="T-1"), AT, caller=A), AT
    )
    held = state.leases["T-1"]
    forged = p.MachineTaskClaimed(task="T-1", by=by or None, until=until)
    found = compute_state_after(state, [forged], AT)
    assert found.leases == {"T-1": held}
    assert [one["type"] for one in found.set_aside] == ["machine.task_claimed"]
