"""`wfctl import`: its results, its refusals, and the protection of imported events."""

from __future__ import annotations

import json
import shlex
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.adoption import support as s
from tests.cli.support import Place, call, tree

ODD: dict[str, Any] = {
    "stages": [
        {
            "name": "Schmelze ✓",
            "id": "stage-1",
            "zeta": {"b": 1, "a": [None, 1e-6]},
            "status": None,
        },
        {"id": "stage-2", "outputs": None, "retry_count": 0, "checkpoint": None},
    ],
    "owner": None,
    "updated": "2026-03-31T12:00:00.123456Z",
    "workflow_id": "odd",
    "session_config": {"session_cost": 1.0, "mood": "good"},
}


def test_document_in_any_order_is_preserved(tmp_path: Path) -> None:
    """Nulls, missing fields, microseconds and unusual key orders stay the same."""
    root = s.imported(s.write_files(tmp_path / "w", ODD))
    text = (root.path / s.STATE).read_text("utf-8")
    assert json.dumps(json.loads(text)) == json.dumps(ODD)


def test_first_command_after_an_import_changes_only_its_fields(tmp_path: Path) -> None:
    """The command changes the status and the time in the state file, and nothing else."""
    root = s.imported(s.write_files(tmp_path / "w", ODD))
    root.done("stage", "ready", "stage-1")
    now = json.loads((root.path / s.STATE).read_bytes())
    changed = {**ODD, "updated": now["updated"], "stages": [dict(e) for e in ODD["stages"]]}
    for entry in changed["stages"]:
        entry["status"] = "ready"
    assert now["updated"] != ODD["updated"]
    assert now == changed


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b"\n\n[2026-03-31 10:00] after blanks\n\n",
        b"[2026-03-31 10:00] no newline at the end",
        b"[2026-03-31 10:00] dos\r\n[2026-03-31 10:01] lines\r\n",
        b"[2026-03-31 10:00] latin \xe9\xff\n\x00\n",
        b"a heading\n=========\n\n[2026-03-31 10:00] at last\n  more of it\n",
    ],
)
def test_every_byte_of_a_log_is_kept(log: bytes, tmp_path: Path) -> None:
    """wfctl appends to progress.log, and can rebuild all its bytes from the events."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(), log))
    root.done("note", "ours")
    written = (root.path / s.LOG).read_bytes()
    assert written.startswith(log)
    assert root.json("replay", "--check").code == 0
    (root.path / s.LOG).unlink()
    root.done("replay", "--rebuild")
    assert (root.path / s.LOG).read_bytes().startswith(written)


def test_dry_run_reports_findings_and_writes_nothing(tmp_path: Path) -> None:
    """Neither the source nor the target folder changes."""
    folder = s.write_files(tmp_path / "w", ODD, "no time\n")
    before = tree(tmp_path)
    answer = s.import_(folder, "--dry-run", "--into", str(tmp_path / "new"))
    assert (answer.code, answer.data["dry_run"], answer.data["events"]) == (0, True, 3)
    assert answer.data["files"] == ["workflow-state.json", "progress.log"]
    assert "undated" in s.kinds(answer)
    assert tree(tmp_path) == before


def test_findings_are_printed_as_a_table(tmp_path: Path) -> None:
    """The columns are kind, place, stage and evidence."""
    folder = s.write_files(tmp_path / "w", s.document(s.stage(1, note="x")))
    line = call("import", str(folder)).out.splitlines()[0]
    assert line.split() == ["unknown_field", f"{s.STATE}:23", "stage-1", "note:", '"x"']


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n "workflow_id": "a",\n "stages": [}\n', 3, 13),
        ('{\n "workflow_id": "a",\n "n": NaN, "stages": []}', 3, 7),
        ("", 1, 1),
    ],
)
def test_corrupt_json_is_refused_with_its_position(
    text: str, line: int, column: int, tmp_path: Path
) -> None:
    """The command exits with code 1, names line and column, and writes nothing."""
    folder = s.write_files(tmp_path / "w", text)
    before = tree(folder)
    answer = s.import_(folder)
    assert answer.code == 1
    assert (answer.error["data"]["line"], answer.error["data"]["column"]) == (line, column)
    assert tree(folder) == before


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ([], "expected an object"),
        ({"stages": [{"id": "stage-1"}]}, "workflow_id is missing"),
        (s.document(workflow_id="a b"), "/workflow_id"),
        (s.document(s.stage(1, "finished")), "/stages/0/status: 'finished' is not a valid status"),
        (s.document({"id": "stage-2a"}), "/stages/0/id: expected a number from 1 on"),
        (s.document({"id": "stage-1"}, {"id": "stage-1"}), "stage-1 appears 2 times"),
        (s.document(s.stage(1, depends_on=["stage-9"])), "no stage 'stage-9'"),
        (s.document(s.stage(1, depends_on=["stage-1"])), "circle: stage-1 -> stage-1"),
        (
            s.document(s.stage(1, retry_count="one")),
            "/retry_count: expected a whole number, found 'one'",
        ),
        (s.document(big=2**70), "more than 64 bits"),
        (s.document(half="\ud800"), "half a character"),
        ("[" * 5000, "levels of nesting"),
        ('{"workflow_id": "a", "stages": [{"id": "stage-1"}], "n": 1e999}', "too large"),
    ],
)
def test_invalid_state_is_refused_with_every_problem(state: Any, said: str, tmp_path: Path) -> None:
    """The command exits with code 1, names each place, and writes nothing."""
    text = state if isinstance(state, str) else json.dumps(state)
    folder = s.write_files(tmp_path / "w", text)
    answer = s.import_(folder)
    assert (answer.code, answer.error["code"]) == (1, "unimportable_state")
    assert said in answer.error["message"]
    assert not (folder / ".wfctl").exists()


def test_missing_state_file_is_not_found(tmp_path: Path) -> None:
    """The command exits with code 3 and names the file."""
    folder = s.write_files(tmp_path / "w", s.document())
    (folder / s.STATE).unlink()
    answer = s.import_(folder)
    assert (answer.code, answer.error["data"]["file"]) == (3, s.STATE)


def test_folder_without_git_history_is_not_found_with_git(tmp_path: Path) -> None:
    """The command exits with code 3 and the message of git."""
    folder = s.write_files(tmp_path / "w", s.document())
    assert s.import_(folder, "--git").code == 3


def test_second_import_is_a_conflict(tmp_path: Path) -> None:
    """An import into a folder that already has workflow files is refused as a conflict."""
    folder = s.write_files(tmp_path / "w", s.document())
    s.imported(folder)
    assert s.import_(folder).code == 4
    other = s.write_files(tmp_path / "other", s.document())
    assert s.import_(folder, "--into", str(other)).code == 4


def test_repeated_import_with_the_same_key_returns_the_first_answer(tmp_path: Path) -> None:
    """An import repeated with the same idempotency key appends no event."""
    folder = s.write_files(tmp_path / "w", s.document(), "[2026-03-31 10:00] a\n")
    first = s.import_(folder, "--command-id", "once")
    again = s.import_(folder, "--command-id", "once")
    assert (again.code, again.data["repeated"]) == (0, True)
    assert Place(folder).version() == first.data["events"]


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_import_expects_version_0(tmp_path: Path, more: list[str]) -> None:
    """With another --expected-version the import is a conflict, and with 0 it succeeds."""
    folder = s.write_files(tmp_path / "w", s.document(s.stage(1)))
    answer = s.import_(folder, "--expected-version", "3", *more)
    assert (answer.code, answer.error["code"]) == (4, "wrong_expected_version")
    assert s.import_(folder, "--expected-version", "0", *more).code == 0


def test_invalid_utc_offset_is_a_usage_error(tmp_path: Path) -> None:
    """The command exits with code 2 and shows a valid offset."""
    folder = s.write_files(tmp_path / "w", s.document())
    assert s.import_(folder, "--utc-offset", "CET").code == 2


@pytest.mark.parametrize("type_", ["line.imported", "state.imported", "workflow.imported"])
def test_import_events_cannot_be_appended_by_command(type_: str, tmp_path: Path) -> None:
    """`append` refuses import events, so nobody can add history to an active workflow."""
    root = s.imported(s.write_files(tmp_path / "w", s.document()))
    line = {"raw": ["x"], "text": "x", "line": 1, "stage": "stage-1", "statuses": ["completed"]}
    data = line if type_ == "line.imported" else {"document": s.document(done_())}
    answer = root.json("append", type_, "--data", json.dumps(data))
    assert answer.code in (4, 5)
    assert root.done("status")["stages"][0]["status"] == "pending"


def done_() -> dict[str, Any]:
    """Return a stage whose state file entry has the status completed."""
    return s.stage(1, "completed", completed_at="2026-03-31T11:00:00Z")


def test_interrupted_import_is_repeatable(tmp_path: Path) -> None:
    """The import succeeds in a folder with a configuration and an empty log."""
    folder = s.write_files(tmp_path / "w", s.document())
    (folder / ".wfctl").mkdir()
    (folder / ".wfctl" / "config.toml").write_text('workflow = "melt-2026-03-31"\n', "utf-8")
    root = s.imported(folder)
    assert root.json("replay", "--check").code == 0


def test_imported_amendment_has_no_effect(tmp_path: Path) -> None:
    """An imported amendment has no proof of its approval, so it changes no definition."""
    record = {"id": "amend-1", "type": "stage_skip", "stage_id": "stage-1", "approved_by": "user"}
    root = s.imported(s.write_files(tmp_path / "w", s.document(amendments=[record])))
    forge(root, "stage.skipped")
    assert root.types()[-1] == "stage.skipped"
    assert root.done("status")["stages"][0]["status"] == "pending"


@pytest.mark.parametrize("type_", ["line.imported", "state.imported"])
def test_import_event_after_the_import_is_ignored(type_: str, tmp_path: Path) -> None:
    """An import event added later has no effect, and `fsck` reports the event."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(), "[2026-03-31 10:00] a\n"))
    forge(root, type_)
    answer = root.json("fsck")
    assert (answer.code, len(answer.data["findings"])) == (7, 1), answer
    assert root.types()[-1] == type_
    assert root.done("status")["stages"][0]["status"] == "pending"


def forged_data(type_: str) -> dict[str, Any]:
    """Return data that would change stage-1 if the event were valid."""
    claim = {"stage": "stage-1", "statuses": ["completed"], "text": "x", "line": 1, "count": 1}
    lines = {"raw": ["x"], "encoding": "utf-8", "ended": True, "kept": False}
    forged: dict[str, dict[str, Any]] = {
        "line.imported": {**claim, **lines},
        "state.imported": {"document": s.document(done_()), "layout": {}, "source": {}},
        "stage.skipped": {"stage": "stage-1", "amendment": "amend-1", "reason": None},
    }
    return forged[type_]


def forge(root: Place, type_: str) -> None:
    """Write an event directly into the database, without any rule check."""
    with sqlite3.connect(root.path / ".wfctl" / "events.db") as database:
        columns = [row[1] for row in database.execute("pragma table_info(events)")]
        rows = database.execute("select * from events order by position").fetchall()
        row = dict(zip(columns, rows[-1], strict=True))
        body = json.loads(row["body"])
        own = body["event_id"][:-1] + ("0" if body["event_id"][-1] != "0" else "1")
        body |= {
            "type": type_,
            "schema_version": 1,
            "version": body["version"] + 1,
            "event_id": own,
            "command_id": own,
            "prev_hash": row["hash"],
            "data": forged_data(type_),
        }
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        forged = {
            **row,
            **({"schema_version": 1} if "schema_version" in row else {}),
            "position": row["position"] + 1,
            "version": body["version"],
            "event_id": own,
            "type": type_,
            "body": text,
            "command_digest": "forged",
            "hash": sha256(text.encode()).hexdigest(),
        }
        marks = ", ".join("?" for _ in columns)
        statement = f"insert into events ({', '.join(columns)}) values ({marks})"
        database.execute(statement, [forged[column] for column in columns])


SOFTWARE = {
    "version": 1,
    "environment": {"name": "md", "runner": "micromamba", "bootstrap": "bash bootstrap.sh"},
    "commands": {"lmp": ["micromamba", "run", "-n", "md", "lmp"], "odd": "lmp"},
}


def test_described_software_is_offered(tmp_path: Path) -> None:
    """If a file describes software, the import suggests a command that sets it."""
    document = s.document(s.stage(1, "completed"), s.stage(2))
    folder = s.write_files(tmp_path / "w", document)
    (folder / "superscientist.json").write_text(json.dumps(SOFTWARE))
    answer = s.import_(folder)
    offered = answer.data["software"]
    assert (offered["name"], offered["runner"]) == ("md", "micromamba")
    assert offered["commands"] == {"lmp": ["micromamba", "run", "-n", "md", "lmp"]}
    assert "stage-1" not in offered["command"]
    root = Place(folder)
    done = root.done(*shlex.split(offered["command"])[1:])
    assert "conda" in json.dumps(done)


def test_import_shows_how_to_set_the_described_software(tmp_path: Path) -> None:
    """The output shows the option that sets the software and how each program starts."""
    folder = s.write_files(tmp_path / "w", s.document(s.stage(1)))
    (folder / "superscientist.json").write_text(json.dumps(SOFTWARE))
    lines = call("import", str(folder)).out.splitlines()
    assert "--set parameters.environment.conda=md" in next(one for one in lines if "md;" in one)
    assert "  else a command begins with `micromamba run -n md lmp`" in lines


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"environment": {"name": "a; rm"}}', "\\x00"])
def test_unreadable_software_description_is_ignored(text: str, tmp_path: Path) -> None:
    """The import succeeds without a suggestion if the description is not readable."""
    folder = s.write_files(tmp_path / "w", s.document(s.stage(1)))
    (folder / "superscientist.json").write_text(text)
    answer = s.import_(folder)
    assert answer.code == 0
    assert "software" not in answer.data
