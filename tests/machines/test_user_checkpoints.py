"""``user_checkpoints`` of ``phase.json``: the approvals of phases that a person gave."""

from __future__ import annotations

from tests.machines.place import MachinePlace
from tests.machines.support import small_data

PHASE = "memory/state/phase.json"
DEMAND = "memory/reports/demand.json"
FINAL = "memory/reports/final_design.json"


def listed(place: MachinePlace) -> list[str]:
    """Return the phases that ``phase.json`` calls approved."""
    return [one["phase"] for one in place.json(PHASE)["user_checkpoints"]]


def test_more_attempts_are_no_checkpoint(place: MachinePlace) -> None:
    """It lets tasks run again; no phase is approved by it."""
    place.init("wf", "dotagent")
    place.write(DEMAND, {"wants": "a shop"})
    place.done("approve", "wf", "requirements")
    place.done("transition", "wf", "ARCHITECTURE")
    place.write(FINAL, {"style": "plain"})
    place.done("approve", "wf", "architecture")
    place.done("transition", "wf", "IMPLEMENTATION")
    place.done("approve", "wf", "more-attempts")
    assert listed(place) == ["REQUIREMENTS", "ARCHITECTURE"]


def test_what_an_import_claims_is_no_checkpoint(place: MachinePlace) -> None:
    """Nobody gave it here by the policy; anyone who comes back is told of the claim."""
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
    """Begin phased development of one's own: a phase that is approved, and a way back to it."""
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


def test_an_approval_of_other_values_is_no_checkpoint(place: MachinePlace) -> None:
    """Until it is given anew, and then it is one and not two."""
    own(place)
    assert listed(place) == ["a"]
    place.done("update", "wf", "text=another")
    assert listed(place) == []
    place.done("approve", "wf", "ok")
    assert listed(place) == ["a"]


def test_an_approval_of_an_earlier_stay_is_no_checkpoint(place: MachinePlace) -> None:
    """A phase that is entered again waits for its approval again."""
    own(place)
    place.done("transition", "wf", "b")
    assert listed(place) == ["a"]
    place.done("transition", "wf", "a")
    assert listed(place) == []
