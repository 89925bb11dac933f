"""Two simulated hosts with separate names, networks and roots, and one workflow on a server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.hosts import Host, Networks
from tests.cli.support import Answer, write_plan
from tests.server import Server, started

SECRET = "over-the-wire"
STAGES = [
    {
        "id": f"stage-{n}",
        "name": "Work",
        "outputs": [f"stage-{n}/out.txt"],
        "parameters": {"command": "uname -n > out.txt; sleep 1"},
    }
    for n in (1, 2, 3)
]


class There(NamedTuple):
    """A root on a host, and the URL of the log for that host."""

    host: Host
    root: Path
    url: str

    def wfctl(self, *words: str, url: str | None = None) -> Answer:
        """Run wfctl on the host, in the root."""
        line = ("--root", str(self.root), "--database-url", url or self.url, "-o", "json", *words)
        return self.host.wfctl(*line, PGPASSWORD=SECRET)

    def done(self, *words: str) -> Any:
        """Call a command, check that it succeeds, and return its data."""
        answer = self.wfctl(*words)
        assert answer.code == 0, answer
        return answer.data


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[There]]:
    """Yield two hosts with an empty root each, and a server that both hosts can reach."""
    with Networks("anna", "bert") as networks:
        server = started()
        try:
            yield list(reached(server, networks, tmp_path))
        finally:
            server.close()


def reached(server: Server, networks: Networks, folder: Path) -> Iterator[There]:
    """Make the server listen in the networks of the hosts, with password authentication."""
    direct = server.log()
    login = server.login("ada", SECRET, direct)
    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all 10.77.0.0/16 scram-sha-256\n")
    server.stop()
    server.start(*networks.within(), listen=networks.listen())
    options = direct.partition("options=")[2]
    for host in networks.hosts:
        root = folder / host.name
        root.mkdir()
        url = f"postgresql+psycopg://{login}@{host.server}/postgres?connect_timeout=5"
        yield There(host, root, f"{url}&options={options}")


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.long
def test_two_hosts_drive_two_stages_of_one_workflow(both: list[There], tmp_path: Path) -> None:
    """Each host runs its own attempt at the same time, and only one host runs the third stage."""
    anna, bert = both
    anna.done(
        "init",
        str(write_plan(tmp_path, {"workflow_id": "w", "stages": STAGES})),
        "--consent",
        "trust",
    )
    (bert.root / ".wfctl").mkdir()
    shutil.copy(anna.root / ".wfctl/config.toml", bert.root / ".wfctl")
    assert bert.wfctl("status", url=anna.url).code == 1
    assert bert.wfctl("rehydrate").code == 6
    bert.done("rehydrate", "--root-is", "copied")
    with ThreadPoolExecutor() as pool:
        words = ("dispatch", "--sync")
        own = list(pool.map(lambda t, s: t.wfctl(*words, s).code, both, ("stage-1", "stage-2")))
        shared = list(pool.map(lambda t: t.wfctl(*words, "stage-3").code, both))
    assert own == [0, 0]
    assert min(shared) == 0
    assert max(shared) in (4, 5)
    winner = both[shared.index(0)]
    for there, stage in ((anna, "stage-1"), (bert, "stage-2"), (winner, "stage-3")):
        there.done("stage", "complete", stage)
        assert (there.root / stage / "out.txt").read_text() == f"{there.host.name}\n"
    assert not (bert.root / "stage-1/out.txt").exists()
    assert not (anna.root / "stage-2/out.txt").exists()
    check_same(both, {"stage-1": "anna", "stage-2": "bert", "stage-3": winner.host.name})


def check_same(both: list[There], hosts: dict[str, str]) -> None:
    """Check that both hosts record each attempt under its host and that the log has no findings."""
    for there in both:
        there.done("rehydrate")
        assert [s["status"] for s in there.done("status")["stages"]] == ["completed"] * 3
        begun = there.done("events", "--type", "attempt.started")
        assert {e["data"]["stage"]: e["data"]["host"] for e in begun} == hosts
        assert len(begun) == 3
        assert there.done("fsck")["findings"] == []
        assert there.done("replay", "--check")["findings"] == []
