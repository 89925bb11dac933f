"""`wfctl clean` deletes leftover files of old attempts, and the log names these files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.built_once import built_once
from tests.cli.support import Place, tree
from tests.keeping.support import made, recorded, stage

pytestmark = pytest.mark.slow
OUT = ["stage-1/a.txt"]


@built_once
def retried(folder: Path) -> Place:
    """Return a completed workflow whose first attempt failed and left large files."""
    command = "echo so; head -c 100000 /dev/urandom > big; echo 1 > a.txt; ln -s big link"
    gate = "test -e ../../../../../../go"
    place = made(folder, stage(1, f"{command}; {gate}", outputs=OUT))
    (place.path / "stage-1").mkdir()
    (place.path / "stage-1/mine").write_text("yours\n")
    assert place.call("run").code == 6
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-1", "--fix", "made go")
    assert place.call("run").code == 0
    return place


def files(place: Place) -> dict[str, str]:
    """Return the digests of the files in stage folders, by path."""
    return {
        path: digest
        for path, digest in tree(place.path).items()
        if digest != "-" and "/" in path and not path.startswith((".wfctl", "docs"))
    }


@pytest.mark.long
def test_clean_deletes_leftovers_of_superseded_attempts(tmp_path: Path) -> None:
    """`wfctl clean` deletes a failed attempt's files, but no outputs and no files of the user."""
    place = retried(tmp_path)
    (kept,) = place.path.glob("stage-1/.attempts/att-0001-*/kept/stage-1")
    (kept / "strange").write_text("nobody knows\n")
    before = files(place)
    told = place.done("clean", "--dry-run")
    assert (told["dry_run"], files(place)) == (True, before)
    assert told["bytes"] >= 100_000
    freed = place.done("clean", "--yes")
    assert freed["freed"] == told["freed"]
    gone = before.keys() - files(place).keys()
    assert {path for path in files(place) if files(place)[path] != before[path]} == set()
    assert all(path.startswith("stage-1/.attempts/att-0001-") for path in gone)
    assert any(path.endswith("kept/stage-1/big") for path in gone)
    assert (kept / "strange").exists()
    assert (kept / "log").read_text() == "so\n"
    assert (place.path / "stage-1/mine").read_text() == "yours\n"
    assert place.done("clean", "--yes")["freed"] == []
    assert place.done("verify", "--deep")["found"] == []
    assert place.json("replay", "--check").code == 0


def test_log_names_deleted_leftovers(tmp_path: Path) -> None:
    """The event `leftovers.freed` and the progress log name every file that `clean` deleted."""
    place = retried(tmp_path)
    assert "stage-1/big" in recorded(place)
    paths = place.done("clean", "--yes")["freed"][0]["paths"]
    (event,) = place.done("events", "--type", "leftovers.freed")
    assert event["data"]["paths"] == paths
    assert "stage-1/big" in event["data"]["files"]
    assert "leftovers of att-0001 freed" in place.log()
    assert not any((place.path / path).exists() for path in paths)


def test_clean_without_a_terminal_requires_yes(tmp_path: Path) -> None:
    """Without `--yes`, `wfctl clean` deletes nothing, and lists the attempts to clean."""
    place = retried(tmp_path)
    before = files(place)
    answer = place.json("clean")
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert "stage-1 att-0001" in answer.error["message"]
    assert "--yes" in answer.error["message"]
    assert files(place) == before
    assert "leftovers.freed" not in place.types()


def test_age_size_and_stage_limit_clean(tmp_path: Path) -> None:
    """Options limit what `clean` deletes; files of a stage that is not completed always stay."""
    place = retried(tmp_path)
    assert place.done("clean", "--yes", "--older-than", "1h")["freed"] == []
    assert place.done("clean", "--yes", "--larger-than", "1 GB")["freed"] == []
    assert place.json("clean", "--older-than", "soon").code == 2
    assert place.json("clean", "--larger-than", "big").code == 2
    assert place.json("clean", "stage-9").code == 3
    found = place.done("clean", "stage-1", "--dry-run", "--older-than", "0s")
    assert [one["attempt"] for one in found["freed"]] == ["att-0001"]
    failed = made(tmp_path / "failed", stage(1, "echo r > big; exit 1", outputs=OUT))
    assert failed.call("run").code == 6
    assert failed.done("clean", "--yes")["freed"] == []
