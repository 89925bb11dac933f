"""The import of a damaged, incomplete or forged archive creates nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any
from zipfile import ZipFile

import pytest

from tests.cli.support import Place, call, tree
from tests.exports.support import handed_over, taken_over


def rewritten(file: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """Write a copy of an archive with changed files; None removes a file."""
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
def test_archive_that_contradicts_its_manifest_is_refused(
    lived: Place, tmp_path: Path, what: str
) -> None:
    """The import exits with code 1 and creates no root."""
    file = rewritten(handed_over(lived, tmp_path), BROKEN[what])
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")
    assert not (tmp_path / "made").exists()


def test_archive_with_a_flipped_byte_is_refused(lived: Place, tmp_path: Path) -> None:
    """The import is refused, unless the changed byte is one that no reader needs."""
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
    """Change the files of an archive, and update all digests in its manifest."""
    files: Files = {}
    rewritten(file, files.setdefault)
    manifest = json.loads(files["manifest.json"])
    change(manifest, files)
    for name, content in files.items():
        if name != "manifest.json":
            manifest["files"][name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    files["manifest.json"] = json.dumps(manifest).encode()
    with ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


def _escaping(manifest: dict[str, Any], files: Files) -> None:
    """Let a machine (agent protocol) name a file outside the root, with a valid chain."""
    stream = manifest["streams"][1]
    (line,) = files[stream["file"]].splitlines()
    event = {k: v for k, v in json.loads(line).items() if k not in ("hash", "position")}
    event["data"]["definition"]["files"]["metadata"] = "../escaped.json"
    text = json.dumps(event).encode()
    stream["head"] = sha256(text).hexdigest()
    end = f',"hash":"{stream["head"]}","position":9}}\n'
    files[stream["file"]] = text[:-1] + end.encode()


def _reworded(_: dict[str, Any], files: Files) -> None:
    for name, content in files.items():
        files[name] = _event(name, content)


def _unclaimed(_: dict[str, Any], files: Files) -> None:
    """Remove the first command from the archive's list of commands."""
    files["claims.jsonl"] = b"".join(files["claims.jsonl"].splitlines(keepends=True)[1:])


FORGED: dict[str, Callable[[dict[str, Any], Files], None]] = {
    "an event": _reworded,
    "the commands": _unclaimed,
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
def test_forged_archive_is_refused(lived: Place, tmp_path: Path, what: str) -> None:
    """A forged archive creates no file, neither in the new root nor outside."""
    lived.done("machine", "init", "job1", "--type", "conductor")
    file = forged(handed_over(lived, tmp_path), FORGED[what])
    before = tree(tmp_path)
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")
    assert tree(tmp_path) == before


def test_file_missing_in_the_manifest_is_not_imported(lived: Place, tmp_path: Path) -> None:
    """A kept version without a manifest entry is ignored, and the others are imported."""
    file = handed_over(lived, tmp_path)
    with ZipFile(file, "a") as archive:
        archive.writestr("drift/slipped-in", b"x")
    made = taken_over(file, tmp_path / "made")
    drift = made.path / ".wfctl/drift"
    assert not (drift / "slipped-in").exists()
    assert any(drift.iterdir())


def test_forged_event_is_detected_by_its_hash(lived: Place, tmp_path: Path) -> None:
    """The event is detected even if all digests in the manifest are correct."""
    file = forged(handed_over(lived, tmp_path), _reworded)
    answer = call("import", str(file), "--into", str(tmp_path / "made"), "-o", "json")
    assert "was changed: its hash is" in answer.error["message"]


def test_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    """Importing a file that is no archive gives the error code unusable_archive."""
    (tmp_path / "a.zip").write_text("hello")
    answer = call("import", str(tmp_path / "a.zip"), "--into", str(tmp_path / "b"), "-o", "json")
    assert (answer.code, answer.error["code"]) == (1, "unusable_archive")
