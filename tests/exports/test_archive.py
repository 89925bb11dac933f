"""Hand-over: one file that holds a workflow whole, and a root made from it, all hashes equal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from cli.frame.workspace import SCHEMA
from eventstore.engine import open_log
from service.handover.archive import write_archive
from service.reading.log import WorkflowLog
from service.root.disk import system_instant
from service.root.root import open_root
from tests.cli.support import Place, call, tree, wfctl, write_plan
from tests.exports.support import handed_over, taken_over
from tests.server import Server


def test_a_root_keeps_its_log_where_it_is(tmp_path: Path) -> None:
    """An archive that is imported where it came from makes no second log beside the first."""
    root = tmp_path / "root"
    root.mkdir()
    url = ("--database-url", f"sqlite:///{tmp_path}/elsewhere.db", "--journal", "truncate")
    assert (
        call(
            "--root", str(root), *url, "init", str(write_plan(tmp_path)), "--consent", "trust"
        ).code
        == 0
    )
    place = Place(root)
    with (root / ".wfctl/config.toml").open("a") as file_of_root:
        file_of_root.write('notify = "true"\n')
    file, config = handed_over(place, tmp_path), (root / ".wfctl/config.toml").read_text()
    place.done("note", "later")
    place.done("import", str(file), "--into", str(root))
    assert (root / ".wfctl/config.toml").read_text() == config
    assert not (root / ".wfctl/events.db").exists()
    assert place.notes() == ["later"]


def test_a_root_made_from_an_archive_is_the_same_workflow(lived: Place, tmp_path: Path) -> None:
    """Every event with its hash, the state, the log, the refusals, what was kept of an edit."""
    made = taken_over(handed_over(lived, tmp_path), tmp_path / "made")
    assert made.done("events") == lived.done("events")
    assert made.done("fsck") == lived.done("fsck")
    assert made.json("replay", "--check").code == 0
    for name in ("workflow-state.json", "progress.log"):
        assert (made.path / name).read_bytes() == (lived.path / name).read_bytes()
    assert tree(made.path / ".wfctl/drift") == tree(lived.path / ".wfctl/drift")
    assert (
        made.json("drift", "show").envelope["data"] == lived.json("drift", "show").envelope["data"]
    )


@pytest.mark.slow
def test_an_archive_becomes_a_root_on_a_server_and_back(
    server: Server, lived: Place, tmp_path: Path
) -> None:
    """PostgreSQL computes the same chain; what is handed on from there is the same."""
    file, second = handed_over(lived, tmp_path), tmp_path / "second.zip"
    made = tmp_path / "made"
    line = ["import", str(file), "--into", str(made), "--database-url", server.schema()]
    assert call(*line).code == 0
    on_server = Place(made)
    assert [e["hash"] for e in on_server.done("events")] == [
        e["hash"] for e in lived.done("events")
    ]
    on_server.done("export", "archive", str(second))
    with ZipFile(file) as one, ZipFile(second) as other:
        for name in ("claims.jsonl", "refusals.jsonl", "progress.log", "workflow-state.json"):
            assert one.read(name) == other.read(name)


def listed(place: Place) -> list[Any]:
    """Return the machines of a root, whatever their age."""
    return [{**one, "age_seconds": None} for one in place.done("machine", "list")]


def test_machines_are_handed_over_with_their_files(lived: Place, tmp_path: Path) -> None:
    """Every stream of the root, and what shows it."""
    lived.done("machine", "init", "job1", "--type", "conductor")
    made = taken_over(handed_over(lived, tmp_path), tmp_path / "made")
    assert listed(made) == listed(lived)
    file = "conductor/tracks/job1/metadata.json"
    assert (made.path / file).read_bytes() == (lived.path / file).read_bytes()


def test_a_root_of_machines_alone_is_handed_over(tmp_path: Path) -> None:
    """With no workflow in the manifest, and none in the root that is made of it."""
    (tmp_path / "root").mkdir()
    place = Place(tmp_path / "root")
    place.done("machine", "init", "job1", "--type", "conductor")
    file = handed_over(place, tmp_path)
    with ZipFile(file) as archive:
        assert json.loads(archive.read("manifest.json"))["workflow"] is None
    made = taken_over(file, tmp_path / "made")
    assert listed(made) == listed(place)
    assert made.done("fsck")["findings"] == []
    assert made.json("status").code == 3


def test_an_archive_of_nothing_is_not_made(tmp_path: Path) -> None:
    """Where every machine is gone with its log."""
    (tmp_path / "root").mkdir()
    place = Place(tmp_path / "root")
    place.done("machine", "init", "job1", "--type", "conductor")
    for path in (place.path / ".wfctl").glob("events.db*"):
        path.unlink()
    place.done("db", "upgrade")
    assert place.json("export", "archive", str(tmp_path / "archive.zip")).code == 3
    assert not (tmp_path / "archive.zip").exists()


@pytest.mark.parametrize(
    "option",
    [
        ["--git"],
        ["--utc-offset", "+02:00"],
        ["--consent", "trust"],
        ["--signers", "signers"],
        ["--command-id", "k"],
        ["--expected-version", "0"],
    ],
    ids=lambda option: option[0],
)
def test_what_an_archive_settles_itself_is_no_option(
    lived: Place, tmp_path: Path, option: list[str]
) -> None:
    """It is refused by name, and nothing is made."""
    file, made = handed_over(lived, tmp_path), tmp_path / "made"
    answer = call("import", str(file), "--into", str(made), "-o", "json", *option)
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert option[0] in answer.error["message"]
    assert not made.exists()


def test_a_command_that_was_done_stays_done(lived: Place, tmp_path: Path) -> None:
    """Given again in the new root, it gets the first answer; with other content it conflicts."""
    made = taken_over(handed_over(lived, tmp_path), tmp_path / "made")
    version = made.version()
    line = ["--command-id", "once", "--root-is", "moved"]
    assert made.done("note", "äöü", *line)["repeated"] is True
    assert made.call("note", "other", *line).code == 4
    assert [e["type"] for e in made.done("events")[version:]] == ["note.logged"]


def test_a_new_root_asks_what_it_is_before_it_writes(lived: Place, tmp_path: Path) -> None:
    """Two roots must not both go on with the attempts of one."""
    made = taken_over(handed_over(lived, tmp_path), tmp_path / "made")
    assert made.call("note", "hello").code == 6
    assert made.call("note", "hello", "--root-is", "moved").code == 0


def test_an_archive_holds_what_it_says(lived: Place, tmp_path: Path) -> None:
    """Log, files, report, crate; each with its digest in the manifest, the chain checkable."""
    file = handed_over(lived, tmp_path)
    with ZipFile(file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert set(archive.namelist()) == {*manifest["files"], "manifest.json"}
        assert {
            "workflow-state.json", "progress.log", "report.html", "ro-crate-metadata.json",
            "claims.jsonl", "refusals.jsonl", "events/workflow-melt-2026-03-31.jsonl",
        } <= set(manifest["files"])  # fmt: skip
        for name, entry in manifest["files"].items():
            content = archive.read(name)
            assert (len(content), sha256(content).hexdigest()) == (entry["bytes"], entry["sha256"])
        events = archive.read("events/workflow-melt-2026-03-31.jsonl")
    page = (Path(__file__).parents[2] / "docs/trust/verify-without-wfctl.md").read_text("utf-8")
    program = page.split("```python\n")[1].split("```")[0]
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, input=events, capture_output=True, check=True)
    (stream,) = manifest["streams"]
    assert done.stdout.decode().split() == [stream["name"], str(stream["version"]), stream["head"]]


def test_the_same_log_gives_the_same_archive(half_way: Place, tmp_path: Path) -> None:
    """To the byte, and nothing is written in the root."""
    before = tree(half_way.path)
    for name in ("one.zip", "two.zip"):
        half_way.done("export", "archive", str(tmp_path / name))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert tree(half_way.path) == before


@pytest.mark.slow
@pytest.mark.long
def test_the_validator_takes_an_archive_for_the_crate_it_is(told: Place, tmp_path: Path) -> None:
    """A zipped crate, by the official validator."""
    file = tmp_path / "crate.zip"
    told.done("export", "archive", str(file))
    with ZipFile(file) as archive:
        archive.extractall(tmp_path / "crate")
    done = subprocess.run(
        [sys.executable, "-m", "tests.exports.crate_judge", str(tmp_path / "crate")],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)[0]["issues"] == []


def test_what_is_appended_meanwhile_is_not_in_it(lived: Place, tmp_path: Path) -> None:
    """The archive ends where the log stood, and holds together."""
    file, version = tmp_path / "archive.zip", lived.version()
    root, config = open_root(lived.path, None)
    store = open_log(root.address, schema=SCHEMA, clock=system_instant, read_only=True)

    def growing() -> Iterator[bytes]:
        assert wfctl("--root", str(lived.path), "note", "in between").code == 0
        yield b"what was shown"

    with closing(store):
        log = WorkflowLog(store, config.stream, root.path)
        write_archive(file, root, log, {"shown.txt": growing}, version)
    made = taken_over(file, tmp_path / "made")
    assert made.done("fsck")["events"] == version
    assert made.done("events") == lived.done("events")[:version]


def test_an_interrupted_import_is_taken_up(lived: Place, tmp_path: Path) -> None:
    """Done again it finds what it had done, and goes on; a root that went on stays as it is."""
    file = handed_over(lived, tmp_path)
    made = taken_over(file, tmp_path / "made")
    (made.path / ".wfctl/config.toml").unlink()
    again = taken_over(file, tmp_path / "made")
    assert again.done("events") == lived.done("events")
    again.done("note", "later", "--root-is", "moved")
    assert taken_over(file, tmp_path / "made").done("fsck")["events"] == lived.version() + 2


def test_another_workflow_is_never_overwritten(
    lived: Place, half_way: Place, tmp_path: Path
) -> None:
    """Neither one of another id, nor one of the same id with a history of its own."""
    file = tmp_path / "other.zip"
    half_way.done("export", "archive", str(file))
    before = lived.done("events")
    answer = call("import", str(file), "--into", str(lived.path), "-o", "json")
    assert answer.code == 4
    assert lived.done("events") == before


def test_a_dry_run_says_what_it_would_do(lived: Place, tmp_path: Path) -> None:
    """And makes nothing."""
    file = handed_over(lived, tmp_path)
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "--dry-run", "-o", "json")
    assert answer.data["streams"][0]["version"] == lived.version()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("line", [[], ["-"], ["a.zip", "--at", "3"]])
def test_an_archive_is_a_file_and_holds_all(half_way: Place, line: list[str]) -> None:
    """Not a stream of bytes on a terminal, and not a part of the log."""
    assert half_way.json("export", "archive", *line).code == 2


def test_the_people_are_told(lived: Place, tmp_path: Path) -> None:
    """Where it came from, how far it goes, and what comes next."""
    file = handed_over(lived, tmp_path)
    out = wfctl("import", str(file), "--into", str(tmp_path / "made")).out
    assert "every hash as it was" in out
    assert "--root-is moved" in out
