"""All commands describe the state of a workflow with the same items and the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from cli.settings import Settings
from extensions.pages.command import _build_served_root
from extensions.pages.job_data import build_data_readers
from extensions.pages.page_data import build_page_look
from extensions.pages.render import parse_request
from extensions.pages.served_workflows import ServedWorkflows
from extensions.pages.views import render_requested_page
from tests.cli.support import Place, call
from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow
Told = list[str]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate state folder, so that wfctl lists only the roots of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def chain(folder: Path, second: str = "cat ../stage-1/a.txt > b.txt") -> Place:
    """Return a completed workflow of two stages. The second stage reads a result of the first."""
    one = stage(1, "cat ../in.txt > a.txt", inputs=["in.txt"], outputs=["stage-1/a.txt"])
    two = stage(
        2, second, depends_on=["stage-1"], inputs=["stage-1/a.txt"], outputs=["stage-2/b.txt"]
    )
    place = made(folder, one, two, consent="trust")
    (place.path / "in.txt").write_text("1\n")
    place.call("run")
    return place


def propose(place: Place, stage_id: str) -> None:
    """Propose an amendment of a stage."""
    change = ("--set", "parameters.n=2", "--reason", "more")
    place.done("amend", "propose", "--stage", stage_id, *change)


def nothing(folder: Path) -> Place:
    """Return a workflow in which no item needs attention."""
    return chain(folder)


def stale_by_amendment(folder: Path) -> Place:
    """Return a workflow whose stage-2 is stale because of an approved amendment of stage-1."""
    place = chain(folder)
    propose(place, "stage-1")
    place.done("amend", "approve", "amend-1", "--actor", "user:me")
    return place


def stale_by_result(folder: Path) -> Place:
    """Return a workflow whose stage-2 is stale because a recorded result of stage-1 changed."""
    place = chain(folder)
    (place.path / "stage-1/a.txt").write_text("2\n")
    place.done("rehydrate")
    return place


def stale_by_input(folder: Path) -> Place:
    """Return a workflow whose external input changed."""
    place = chain(folder)
    (place.path / "in.txt").write_text("2\n")
    return place


def changed_result(folder: Path) -> Place:
    """Return a workflow whose final result was edited, which no event records yet."""
    place = chain(folder)
    (place.path / "stage-2/b.txt").write_text("2\n")
    return place


def edited(folder: Path) -> Place:
    """Return a workflow whose state file was edited, which no event records yet."""
    place = chain(folder)
    path = place.path / "workflow-state.json"
    document = json.loads(path.read_text())
    document["stages"][1]["name"] = "Another"
    path.write_text(json.dumps(document))
    return place


def edited_and_kept(folder: Path) -> Place:
    """Return a workflow whose edited state file was saved and waits for a decision."""
    place = edited(folder)
    place.done("note", "hi")
    return place


def failed(folder: Path) -> Place:
    """Return a workflow whose second stage failed."""
    return chain(folder, "exit 3")


def proposed(folder: Path) -> Place:
    """Return a workflow with an amendment that waits for approval."""
    place = chain(folder)
    propose(place, "stage-2")
    return place


def to_judge(folder: Path) -> Place:
    """Return a workflow with a stage whose success criteria a person has to judge."""
    one = stage(1, "echo 1 > a.txt", outputs=["stage-1/a.txt"], success_criteria="It looks good.")
    place = made(folder, one, consent="trust")
    place.call("run")
    return place


#: Function that creates a situation → the kind and subject of each item that the commands must
#: show.
SITUATIONS: dict[Callable[[Path], Place], list[str]] = {
    nothing: [],
    stale_by_amendment: ["stale stage-2"],
    stale_by_result: ["changed result stage-1/a.txt", "stale stage-2"],
    stale_by_input: ["stale stage-1", "stale stage-2", "script in.txt"],
    changed_result: ["changed result stage-2/b.txt"],
    edited: ["drift workflow-state.json"],
    edited_and_kept: ["drift workflow-state.json"],
    failed: ["failure stage-2"],
    proposed: ["amendment amend-1"],
    to_judge: ["judgement stage-1"],
}
#: Function that creates a situation → the items that `wfctl run` resolves without a person.
NOT_ASKED: dict[Callable[[Path], Place], set[str]] = {stale_by_amendment: {"stale stage-2"}}


def of_files(line: str) -> bool:
    """Return whether an item is about files, which are the only subject of `drift`."""
    return line.startswith(("drift ", "stale ")) or " result " in line


def by_page(place: Place, below: str = "") -> str:
    """Return the text of a web page of the workflow, without its markup."""
    shelf = ServedWorkflows(
        lambda: [_build_served_root(Settings(), place.path)], build_data_readers()
    )
    [entry] = shelf.refresh()
    with entry.open() as log:
        return unescape(
            render_requested_page(
                build_page_look(shelf, entry, log, parse_request(f"{entry.address}{below}"))
            ).decode()
        )


def by_list(key: str) -> Callable[[Place, str], str]:
    """Return a function that formats a list in a command's JSON output as lines."""

    def told(place: Place, command: str) -> str:
        data = place.json(*command.split()).data
        return "\n".join(f"{one['kind']} {one['subject']}: {one['text']}" for one in data[key])

    return told


def by_brief(place: Place, _: str) -> str:
    """Return the items of the briefing's JSON output as lines."""
    data = place.done("rehydrate", "--dry-run")
    items = [*data["waiting"], *data["contradictions"]]
    return "\n".join(f"{one['kind']} {one['subjects']}: {one['text']}" for one in items)


def by_inbox(place: Place, _: str) -> str:
    """Return the items of the inbox as lines."""
    data = call("inbox", "-o", "json").data
    return "\n".join(f"{one['kind']} {one['subject']}: {one['text']}" for one in data)


def by_text(place: Place, command: str) -> str:
    """Return the text output of a command, without Markdown escapes."""
    return place.call(*command.split()).out.replace("\\", "")


READERS: dict[str, Callable[[Place, str], str]] = {
    "status": by_text,
    "report": by_text,
    "reconcile --dry-run": by_text,
    "drift show": by_text,
    "rehydrate --dry-run": by_text,
    "brief as data": by_brief,
    "inbox": by_inbox,
    "page": lambda place, _: by_page(place),
    "-o json reconcile --dry-run": lambda place, _: by_list("account")(
        place, "reconcile --dry-run"
    ),
    "-o json drift show": lambda place, _: by_list("account")(place, "drift show"),
}


def wanted(place: Place, situation: Callable[[Path], Place], reader: str) -> Told:
    """Return the lines that a given command must show for the items of the workflow."""
    lines = by_list("account")(place, "status").splitlines()
    names = [line.partition(": ")[0] for line in lines]
    assert names == SITUATIONS[situation]
    if "drift" in reader:
        return [line for line in lines if of_files(line)]
    if "rehydrate" in reader or reader in ("inbox", "brief as data"):
        # Leave out changed scripts, because these commands show only items that wait for a person.
        lines = [line for line in lines if not line.startswith("script ")]
    if reader == "inbox":
        kept = NOT_ASKED.get(situation, set())
        return [line for line in lines if line.partition(": ")[0] not in kept]
    return lines


@pytest.mark.long
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_all_commands_report_the_same_items_and_next_actions(
    situation: Callable[[Path], Place], tmp_path: Path
) -> None:
    """Each command shows exactly the expected items, and all suggest the same commands."""
    place = situation(tmp_path)
    check_words(place, situation)
    check_next_actions(place, situation)
    # A changed result file waits for a decision of a person, as an edited state file does.
    waits = situation not in NOT_ASKED and any(map(of_files, SITUATIONS[situation]))
    assert place.call("drift", "show").code == (7 if waits else 0)


def check_words(place: Place, situation: Callable[[Path], Place]) -> None:
    """Check that each reader shows every item of the account and no other item."""
    for reader, read in READERS.items():
        text = read(place, reader)
        lines = wanted(place, situation, reader)
        assert [line for line in lines if line not in text] == [], (reader, text)
        others = {name for names in SITUATIONS.values() for name in names}
        others -= {line.partition(": ")[0] for line in lines}
        assert [name for name in others if f"{name}: " in text] == [], (reader, text)


#: Kind of item → start of the command that resolves an item of this kind.
COMMANDS = {
    "amendment": "wfctl amend show",
    "drift": "wfctl drift show",
    "changed result": "wfctl verify",
    "failure": "wfctl stage retry",
    "judgement": "wfctl stage complete",
    "stale": "wfctl rerun",
}


def check_next_actions(place: Place, situation: Callable[[Path], Place]) -> None:
    """Check that status, brief, reconcile and report suggest the same next commands."""
    kinds = {name.rpartition(" ")[0] for name in SITUATIONS[situation]} - {"script"}
    expected = {COMMANDS[kind] for kind in kinds} if situation not in NOT_ASKED else set()
    told: list[Any] = [
        place.json(*command.split()).envelope["next_actions"]
        for command in ("status", "reconcile --dry-run", "rehydrate --dry-run", "report -")
    ]
    for actions in told:
        commands = [one["command"] for one in actions]
        found = {one for one in COMMANDS.values() if any(c.startswith(one) for c in commands)}
        assert found == expected, commands


@pytest.mark.long
def test_completed_stage_shows_no_last_error(tmp_path: Path) -> None:
    """No command shows the error of an earlier attempt, although the state file keeps it."""
    place = chain(tmp_path, "test -e ../../../../../../go && echo 2 > b.txt")
    error = place.done("show", "stage-2")["last_error"]
    assert error == place.done("status")["stages"][1]["last_error"]
    assert error in by_page(place, "stage/stage-2")
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-2", "--fix", "made go")
    place.done("run")
    assert json.loads((place.path / "workflow-state.json").read_text())["stages"][1]["last_error"]
    assert place.done("show", "stage-2")["last_error"] is None
    assert place.done("status")["stages"][1]["last_error"] is None
    assert place.done("rehydrate")["stages"][1]["last_error"] is None
    for below, rest in (("", "<h2>Newest events"), ("stage/stage-2", "<h2>Attempts")):
        assert error not in by_page(place, below).partition(rest)[0]
