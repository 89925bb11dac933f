"""Archives: one file has a complete workflow, and an import keeps all hashes."""

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
from extensions.handover.archive import write_archive
from service.reading.log import WorkflowLog
from service.root.atomic_files import system_instant
from service.root.root import open_root
from tests.cli.support import Place, call, tree, wfctl, write_plan
from tests.exports.support import handed_over, taken_over
from tests.server import Server


def test_import_into_the_original_root_keeps_its_log(tmp_path: Path) -> None:
    """An import into a root whose log is stored elsewhere creates no second log there."""
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


def test_imported_archive_is_the_same_workflow(lived: Place, tmp_path: Path) -> None:
    """The imported workflow has equal events, hashes, state, log, refusals and kept edits."""
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
def test_archive_moves_to_a_server_and_back(server: Server, lived: Place, tmp_path: Path) -> None:
    """PostgreSQL stores the same hashes, and an archive made from there has the same files."""
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
    """Return the machines (agent protocols) of a root without their age."""
    return [{**one, "age_seconds": None} for one in place.done("machine", "list")]


def test_machines_are_exported_with_their_files(lived: Place, tmp_path: Path) -> None:
    """The new root has the same machines (agent protocols) and the same machine files."""
    lived.done("machine", "init", "job1", "--type", "conductor")
    made = taken_over(handed_over(lived, tmp_path), tmp_path / "made")
    assert listed(made) == listed(lived)
    file = "conductor/tracks/job1/metadata.json"
    assert (made.path / file).read_bytes() == (lived.path / file).read_bytes()


def test_root_with_only_machines_can_be_exported(tmp_path: Path) -> None:
    """A root of machines (agent protocols) without a workflow is exported and imported."""
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


def test_empty_log_cannot_be_exported(tmp_path: Path) -> None:
    """Without a workflow and without machines, `export archive` exits with code 3."""
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
def test_import_of_an_archive_refuses_options_that_the_archive_fixes(
    lived: Place, tmp_path: Path, option: list[str]
) -> None:
    """The error names the option, and no root is created."""
    file, made = handed_over(lived, tmp_path), tmp_path / "made"
    answer = call("import", str(file), "--into", str(made), "-o", "json", *option)
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert option[0] in answer.error["message"]
    assert not made.exists()


def test_command_ids_survive_an_import(lived: Place, tmp_path: Path) -> None:
    """Repeating a command in the new root returns the first answer."""
    made = taken_over(handed_over(lived, tmp_path), tmp_path / "made")
    version = made.version()
    line = ["--command-id", "once", "--root-is", "moved"]
    assert made.done("note", "äöü", *line)["repeated"] is True
    assert made.call("note", "other", *line).code == 4
    assert [e["type"] for e in made.done("events")[version:]] == ["note.logged"]


def test_imported_root_is_read_only_until_it_is_confirmed(lived: Place, tmp_path: Path) -> None:
    """The first write needs --root-is, so that two roots do not continue one workflow."""
    made = taken_over(handed_over(lived, tmp_path), tmp_path / "made")
    assert made.call("note", "hello").code == 6
    assert made.call("note", "hello", "--root-is", "moved").code == 0


def test_manifest_has_the_digest_of_every_file(lived: Place, tmp_path: Path) -> None:
    """The digests of all files are right, and a program without wfctl confirms the log."""
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


def test_archive_depends_only_on_the_log(half_way: Place, tmp_path: Path) -> None:
    """Two exports have the same bytes, and the root is unchanged."""
    before = tree(half_way.path)
    for name in ("one.zip", "two.zip"):
        half_way.done("export", "archive", str(tmp_path / name))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert tree(half_way.path) == before


@pytest.mark.slow
@pytest.mark.long
def test_archive_is_a_valid_ro_crate(told: Place, tmp_path: Path) -> None:
    """The official validator accepts the unpacked archive."""
    file = tmp_path / "crate.zip"
    told.done("export", "archive", str(file))
    with ZipFile(file) as archive:
        archive.extractall(tmp_path / "crate")
    done = subprocess.run(
        [sys.executable, "-m", "tests.exports.crate_judge", str(tmp_path / "crate")],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)[0]["issues"] == []


def test_events_appended_during_an_export_are_not_archived(lived: Place, tmp_path: Path) -> None:
    """The archive ends at the version at which the export started."""
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


def test_interrupted_import_can_be_repeated(lived: Place, tmp_path: Path) -> None:
    """The second import finishes the root, and a root with newer events stays unchanged."""
    file = handed_over(lived, tmp_path)
    made = taken_over(file, tmp_path / "made")
    (made.path / ".wfctl/config.toml").unlink()
    again = taken_over(file, tmp_path / "made")
    assert again.done("events") == lived.done("events")
    again.done("note", "later", "--root-is", "moved")
    assert taken_over(file, tmp_path / "made").done("fsck")["events"] == lived.version() + 2


def test_import_never_overwrites_another_workflow(
    lived: Place, half_way: Place, tmp_path: Path
) -> None:
    """An import into a root with another workflow exits with code 4."""
    file = tmp_path / "other.zip"
    half_way.done("export", "archive", str(file))
    before = lived.done("events")
    answer = call("import", str(file), "--into", str(lived.path), "-o", "json")
    assert answer.code == 4
    assert lived.done("events") == before


def test_dry_run_of_an_import_creates_nothing(lived: Place, tmp_path: Path) -> None:
    """`import --dry-run` prints the version of each event stream and creates no root."""
    file = handed_over(lived, tmp_path)
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "--dry-run", "-o", "json")
    assert answer.data["streams"][0]["version"] == lived.version()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("line", [[], ["-"], ["a.zip", "--at", "3"]])
def test_archive_requires_a_file_and_the_whole_log(half_way: Place, line: list[str]) -> None:
    """An export to stdout or of an earlier version is a usage error."""
    assert half_way.json("export", "archive", *line).code == 2


def test_import_prints_the_next_step(lived: Place, tmp_path: Path) -> None:
    """The output confirms the hashes and names `--root-is moved`."""
    file = handed_over(lived, tmp_path)
    out = wfctl("import", str(file), "--into", str(tmp_path / "made")).out
    assert "all hashes unchanged" in out
    assert "--root-is moved" in out
