"""Commands in a stranger's folder, created by a git clone or by unpacking an archive."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.root.root import without_secrets
from tests.cli.support import Place, call, wfctl, write_plan
from tests.server import Server


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """Listen as an attacker's database server; yield the port and the received bytes."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer() -> None:
            try:
                while True:
                    caller, _ = door.accept()
                    with caller:
                        heard.append(caller.recv(4096))
            except OSError:
                return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield door.getsockname()[1], heard
        door.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def clone(folder: Path, url: str) -> Path:
    """Create a root as a git clone does: with a configuration and without a log."""
    (folder / ".wfctl").mkdir(parents=True)
    (folder / ".wfctl/config.toml").write_text(f'workflow = "w"\ndatabase_url = "{url}"\n')
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["note", "x"],
        ["fsck"],
        ["db", "current"],
        ["machine", "list"],
        ["init", "plan.json", "--consent", "trust"],
        ["db", "trust"],
    ],
    ids=" ".join,
)
def test_clone_does_not_choose_the_database_server(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wfctl does not connect to the server of the configuration before a person trusts it."""
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.chdir(tmp_path)
    write_plan(tmp_path)
    with listening() as (port, heard):
        url = f"postgresql+psycopg://me@127.0.0.1:{port}/db?sslmode=disable"
        root = clone(tmp_path / "clone", url)
        answer = call("--root", str(root), "--actor", "agent:x", "-o", "json", *words)
    assert (answer.code, answer.error["code"]) == (6, "untrusted_database"), answer
    assert "db trust" in answer.error["message"]
    assert heard == []


def test_server_is_used_after_a_person_trusted_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`init` trusts the server for its user, and every other user must run `db trust`."""
    url, root = server.schema(), tmp_path / "root"
    root.mkdir()
    line = ("--database-url", url, "init", str(write_plan(tmp_path)), "--consent", "trust")
    assert call("--root", str(root), *line).code == 0
    place = Place(root)
    assert place.call("status").code == 0
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert place.call("status").code == 6
    assert call("--root", str(root), "--database-url", url, "status").code == 0
    assert place.call("--actor", "user:ada", "db", "trust").code == 0
    assert place.call("status").code == 0
    assert (without_secrets(url) or "") in (tmp_path / "another/wfctl/databases.json").read_text()


@pytest.mark.parametrize("name", ["workflow-state.json", "progress.log"])
def test_link_in_place_of_a_generated_file_is_not_followed(name: str, tmp_path: Path) -> None:
    """If a link replaces a generated file, wfctl neither reads nor writes the target."""
    target = tmp_path / "precious"
    target.write_text("mine\n")
    root = tmp_path / "root"
    root.mkdir()
    place = Place(root)
    assert place.call("init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    (root / name).unlink()
    (root / name).symlink_to(target)
    answer = place.json("note", "x")
    assert (answer.code, answer.error["code"]) == (1, "outside_root"), answer
    assert "leads out of" in answer.error["message"]
    assert target.read_text() == "mine\n"
    status = place.call("status")
    assert (status.code, "leads out of" in status.out + status.err) == (0, True)
    (root / name).unlink()
    place.done("note", "y")
    assert place.notes() == ["y"]
    assert "mine" not in "".join(p.read_text() for p in root.rglob("drift/*"))


@pytest.mark.parametrize("name", ["workflow-state.json", "progress.log", "plan.json"])
def test_fifo_in_place_of_a_file_does_not_block(name: str, tmp_path: Path) -> None:
    """The command reports the FIFO immediately instead of waiting for a writer."""
    root = tmp_path / "root"
    root.mkdir()
    plan = write_plan(tmp_path)
    place = Place(root)
    if name == "plan.json":
        plan.unlink()
        os.mkfifo(plan)
    answer = wfctl("--root", str(root), "init", str(plan), "--consent", "trust")
    if name == "plan.json":
        assert (answer.code, "a FIFO" in answer.err) == (1, True), answer
        return
    (root / name).unlink()
    os.mkfifo(root / name)
    for words in (["note", "x"], ["status"], ["drift", "show"], ["replay", "--check"]):
        answer = wfctl("--root", str(root), *words)
        assert "a FIFO" in answer.err + answer.out, (words, answer)
    assert place.call("import", str(root), "--into", str(tmp_path / "b")).code != 0


def test_fifo_in_an_imported_folder_does_not_block(tmp_path: Path) -> None:
    """The import reports the FIFO (named pipe) and exits instead of waiting for a writer."""
    (tmp_path / "old").mkdir()
    for name in ("workflow-state.json", "progress.log"):
        os.mkfifo(tmp_path / "old" / name)
    answer = wfctl("import", str(tmp_path / "old"))
    assert (answer.code, "a FIFO" in answer.err) == (1, True), answer
    os.mkfifo(tmp_path / "a.zip")
    assert wfctl("import", str(tmp_path / "a.zip")).code in (1, 3)


def test_import_follows_no_link_out_of_the_folder(tmp_path: Path) -> None:
    """A `progress.log` that is a link to a foreign file is not written."""
    old = tmp_path / "old"
    old.mkdir()
    (tmp_path / "precious").write_text("mine\n")
    state = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "a"}]}
    write_plan(old, state, "workflow-state.json")
    (old / "progress.log").symlink_to(tmp_path / "precious")
    answer = call("import", str(old))
    assert answer.code != 0
    assert (tmp_path / "precious").read_text() == "mine\n"
    assert not (old / ".wfctl/config.toml").exists()


def test_clone_creates_no_database_outside_its_root(tmp_path: Path) -> None:
    """wfctl uses a database file outside the root only after a person trusted it.

    A database file inside the root needs no trust.
    """
    root = clone(tmp_path / "clone", "sqlite:///../escaped.db")
    plan = str(write_plan(tmp_path))
    for words in (["status"], ["init", plan, "--consent", "trust"]):
        answer = call("--root", str(root), "-o", "json", *words)
        assert (answer.code, answer.error["code"]) == (6, "untrusted_database")
    assert not (tmp_path / "escaped.db").exists()
    own = clone(tmp_path / "own", "sqlite:///.wfctl/other.db")
    assert call("--root", str(own), "-o", "json", "init", plan, "--consent", "trust").code == 0


def test_wfctl_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """No command finds or creates a root through a linked `.wfctl` folder."""
    home, root = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    root.mkdir()
    (root / ".wfctl").symlink_to(home)
    plan = str(write_plan(tmp_path))
    assert (
        call("--root", str(root), "-o", "json", "init", plan, "--consent", "trust").error["code"]
        == "outside_root"
    )
    assert list(home.iterdir()) == []
    (home / "config.toml").write_text('workflow = "w"\n')
    assert call("--root", str(root), "-o", "json", "status").error["code"] == "outside_root"
