"""An archive of a stranger: nothing of it leads out of the root, and nothing it says runs here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.adversary.archives import Edit, added, completed, forged
from tests.cli.support import Place, call, tree, wfctl, write_plan
from tests.exports.support import handed_over


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a home of one's own, with something in it, and stand in it."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh/known").write_text("hosts")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def honest(tmp_path: Path) -> Path:
    """Make the archive of a small workflow."""
    root = tmp_path / "origin"
    root.mkdir()
    assert (
        call("--root", str(root), "init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    )
    place = Place(root)
    place.done("note", "hello")
    return handed_over(place, tmp_path)


def _stage_of(id_: str) -> Edit:
    def edit(bodies: list[Any]) -> list[Any]:
        bodies[0]["data"]["document"]["stages"][1]["id"] = id_
        return bodies

    return edit


HOSTILE: dict[str, tuple[Edit, str | None]] = {
    "a report in a start-up file": (completed(".bash_login"), None),
    "a report above the root": (completed("../escaped.md"), None),
    "a report at an absolute path": (completed("/tmp/escaped.md"), None),
    "a report that is a script of ours": (completed("init.sh"), None),
    "a report in a hidden folder": (completed(".git/hooks/post-commit"), None),
    "a report of another kind": (completed("sitecustomize.py"), None),
    "a report in our folder": (completed(".wfctl/root.md"), None),
    "a report with a line end": (completed("a\nb.md"), None),
    "a line end in the id": (lambda b: b, 'x"\ndatabase_url = "sqlite:////tmp/evil.db'),
    "an id that leads up": (lambda b: b, "../../../evil"),
    "an absolute id": (lambda b: b, "/tmp/evil"),
    "an id that is too long": (lambda b: b, "x" * 4000),
    "a stage that leads up": (_stage_of("../../../evil"), None),
    "a stage that is absolute": (_stage_of("/tmp/evil"), None),
    "a kept version elsewhere": (
        added(
            "drift.detected",
            {"file": "progress.log", "kind": "unreadable", "kept_as": "../../etc/passwd"},
        ),
        None,
    ),
    "a kept folder elsewhere": (
        added("outputs.archived", {"stage": "stage-1", "kept_as": "../../x.v2"}),
        None,
    ),
    "an attempt elsewhere": (
        added("attempt.observed", {"stage": "stage-1", "attempt": "../../x"}),
        None,
    ),
    "a session's report elsewhere": (
        added("session.started", {"number": 1, "report": "../x.md"}, schema_version=2),
        None,
    ),
    "no data": (added("note.logged", None), None),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_strangers_archive_makes_nothing_outside(
    what: str, home: Path, honest: Path, tmp_path: Path
) -> None:
    """It is refused before anything is written, wherever it would have led."""
    edit, workflow = HOSTILE[what]
    file = forged(honest, tmp_path / "hostile.zip", edit, workflow)
    before = tree(tmp_path)
    answer = call("import", str(file), "-o", "json")
    call("note", "later")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive"), answer
    assert tree(tmp_path) == before


def test_an_honest_archive_is_taken(home: Path, honest: Path, tmp_path: Path) -> None:
    """The forge itself makes archives that hold; an ordinary report is written."""
    file = forged(honest, tmp_path / "hostile.zip", completed("docs/report.md"))
    assert call("import", str(file)).code == 0
    assert call("--root-is", "copied", "note", "later").code == 0
    assert (home / "docs/report.md").is_file()
    assert tomllib.loads((home / ".wfctl/config.toml").read_text())["workflow"] == "melt-2026-03-31"


def test_a_report_follows_no_link_out_of_the_root(home: Path, honest: Path, tmp_path: Path) -> None:
    """A folder that leads elsewhere is told, and nothing is written there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (home / "docs").symlink_to(outside)
    file = forged(honest, tmp_path / "hostile.zip", completed("docs/report.md"))
    assert call("import", str(file)).code == 0
    answer = call("--root-is", "copied", "note", "later")
    assert (answer.code, list(outside.iterdir())) == (1, [])
    assert "leads out of" in answer.err
    assert wfctl("status").code == 0
