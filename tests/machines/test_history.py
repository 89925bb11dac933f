"""The commands `log`, `events`, `diff`, `blame` and `why` for phase machines."""

from __future__ import annotations

import pytest

from tests.cli.support import call
from tests.machines.place import MachinePlace


@pytest.fixture
def two(place: MachinePlace) -> MachinePlace:
    """Return a root with two machines, each with a history, and no workflow."""
    place.init("login")
    place.done("task", "login", "T-1", "--status", "in_progress")
    place.init("pay", "debug")
    place.done("update", "login", "artifacts.design=d.md")
    place.done("transition", "login", "plan", "--reason", "the design stands")
    return place


def test_log_of_a_root_lists_the_events_of_all_machines(two: MachinePlace) -> None:
    """Without a workflow, `wfctl log` lists the events of all machines in the order of the log."""
    found = two.wfctl("log", "--grep", "begins").data
    assert [one["machine"] for one in found] == ["login", "pay"]
    whole = two.wfctl("log").data
    assert [one["position"] for one in whole] == sorted(one["position"] for one in whole)
    text = call("--root", str(two.path), "log").out
    assert "login: ideate -> plan: the design stands" in text
    assert two.wfctl("log", "--at", "2").code == 2
    assert two.wfctl("log", "--follow").code == 2


@pytest.mark.parametrize("command", ["events", "log"])
def test_events_of_all_machines_can_be_filtered_by_time(two: MachinePlace, command: str) -> None:
    """Each machine counts its own versions, so a filter by version requires `--machine`."""
    whole = two.wfctl(command).data
    assert whole
    assert two.wfctl(command, "--since", "0").data == whole
    assert two.wfctl(command, "--until", "0").data == []
    assert two.wfctl(command, "--since", "@{1 hour ago}").data == whole
    refused = two.wfctl(command, "--since", "1")
    assert (refused.code, refused.error["code"]) == (2, "invalid_option")
    assert "Name the machine with --machine ID" in refused.error["message"]
    assert two.wfctl(command, "--until", "session:1").code == 2
    of_one = two.wfctl(command, "--machine", "login", "--since", "2").data
    assert [one["version"] for one in of_one] == [3, 4]


def test_log_of_one_machine_can_be_filtered(two: MachinePlace) -> None:
    """`wfctl log --machine` can stop at a version, and can print only the newest entries."""
    assert [one["version"] for one in two.wfctl("log", "--machine", "login").data] == [1, 2, 3, 4]
    assert len(two.wfctl("log", "--machine", "login", "--at", "2").data) == 2
    (last,) = two.wfctl("log", "--machine", "login", "-n", "1").data
    assert last["type"] == "machine.transitioned"
    assert two.wfctl("log", "--machine", "nobody").code == 3
    assert two.wfctl("log", "--machine", "login", "--at", "99").code == 3


def test_diff_compares_two_versions_of_a_machine(two: MachinePlace) -> None:
    """`wfctl diff --machine` exits with 7 if two versions differ, and with 0 if they are equal."""
    answer = two.wfctl("diff", "--machine", "login", "3", "4", "--field", "phase")
    assert answer.code == 7
    (one,) = answer.data["differences"]
    assert (one["field"], one["a"], one["b"]) == ("phase", "ideate", "plan")
    assert answer.data["a"] == {"machine": "login", "version": 3}
    assert two.wfctl("diff", "--machine", "login", "4").code == 0
    assert two.wfctl("diff", "--machine", "nobody").code == 3


def test_blame_shows_who_changed_a_field_of_a_machine(two: MachinePlace) -> None:
    """`wfctl blame --machine` prints who set a field, when and why, also for a field of a task."""
    (phase,) = two.wfctl("blame", "--machine", "login", "phase").data
    assert (phase["version"], phase["old"], phase["value"]) == (4, "ideate", "plan")
    assert (phase["actor"], phase["why"]) == ("user:ada", "the design stands")
    (status,) = two.wfctl("blame", "--machine", "login", "tasks.T-1.status").data
    assert (status["version"], status["value"]) == (2, "in_progress")
    (then,) = two.wfctl("blame", "--machine", "login", "phase", "--at", "3").data
    assert (then["version"], then["value"]) == (1, "ideate")
    assert two.wfctl("blame", "--machine", "login", "nothing.here").code == 3


def test_why_explains_the_phase_of_a_machine(two: MachinePlace) -> None:
    """`wfctl why --machine` prints the last transition and the conditions of the next ones."""
    found = two.wfctl("why", "--machine", "login").data
    assert (found["phase"], found["since"]["version"]) == ("plan", 4)
    assert found["since"]["message"] == "ideate -> plan: the design stands"
    (way,) = found["ways"]
    assert way["to"] == "plan-review"
    assert "artifacts.plan" in way["lacks"][0]
    then = two.wfctl("why", "--machine", "login", "--at", "2").data
    assert (then["phase"], then["since"]["version"]) == ("ideate", 1)
    assert "ways" not in then
    assert two.wfctl("why", "stage-1", "--machine", "login").code == 2
    text = call("--root", str(two.path), "why", "--machine", "login").out
    assert "to plan-review: not yet" in text


def test_machine_list_filters_by_phase_and_number(two: MachinePlace) -> None:
    """`machine list --phase` lists machines in a phase, and `-n` limits their number."""
    assert [row["id"] for row in two.done("list", "--phase", "plan")] == ["login"]
    assert two.done("list", "--phase", "nowhere") == []
    two.done("update", "pay", "triage.symptom=slow")
    assert len(two.done("list", "-n", "1")) == 1


def test_dry_run_of_cancel_names_the_pull_request(place: MachinePlace) -> None:
    """The answer lists the open pull request, and no event is recorded."""
    place.init("login")
    place.done("update", "login", "artifacts.pr=https://example.org/pull/7")
    before = place.head("login")
    found = place.done("cancel", "login", "--dry-run")
    assert found["left"]["pull_request"] == "https://example.org/pull/7"
    text = call("--root", str(place.path), "machine", "cancel", "login", "--dry-run").out
    assert "left: pull request https://example.org/pull/7" in text
    assert place.head("login") == before


@pytest.mark.slow
def test_late_phase_is_reported(place: MachinePlace) -> None:
    """After the due time of a phase, `list`, `why` and `rehydrate` report that it is late."""
    definition = {
        "id": "paper",
        "title": "A paper",
        "initial": "review",
        "phases": {"review": {"due": "1s"}, "out": {"final": True}},
        "transitions": [{"from": "review", "to": "out"}],
        "files": {"state": "{id}.state.json"},
    }
    place.write("paper.json", definition)
    path = str(place.path / "paper.json")
    place.done("init", "first", "--definition", path, "--consent", "trust")
    while not (held := place.done("list")[0]["blockers"]):
        pass
    assert "review is late" in held[0]
    assert "expected within 1s" in held[0]
    assert place.wfctl("why", "--machine", "first").data["blockers"] == held
    assert place.done("rehydrate", "first")["blockers"][0]["says"] == held[0]
    assert place.done("list", "--at", "2030-01-01T00:00:00Z")[0]["blockers"] == []
    assert (place.phase("first"), place.head("first")) == ("review", 1)
    definition["phases"]["review"]["due"] = "soon"  # type: ignore[index]
    place.write("paper.json", definition)
    file = str(place.path / "paper.json")
    problems = place.refused("INVALID_DEFINITION", 1, "check", file)["problems"]
    assert "phases.review.due" in str(problems)


def test_events_of_a_root_list_all_machines(place: MachinePlace) -> None:
    """Without a workflow, `wfctl events` prints the events of all machines in log order."""
    place.init("one")
    place.init("two", "oneshot")
    place.done("update", "one", "artifacts.design=d.md")
    listed = [(one["stream"], one["type"]) for one in place.wfctl("events").data]
    assert listed == [
        ("machine-one", "machine.created"),
        ("machine-two", "machine.created"),
        ("machine-one", "machine.updated"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        *(("audit", name) for name in ("transitions", "retries", "attempts", "costs", "refused")),
        ("audit", "sql", "SELECT * FROM v_events"),
    ],
    ids=" ".join,
)
def test_workflow_tables_report_that_the_root_has_only_machines(
    place: MachinePlace, line: tuple[str, ...]
) -> None:
    """Without a workflow, the commands fail and name the machines of the log."""
    place.init("one")
    answer = place.wfctl(*line)
    assert answer.error["code"] == "no_workflow_yet"
    assert (
        "The log has the machines one. To list all machines, run `wfctl machine list`"
        in answer.error["message"]
    )


def test_append_of_a_machine_event_names_the_right_command(place: MachinePlace) -> None:
    """`wfctl append` refuses the event and explains that `wfctl machine` records it."""
    place.init("one")
    answer = place.wfctl("append", "machine.updated")
    assert answer.error["code"] == "unknown_event_type"
    assert "unknown" not in answer.error["message"]
    assert "only the commands of `wfctl machine` record this event" in answer.error["message"]
