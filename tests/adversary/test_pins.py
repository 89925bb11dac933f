"""A log that was put in the place of one that this login knows."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.adversary.support import forged_fold
from tests.amendments.support import LONGER, PLAN, Keys, Place, make
from tests.cli.support import call, tree, write_plan
from tests.cli.terminal import answered

WORD = "this login pinned"


def told(place: Place) -> str:
    """Return the warnings that `status` prints."""
    found: list[str] = place.done("status")["consent"]["warnings"]
    return "\n".join(found)


def pins(folder: Path) -> dict[str, str]:
    """Return every file of this login's pins, with what it holds."""
    found = (folder / "configuration/wfctl").rglob("*.json")
    return {str(path): path.read_text() for path in sorted(found)}


def refused(place: Place, *line: str) -> str:
    """Return by which code a person is asked for before a command does anything."""
    answer = place.json(*line)
    assert answer.code == 6, answer
    return str(answer.error["code"])


def kept(place: Place) -> dict[str, str]:
    """Return what the root holds, without what SQLite's readers share."""
    return {path: one for path, one in tree(place.path).items() if not path.endswith("-shm")}


def anew(place: Place, *words: str, id_: str = "melt-2026-03-31") -> None:
    """Put the root's folder aside and begin another workflow in its place."""
    (place.path / ".wfctl").rename(place.path / "aside")
    for name in ("workflow-state.json", "progress.log"):
        (place.path / name).unlink()
    source = write_plan(place.path.parent, {**PLAN, "workflow_id": id_}, "other.json")
    assert call("--root", str(place.path), "init", str(source), *words).code == 0


def moved_in(place: Place, *words: str, id_: str = "melt-2026-03-31") -> None:
    """Make a workflow elsewhere, and put its database in the place of the root's own."""
    other = make(place.path.parent / "elsewhere", *words, plan={**PLAN, "workflow_id": id_})
    shutil.rmtree(place.path / ".wfctl")
    shutil.copytree(other.path / ".wfctl", place.path / ".wfctl")


@pytest.mark.parametrize("id_", ["melt-2026-03-31", "another"])
@pytest.mark.parametrize("way", [anew, moved_in])
@pytest.mark.parametrize("policy", ["signature", "trust", "terminal"])
def test_another_log_in_a_pinned_root_is_told_and_no_approval_in_it_counts(
    policy: str, way: object, id_: str, signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """Whatever its id and policy are; what is pinned stays."""
    words = ["--consent", policy]
    words += ["--signers", str(keys.signers)] if policy == "signature" else []
    known = pins(tmp_path)
    assert callable(way)
    way(signed, *words, id_=id_)
    before, where = signed.version(), ("--root-is", "copied")
    key = ("--key", str(keys.allowed)) if policy == "signature" else ()
    for line in (["note", "here"], ["amend", "propose", *LONGER], ["amend", "approve", "a", *key]):
        assert refused(signed, *where, *line) == "another_log"
    assert WORD in told(signed)
    assert (signed.version(), signed.document()["version"]) == (before, 1)
    assert WORD in told(signed)
    assert {path: pins(tmp_path).get(path) for path in known} == known


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("run",),
    ("dispatch", "stage-1", "--sync"),
    ("session", "start"),
    ("stage", "ready", "stage-1"),
    ("append", "note.logged", "--data", '{"text": "x"}'),
    ("replay", "--rebuild"),
    ("rehydrate",),
    ("reconcile",),
)


@pytest.mark.parametrize("line", COMMANDS, ids=" ".join)
def test_nothing_begins_or_changes_in_a_pinned_root_with_another_log(
    signed: Place, line: tuple[str, ...]
) -> None:
    """In every policy; what reads shows it, with the warning."""
    anew(signed, "--consent", "trust")
    before = kept(signed)
    assert refused(signed, *line) == "another_log"
    assert kept(signed) == before
    assert WORD in told(signed)
    assert signed.call("log").code == 0


def test_a_machine_in_the_place_of_a_pinned_one_is_not_carried_on(
    signed: Place, keys: Keys
) -> None:
    """A machine is pinned by its id."""
    words = ("--type", "feature", "--consent", "signature", "--signers", str(keys.signers))
    signed.done("machine", "init", "ship", *words)
    anew(signed, "--consent", "trust")
    (signed.path / "ship.state.json").unlink()
    assert signed.json("machine", "init", "ship", "--type", "feature").code == 0
    assert refused(signed, "machine", "update", "ship", "artifacts.plan=x.md") == "another_log"
    assert signed.json("machine", "get", "ship").code == 0


def test_a_moved_root_is_still_the_known_one(signed: Place, keys: Keys, tmp_path: Path) -> None:
    """Its first event is the one that was pinned; an approval pins it where it is now."""
    signed.path.rename(tmp_path / "new")
    place = Place(tmp_path / "new")
    place.call("--root-is", "moved", "note", "moved")
    assert told(place) == ""
    place.propose(*LONGER)
    place.approve("amend-1", "--key", str(keys.allowed))
    assert place.document()["version"] == 2


@pytest.mark.slow
def test_a_person_pins_what_is_there_now(signed: Place, keys: Keys) -> None:
    """At a terminal, after it was shown; an agent and a pipe do not."""
    anew(signed, "--consent", "signature", "--signers", str(keys.signers))
    line = ("--root", str(signed.path), "pin", "--replace")
    assert call("--actor", "agent:x", *line).code == 6
    assert WORD in told(signed)
    code, shown = answered("y\n", *line)
    assert code == 0, shown
    assert "consent by signature" in shown
    assert told(signed) == ""


def test_pins_of_the_earlier_form_go_on_to_hold(signed: Place, tmp_path: Path) -> None:
    """One file a workflow id; the root that it names is pinned."""
    folder = tmp_path / "configuration/wfctl/pins"
    (path,) = folder.rglob("*.json")
    (entry,) = json.loads(path.read_text())["pins"]
    entry.pop("stream")
    path.unlink()
    older = folder / "melt-2026-03-31.json"
    older.write_text(json.dumps({"format": 1, "pins": [entry]}))
    assert told(signed) == ""
    anew(signed, "--consent", "trust", id_="another")
    assert WORD in told(signed)


def test_a_forged_fold_is_not_believed_after_a_move(
    trusted: Place, keys: Keys, tmp_path: Path
) -> None:
    """Given a log that came to ``signature``, then its events alone count, wherever it is."""
    signers = [keys.signers.read_text().strip()]
    words = ("--set", "consent=signature", "--set", f"signers={json.dumps(signers)}")
    trusted.propose(*words, "--reason", "from now on")
    trusted.approve("amend-1")
    trusted.path.rename(tmp_path / "moved")
    place = Place(tmp_path / "moved")
    shutil.rmtree(tmp_path / "configuration", ignore_errors=True)
    before = place.definition()
    forged_fold(place)
    assert place.done("show", "stage-1")["parameters"]["n"] == 1
    place.call("--root-is", "moved", "note", "on we go")
    assert place.definition() == before
    assert place.done("show", "stage-1")["parameters"]["n"] == 1


def test_no_folder_of_this_login_follows_the_umask(keys: Keys, tmp_path: Path) -> None:
    """Another login that can write in one of them puts another pin in its place."""
    before = os.umask(0)
    try:
        make(tmp_path / "root", "--consent", "signature", "--signers", str(keys.signers))
    finally:
        os.umask(before)
    own = tmp_path / "configuration/wfctl"
    assert pins(tmp_path)
    folders = [own, *(path for path in own.rglob("*") if path.is_dir())]
    assert [str(path) for path in folders if path.stat().st_mode & 0o077] == []
