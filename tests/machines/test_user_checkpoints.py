"""``user_checkpoints`` in ``phase.json`` lists the phases that a person approved."""

from __future__ import annotations

from tests.machines.place import MachinePlace
from tests.machines.support import small_data

PHASE = "memory/state/phase.json"
DEMAND = "memory/reports/demand.json"
FINAL = "memory/reports/final_design.json"


def listed(place: MachinePlace) -> list[str]:
    """Return the phases that ``phase.json`` lists as approved."""
    return [one["phase"] for one in place.json(PHASE)["user_checkpoints"]]


def test_approval_of_more_attempts_is_not_listed(place: MachinePlace) -> None:
    """The approval `more-attempts` lets tasks run again, but does not approve a phase."""
    place.init("wf", "dotagent")
    place.write(DEMAND, {"wants": "a shop"})
    place.done("approve", "wf", "requirements")
    place.done("transition", "wf", "ARCHITECTURE")
    place.write(FINAL, {"style": "plain"})
    place.done("approve", "wf", "architecture")
    place.done("transition", "wf", "IMPLEMENTATION")
    place.done("approve", "wf", "more-attempts")
    assert listed(place) == ["REQUIREMENTS", "ARCHITECTURE"]


def test_approval_claimed_by_an_import_is_not_listed(place: MachinePlace) -> None:
    """An imported file has no proof of its approvals, so `rehydrate` reports them as claims."""
    state = {
        "workflow_id": "wf",
        "started_at": "2026-11-01T10:00:00Z",
        "current_phase": "ARCHITECTURE",
        "phase_status": "in_progress",
        "completed_phases": [],
        "user_checkpoints": [{"phase": "REQUIREMENTS", "approved_at": "2026-11-01T11:00:00Z"}],
        "interruption_safe": True,
    }
    place.write(PHASE, state)
    place.done("import", str(place.path / PHASE))
    assert place.done("get", "wf", "--query", "user_checkpoints") == []
    (claim,) = place.done("rehydrate", "wf", "--go-on")["decisions"]
    assert claim["what"] == "the imported file says: REQUIREMENTS approved"
    assert claim["by"] is None


def own(place: MachinePlace) -> None:
    """Create a machine with an approved phase and a transition back to this phase."""
    phases = {"a": {"person": "decides"}, "b": {}, "c": {"final": True}}
    ways = [
        {"from": "a", "to": "b", "guard": {"all": [{"present": "text"}, {"approved": "ok"}]}},
        {"from": "b", "to": "a", "unbounded": True},
        {"from": "b", "to": "c"},
    ]
    more = {
        "protocol": "dotagent",
        "approvals": {"ok": {"phase": "a", "asks": "Shall it go on?"}},
        "fields": {"text": "text"},
        "files": {
            "phase": PHASE,
            "execution": "memory/state/execution.json",
            "archive": "memory/state/.archive",
        },
    }
    place.write("own.json", small_data(phases=phases, transitions=ways, **more))
    place.done("init", "wf", "--definition", str(place.path / "own.json"), "--consent", "trust")
    place.done("update", "wf", "text=one")
    place.done("approve", "wf", "ok")


def test_approval_of_changed_values_is_not_listed(place: MachinePlace) -> None:
    """If approved values change, wfctl removes the phase from the list until a new approval."""
    own(place)
    assert listed(place) == ["a"]
    place.done("update", "wf", "text=another")
    assert listed(place) == []
    place.done("approve", "wf", "ok")
    assert listed(place) == ["a"]


def test_approval_of_an_earlier_visit_is_not_listed(place: MachinePlace) -> None:
    """If the machine enters a phase again, the phase needs a new approval."""
    own(place)
    place.done("transition", "wf", "b")
    assert listed(place) == ["a"]
    place.done("transition", "wf", "a")
    assert listed(place) == []
