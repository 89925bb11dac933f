"""A root whose log was replaced, although the user had pinned the original log."""

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

WORD = "user account pinned"


def told(place: Place) -> str:
    """Return the warnings that `status` prints."""
    found: list[str] = place.done("status")["consent"]["warnings"]
    return "\n".join(found)


def pins(folder: Path) -> dict[str, str]:
    """Return the content of every pin file of this user."""
    found = (folder / "configuration/wfctl").rglob("*.json")
    return {str(path): path.read_text() for path in sorted(found)}


def refused(place: Place, *line: str) -> str:
    """Check that the command exits with code 6, and return its error code."""
    answer = place.json(*line)
    assert answer.code == 6, answer
    return str(answer.error["code"])


def kept(place: Place) -> dict[str, str]:
    """Return the digests of the files in the root, without the shared-memory files of SQLite."""
    return {path: one for path, one in tree(place.path).items() if not path.endswith("-shm")}


def anew(place: Place, *words: str, id_: str = "melt-2026-03-31") -> None:
    """Move the `.wfctl` folder aside, and create another workflow in the root."""
    (place.path / ".wfctl").rename(place.path / "aside")
    for name in ("workflow-state.json", "progress.log"):
        (place.path / name).unlink()
    source = write_plan(place.path.parent, {**PLAN, "workflow_id": id_}, "other.json")
    assert call("--root", str(place.path), "init", str(source), *words).code == 0


def moved_in(place: Place, *words: str, id_: str = "melt-2026-03-31") -> None:
    """Create a workflow elsewhere, and replace the database of the root with its database."""
    other = make(place.path.parent / "elsewhere", *words, plan={**PLAN, "workflow_id": id_})
    shutil.rmtree(place.path / ".wfctl")
    shutil.copytree(other.path / ".wfctl", place.path / ".wfctl")


@pytest.mark.parametrize("id_", ["melt-2026-03-31", "another"])
@pytest.mark.parametrize("way", [anew, moved_in])
@pytest.mark.parametrize("policy", ["signature", "trust", "terminal"])
def test_approval_in_a_replaced_log_is_refused(
    policy: str, way: object, id_: str, signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """wfctl refuses every write to the replaced log and keeps the pin of the original log."""
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
def test_replaced_log_in_a_pinned_root_is_not_written(signed: Place, line: tuple[str, ...]) -> None:
    """wfctl refuses commands that write, under every policy.

    Commands that only read show the replaced log with a warning.
    """
    anew(signed, "--consent", "trust")
    before = kept(signed)
    assert refused(signed, *line) == "another_log"
    assert kept(signed) == before
    assert WORD in told(signed)
    assert signed.call("log").code == 0


def test_replaced_machine_in_a_pinned_root_is_not_written(signed: Place, keys: Keys) -> None:
    """wfctl pins a machine by its id, and refuses a new machine with the same id."""
    words = ("--type", "feature", "--consent", "signature", "--signers", str(keys.signers))
    signed.done("machine", "init", "ship", *words)
    anew(signed, "--consent", "trust")
    (signed.path / "ship.state.json").unlink()
    assert signed.json("machine", "init", "ship", "--type", "feature").code == 0
    assert refused(signed, "machine", "update", "ship", "artifacts.plan=x.md") == "another_log"
    assert signed.json("machine", "get", "ship").code == 0


def test_moved_root_keeps_its_pin(signed: Place, keys: Keys, tmp_path: Path) -> None:
    """After a move, wfctl recognises the log by its first event and prints no warning."""
    signed.path.rename(tmp_path / "new")
    place = Place(tmp_path / "new")
    place.call("--root-is", "moved", "note", "moved")
    assert told(place) == ""
    place.propose(*LONGER)
    place.approve("amend-1", "--key", str(keys.allowed))
    assert place.document()["version"] == 2


@pytest.mark.slow
def test_person_pins_the_current_log(signed: Place, keys: Keys) -> None:
    """`pin --replace` asks a person at a terminal, and is refused for an agent."""
    anew(signed, "--consent", "signature", "--signers", str(keys.signers))
    line = ("--root", str(signed.path), "pin", "--replace")
    assert call("--actor", "agent:x", *line).code == 6
    assert WORD in told(signed)
    code, shown = answered("y\n", *line)
    assert code == 0, shown
    assert "consent by signature" in shown
    assert told(signed) == ""


def test_pin_of_the_older_format_is_still_valid(signed: Place, tmp_path: Path) -> None:
    """A pin file of the older format still detects a replaced log."""
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


def test_forged_fold_is_ignored_after_a_move(trusted: Place, keys: Keys, tmp_path: Path) -> None:
    """Under the policy `signature`, wfctl ignores a forged cached state in a moved root."""
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


def test_pin_folders_ignore_the_umask(keys: Keys, tmp_path: Path) -> None:
    """Only their owner can access the pin folders, whatever the umask."""
    before = os.umask(0)
    try:
        make(tmp_path / "root", "--consent", "signature", "--signers", str(keys.signers))
    finally:
        os.umask(before)
    own = tmp_path / "configuration/wfctl"
    assert pins(tmp_path)
    folders = [own, *(path for path in own.rglob("*") if path.is_dir())]
    assert [str(path) for path in folders if path.stat().st_mode & 0o077] == []
