"""Hand-over: one file that holds a workflow whole, and a root made from it, all hashes equal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any
from zipfile import ZipFile

import pytest

from cli.workspace import SCHEMA
from eventstore.engine import open_log
from service.clock import system_clock
from service.handover.archive import write_archive
from service.log import WorkflowLog
from service.root import open_root
from tests.cli.support import Place, call, tree, wfctl, write_plan
from tests.server import Server


@pytest.fixture
def lived(tmp_path: Path) -> Place:
    """A root with a history of its own: notes, a refusal, a hand edit, a repeated command."""
    root = tmp_path / "root"
    root.mkdir()
    assert call("--root", str(root), "init", str(write_plan(tmp_path))).code == 0
    place = Place(root)
    place.done("note", "äöü", "--command-id", "once")
    place.done("stage", "prepare", "stage-1")
    assert place.call("stage", "complete", "stage-1").code == 5
    state = root / "workflow-state.json"
    state.write_text(state.read_text("utf-8").replace('"Build"', '"Built"'), "utf-8")
    place.done("note", "after the edit")
    return place


def handed_over(place: Place, folder: Path) -> Path:
    """Write the archive of a place and return its path."""
    file = folder / "archive.zip"
    place.done("export", "archive", str(file))
    return file


def taken_over(file: Path, folder: Path) -> Place:
    """Make a root from an archive."""
    answer = call("import", str(file), "--into", str(folder), "-o", "json")
    assert answer.code == 0, answer
    return Place(folder)


def test_a_root_keeps_its_log_where_it_is(tmp_path: Path) -> None:
    """An archive that is imported where it came from makes no second log beside the first."""
    root = tmp_path / "root"
    root.mkdir()
    url = ("--database-url", f"sqlite:///{tmp_path}/elsewhere.db", "--journal", "truncate")
    assert call("--root", str(root), *url, "init", str(write_plan(tmp_path))).code == 0
    place = Place(root)
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
    page = (Path(__file__).parents[2] / "docs/verify-without-wfctl.md").read_text("utf-8")
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


def rewritten(file: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """Write an archive again with its files changed; None leaves one out."""
    target = file.with_name("changed.zip")
    with ZipFile(file) as source, ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = change(name, source.read(name))
            if content is not None:
                archive.writestr(name, content)
    return target


def _event(name: str, content: bytes) -> bytes:
    return content.replace("äöü".encode(), b"aou") if name.startswith("events/") else content


def _gone(name: str, content: bytes) -> bytes | None:
    return None if name == "claims.jsonl" else content


def _unmanifested(name: str, content: bytes) -> bytes | None:
    return None if name == "manifest.json" else content


def _newer(name: str, content: bytes) -> bytes:
    changed = content.replace(b'"format": 1', b'"format": 9')
    return changed if name == "manifest.json" else content


BROKEN = {"an event": _event, "a file": _gone, "the manifest": _unmanifested, "the format": _newer}


@pytest.mark.parametrize("what", BROKEN)
def test_an_archive_that_is_not_what_it_says_makes_nothing(
    lived: Place, tmp_path: Path, what: str
) -> None:
    """Exit 1, before anything is written."""
    file = rewritten(handed_over(lived, tmp_path), BROKEN[what])
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")
    assert not (tmp_path / "made").exists()


def test_a_forged_event_is_found_by_the_chain(lived: Place, tmp_path: Path) -> None:
    """Even where every digest of the manifest was made to fit."""
    file = handed_over(lived, tmp_path)
    forged: dict[str, bytes] = {}
    rewritten(file, lambda name, content: forged.setdefault(name, _event(name, content)))
    manifest = json.loads(forged["manifest.json"])
    for name, entry in manifest["files"].items():
        entry["sha256"] = sha256(forged[name]).hexdigest()
    forged["manifest.json"] = json.dumps(manifest).encode()
    target = rewritten(file, lambda name, _: forged[name])
    answer = call("import", str(target), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")
    assert "hashes to" in answer.error["message"]
    assert not (tmp_path / "made").exists()


def test_an_archive_without_its_commands_makes_nothing(lived: Place, tmp_path: Path) -> None:
    """Even where every digest of the manifest was made to fit."""
    file = handed_over(lived, tmp_path)
    kept: dict[str, bytes] = {}
    rewritten(file, kept.setdefault)
    manifest = json.loads(kept["manifest.json"])
    kept["claims.jsonl"] = b"".join(kept["claims.jsonl"].splitlines(keepends=True)[1:])
    manifest["files"]["claims.jsonl"]["sha256"] = sha256(kept["claims.jsonl"]).hexdigest()
    kept["manifest.json"] = json.dumps(manifest).encode()
    target = rewritten(file, lambda name, _: kept[name])
    answer = call("import", str(target), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")
    assert not (tmp_path / "made").exists()


def test_an_archive_that_was_damaged_on_its_way_makes_nothing(lived: Place, tmp_path: Path) -> None:
    """Whatever byte it was that came out different; what nobody reads need not be the same."""
    file = handed_over(lived, tmp_path)
    whole, damaged, codes = file.read_bytes(), tmp_path / "damaged.zip", set()
    for place in range(0, len(whole), len(whole) // 60):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        answer = call("import", str(damaged), "--into", str(tmp_path / "b"), "-o", "json")
        codes.add(answer.error["code"] if answer.code else "")
        rmtree(tmp_path / "b", ignore_errors=True)
    assert "unusable_archive" in codes
    assert codes <= {"unusable_archive", ""}


Files = dict[str, bytes]


def forged(file: Path, change: Callable[[dict[str, Any], Files], None]) -> Path:
    """Write an archive whose files were changed, and its manifest so that every digest fits."""
    files: Files = {}
    rewritten(file, files.setdefault)
    manifest = json.loads(files["manifest.json"])
    change(manifest, files)
    for name, content in files.items():
        if name != "manifest.json":
            manifest["files"][name] = {"bytes": 1, "sha256": sha256(content).hexdigest()}
    files["manifest.json"] = json.dumps(manifest).encode()
    with ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


def _escaping(manifest: dict[str, Any], files: Files) -> None:
    """Let the machine write a file of the folder above, in a chain of its own."""
    stream = manifest["streams"][1]
    (line,) = files[stream["file"]].splitlines()
    event = {k: v for k, v in json.loads(line).items() if k not in ("hash", "position")}
    event["data"]["definition"]["files"]["metadata"] = "../escaped.json"
    text = json.dumps(event).encode()
    stream["head"] = sha256(text).hexdigest()
    end = f',"hash":"{stream["head"]}","position":9}}\n'
    files[stream["file"]] = text[:-1] + end.encode()


FORGED: dict[str, Callable[[dict[str, Any], Files], None]] = {
    "a file outside the root": _escaping,
    "a version outside the folder": lambda _, files: files.update({"drift/..": b"x"}),
    "a version of no name": lambda _, files: files.update({"drift/": b"x"}),
    "a refusal of another form": lambda _, files: files.update({"refusals.jsonl": b"{}\n"}),
    "no streams": lambda manifest, _: manifest.update(streams=[]),
    "another workflow": lambda manifest, _: manifest.update(workflow="other"),
    "machines alone": lambda manifest, _: manifest.update(streams=manifest["streams"][1:]),
    "a list of files": lambda manifest, _: manifest.update(streams={}),
}


@pytest.mark.parametrize("what", FORGED)
def test_an_archive_that_somebody_made_up_makes_nothing(
    lived: Place, tmp_path: Path, what: str
) -> None:
    """Neither in the new root nor above it."""
    lived.done("machine", "init", "job1", "--type", "conductor")
    file = forged(handed_over(lived, tmp_path), FORGED[what])
    before = tree(tmp_path)
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")
    assert tree(tmp_path) == before


def test_what_the_manifest_does_not_name_is_left_out(lived: Place, tmp_path: Path) -> None:
    """Nobody vouches for it."""
    file = handed_over(lived, tmp_path)
    with ZipFile(file, "a") as archive:
        archive.writestr("drift/slipped-in", b"x")
    made = taken_over(file, tmp_path / "made")
    drift = made.path / ".wfctl/drift"
    assert not (drift / "slipped-in").exists()
    assert any(drift.iterdir())


def test_what_is_appended_meanwhile_is_not_in_it(lived: Place, tmp_path: Path) -> None:
    """The archive ends where the log stood, and holds together."""
    file, version = tmp_path / "archive.zip", lived.version()
    root, config = open_root(lived.path, None)
    store = open_log(root.address, schema=SCHEMA, clock=system_clock, read_only=True)

    def growing() -> Iterator[bytes]:
        assert wfctl("--root", str(lived.path), "note", "in between").code == 0
        yield b"what was shown"

    with closing(store):
        log = WorkflowLog(store, config.stream, root.path)
        write_archive(file, root, log, {"shown.txt": growing}, version)
    made = taken_over(file, tmp_path / "made")
    assert made.done("fsck")["events"] == version
    assert made.done("events") == lived.done("events")[:version]


def test_no_archive_at_all_is_said(tmp_path: Path) -> None:
    """A file of another kind."""
    (tmp_path / "a.zip").write_text("hello")
    answer = call("import", str(tmp_path / "a.zip"), "--into", str(tmp_path / "b"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")


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
