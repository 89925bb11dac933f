"""Errors of plans, amendments and event data."""

from __future__ import annotations

from pathlib import Path

from tests.advice.log_rows import begun
from tests.advice.table import place_in, root_in, row
from tests.amendments.support import LONGER, Place, make
from tests.cli.support import Answer


def trusted(folder: Path) -> Place:
    """Create a workflow under the policy `trust`, where every caller may approve."""
    folder.mkdir(parents=True, exist_ok=True)
    return make(folder / "root", "--consent", "trust")


@row("unreadable_plan", 1, "not valid JSON", names="plan.json")
def no_json(folder: Path) -> Answer:
    """Create a workflow from a plan that is not JSON."""
    (root_in(folder) / "plan.json").write_text("{")
    return place_in(folder).json("init", str(root_in(folder) / "plan.json"))


@row("invalid_plan", 1, "cannot become a workflow", names="Correct the plan")
def no_plan(folder: Path) -> Answer:
    """Create a workflow from an invalid plan."""
    (root_in(folder) / "plan.json").write_text("{}")
    return place_in(folder).json("init", str(root_in(folder) / "plan.json"))


@row("invalid_payload", 2, "does not fit note.logged")
def unfit(folder: Path) -> Answer:
    """Append data that does not match its event type."""
    return begun(folder).json("append", "note.logged", "--data", '{"words": 3}')


@row("unknown_event_type", 2, "unknown event type", names="note.logged")
def unknown_type(folder: Path) -> Answer:
    """Append an event of an unknown type."""
    return begun(folder).json("append", "stage.melted", "--data", "{}")


@row("invalid_option", 2, "needs either", names="TYPE or the option --from FILE")
def type_and_file(folder: Path) -> Answer:
    """Append with both an event type and a file."""
    return begun(folder).json("append", "note", "--from", "x")


@row("unknown_stage", 3, "no stage 'stage-9'", names="stage-1")
def no_stage(folder: Path) -> Answer:
    """Request a stage that does not exist."""
    return begun(folder).json("show", "stage-9")


@row("unknown_amendment", 3, "no amendment 'amend-9'")
def no_amendment(folder: Path) -> Answer:
    """Approve an amendment that does not exist."""
    return begun(folder).json("amend", "approve", "amend-9")


@row("unknown_loop", 3, "no loop 'walk'", names="no loops")
def no_loop(folder: Path) -> Answer:
    """Request a loop that does not exist."""
    return begun(folder).json("round", "show", "walk")


@row("outside_envelope", 5, "x: 99 is not within", names="rounds.walk.NAME=VALUE")
def outside(folder: Path) -> Answer:
    """Propose a point outside the approved range."""
    folder.mkdir(parents=True, exist_ok=True)
    run = {"command": "true", "map": {"points": [{"x": 1}]}}
    walk = {"stages": ["run"], "points": "run", "ask": "agent", "at_most": 3}
    plan = {
        "workflow_id": "w",
        "stages": [{"id": "run", "name": "Run", "outputs": ["run/tasks.csv"], "parameters": run}],
        "rounds": {"walk": {**walk, "within": {"x": {"from": 1, "to": 9}}}},
    }
    place = make(folder / "root", "--consent", "trust", plan=plan)
    place.finish("run")
    return place.json("round", "propose", "walk", "--points", '[{"x": 99}]')


@row("invalid_amendment", 5, "the proposal is not valid", names="your own words")
def empty_words(folder: Path) -> Answer:
    """Propose an amendment whose reason is a placeholder word."""
    return begun(folder).json(
        "amend", "propose", "--stage", "stage-1", "--type", "stage_rerun", "--reason", "TEXT"
    )


@row("amendment_decided", 5, "amend-1 is already approved")
def twice(folder: Path) -> Answer:
    """Approve an amendment twice."""
    place = trusted(folder)
    place.propose(*LONGER)
    place.approve()
    return place.json("amend", "approve", "amend-1")


@row("stale_amendment", 4, "the proposal expects the value")
def two_of_one_value(folder: Path) -> Answer:
    """Approve the second of two proposals for the same value."""
    place = trusted(folder)
    place.propose(*LONGER)
    place.propose("--stage", "stage-1", "--set", "parameters.n=3", "--reason", "longer still")
    place.approve()
    return place.json("amend", "approve", "amend-2")


@row("impact_changed", 4, "has changed since it was approved")
def another_impact(folder: Path) -> Answer:
    """Approve an amendment with an outdated impact."""
    place = trusted(folder)
    place.propose(*LONGER)
    return place.json("amend", "approve", "amend-1", "--impact", "0" * 64)


@row("needs_consent", 6, "only a person can record")
def without_a_person(folder: Path) -> Answer:
    """Approve as an agent although a person must approve."""
    folder.mkdir(parents=True)
    place = make(folder / "root")
    place.propose(*LONGER)
    data = '{"amendment": "amend-1", "version": 2, "proof": {}}'
    return place.json("append", "amendment.approved", "--data", data)
