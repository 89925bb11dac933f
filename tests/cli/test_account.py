"""One account of where a workflow stands: all who tell of it name the same, in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from cli.commands.serve import _of_root
from cli.frame.sight import sight
from cli.settings import Settings
from pages.looking import looked
from pages.render import parsed
from pages.shelf import Shelf
from pages.views import page_of
from tests.cli.support import Place, call
from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow
Told = list[str]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """List the roots of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def chain(folder: Path, second: str = "cat ../stage-1/a.txt > b.txt") -> Place:
    """Return a workflow of two stages, the second of which reads a result of the first, run."""
    one = stage(1, "cat ../in.txt > a.txt", inputs=["in.txt"], outputs=["stage-1/a.txt"])
    two = stage(
        2, second, depends_on=["stage-1"], inputs=["stage-1/a.txt"], outputs=["stage-2/b.txt"]
    )
    place = made(folder, one, two, consent="trust")
    (place.path / "in.txt").write_text("1\n")
    place.call("run")
    return place


def propose(place: Place, stage_id: str) -> None:
    """Propose another way to compute a stage."""
    change = ("--set", "parameters.n=2", "--reason", "more")
    place.done("amend", "propose", "--stage", stage_id, *change)


def nothing(folder: Path) -> Place:
    """All is as it was recorded."""
    return chain(folder)


def stale_by_amendment(folder: Path) -> Place:
    """What stage-2 rests on is computed anew, as a person agreed."""
    place = chain(folder)
    propose(place, "stage-1")
    place.done("amend", "approve", "amend-1", "--actor", "user:me")
    return place


def stale_by_result(folder: Path) -> Place:
    """A result is another one, which stage-2 had read; the log knows it."""
    place = chain(folder)
    (place.path / "stage-1/a.txt").write_text("2\n")
    place.done("rehydrate")
    return place


def stale_by_input(folder: Path) -> Place:
    """An input from outside is another one."""
    place = chain(folder)
    (place.path / "in.txt").write_text("2\n")
    return place


def changed_result(folder: Path) -> Place:
    """A last result was edited, and nobody recorded it yet."""
    place = chain(folder)
    (place.path / "stage-2/b.txt").write_text("2\n")
    return place


def edited(folder: Path) -> Place:
    """The state file was edited, and nobody recorded it yet."""
    place = chain(folder)
    path = place.path / "workflow-state.json"
    document = json.loads(path.read_text())
    document["stages"][1]["name"] = "Another"
    path.write_text(json.dumps(document))
    return place


def edited_and_kept(folder: Path) -> Place:
    """The state file was edited, and the edit is kept until somebody decides."""
    place = edited(folder)
    place.done("note", "hi")
    return place


def failed(folder: Path) -> Place:
    """The second stage failed."""
    return chain(folder, "exit 3")


def proposed(folder: Path) -> Place:
    """A person is to agree."""
    place = chain(folder)
    propose(place, "stage-2")
    return place


def to_judge(folder: Path) -> Place:
    """The criteria of a stage are prose."""
    one = stage(1, "echo 1 > a.txt", outputs=["stage-1/a.txt"], success_criteria="It looks good.")
    place = made(folder, one, consent="trust")
    place.call("run")
    return place


#: Situation → what the account says of it: each kind and what it is about.
SITUATIONS: dict[Callable[[Path], Place], list[str]] = {
    nothing: [],
    stale_by_amendment: ["stale stage-2"],
    stale_by_result: ["changed result stage-1/a.txt", "stale stage-2"],
    stale_by_input: ["stale stage-1", "stale stage-2"],
    changed_result: ["changed result stage-2/b.txt"],
    edited: ["drift workflow-state.json"],
    edited_and_kept: ["drift workflow-state.json"],
    failed: ["failure stage-2"],
    proposed: ["amendment amend-1"],
    to_judge: ["judgement stage-1"],
}
#: What only the loop waits for, and no person.
NOT_ASKED: dict[Callable[[Path], Place], set[str]] = {stale_by_amendment: {"stale stage-2"}}


def of_files(line: str) -> bool:
    """Whether it is about files, which is all that `drift` is about."""
    return line.startswith(("drift ", "stale ")) or " result " in line


def by_page(place: Place, below: str = "") -> str:
    """Return a page of the workflow as it is read, without its markup."""
    shelf = Shelf(lambda: [_of_root(Settings(), place.path)], sight())
    [entry] = shelf.refresh()
    with entry.open() as log:
        return unescape(
            page_of(looked(shelf, entry, log, parsed(f"{entry.address}{below}"))).decode()
        )


def by_list(key: str) -> Callable[[Place, str], str]:
    """Return what tells a command's list of a briefing as lines."""

    def told(place: Place, command: str) -> str:
        data = place.json(*command.split()).data
        return "\n".join(f"{one['kind']} {one['subject']}: {one['text']}" for one in data[key])

    return told


def by_brief(place: Place, _: str) -> str:
    """Return what the briefing as data names, as lines."""
    data = place.done("rehydrate", "--dry-run")
    items = [*data["waiting"], *data["contradictions"]]
    return "\n".join(f"{one['kind']} {one['subjects']}: {one['text']}" for one in items)


def by_inbox(place: Place, _: str) -> str:
    """Return what waits for a person, as lines."""
    data = call("inbox", "-o", "json").data
    return "\n".join(f"{one['kind']} {one['subject']}: {one['text']}" for one in data)


def by_text(place: Place, command: str) -> str:
    """Return what a person reads, with no sign of Markdown escaped."""
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
    """Return the lines of the account that a reader has to tell."""
    lines = by_list("account")(place, "status").splitlines()
    names = [line.partition(": ")[0] for line in lines]
    assert names == SITUATIONS[situation]
    if "drift" in reader:
        return [line for line in lines if of_files(line)]
    if reader == "inbox":
        kept = NOT_ASKED.get(situation, set())
        return [line for line in lines if line.partition(": ")[0] not in kept]
    return lines


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_every_reader_tells_the_same_in_the_same_words_and_leads_on_from_it(
    situation: Callable[[Path], Place], tmp_path: Path
) -> None:
    """Each line of the account stands in each, and nothing of another kind."""
    place = situation(tmp_path)
    check_words(place, situation)
    check_next_actions(place, situation)
    # A changed result is as undecided as an edited file.
    waits = situation not in NOT_ASKED and any(map(of_files, SITUATIONS[situation]))
    assert place.call("drift", "show").code == (7 if waits else 0)


def check_words(place: Place, situation: Callable[[Path], Place]) -> None:
    """Each reader tells each line of the account, and nothing of another kind."""
    for reader, read in READERS.items():
        text = read(place, reader)
        lines = wanted(place, situation, reader)
        assert [line for line in lines if line not in text] == [], (reader, text)
        others = {name for names in SITUATIONS.values() for name in names}
        others -= {line.partition(": ")[0] for line in lines}
        assert [name for name in others if f"{name}: " in text] == [], (reader, text)


#: Kind → how the command begins that leads on from it.
COMMANDS = {
    "amendment": "wfctl amend show",
    "drift": "wfctl drift show",
    "changed result": "wfctl verify",
    "failure": "wfctl stage retry",
    "judgement": "wfctl stage complete",
    "stale": "wfctl rerun",
}


def check_next_actions(place: Place, situation: Callable[[Path], Place]) -> None:
    """Status, brief, reconcile and the report name the same commands, which lead on."""
    kinds = {name.rpartition(" ")[0] for name in SITUATIONS[situation]}
    expected = {COMMANDS[kind] for kind in kinds} if situation not in NOT_ASKED else set()
    told: list[Any] = [
        place.json(*command.split()).envelope["next_actions"]
        for command in ("status", "reconcile --dry-run", "rehydrate --dry-run", "report -")
    ]
    for actions in told:
        commands = [one["command"] for one in actions]
        found = {one for one in COMMANDS.values() if any(c.startswith(one) for c in commands)}
        assert found == expected, commands


def test_a_completed_stage_tells_of_no_error(tmp_path: Path) -> None:
    """The file keeps the last one, as the protocol does; anyone who reads it is not told."""
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
