"""A log of 100,000 events is exported in every format with less than 100 MB of memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.event import build_clock
from eventstore.schema import Schema
from eventstore.sqlite.store import open_store
from extensions.exports.formats import FORMATS
from lifecycle.payload import models as p
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.payload.models import Payload
from migrations.upgrade import upgrade_database
from tests.cli.support import HERE, Place
from tests.exports.world import BOT, WORKFLOW, Clock, World
from tests.projections.story import attempt, computed, launched, observed
from tests.rounds import rounds

EVENTS = 100_000
STAGES = 60
LIMIT_KB = 100_000


def life(stage: str, attempts: int) -> Iterator[Payload]:
    """Yield the events of a stage: many failed attempts with many observations, and a success."""
    yield p.StageReadied(stage=stage)
    for number in range(1, attempts + 1):
        yield p.StagePrepared(stage=stage)
        id_ = f"att-{number:04d}"
        yield attempt(stage, number, "tmux").model_copy(update={"attempt": id_})
        yield launched(stage, number)
        for _ in range(20):
            yield observed(stage, number)
            yield p.NoteLogged(
                text=f"{stage}: polling, tmux alive; step {number} of many", stage=stage
            )
        yield p.CheckpointRecorded(stage=stage, checkpoint={"step": number})
        if number < attempts:
            yield p.StageFailed(stage=stage, attempt=id_, error="exit 137")
            yield p.StageRetried(stage=stage, fix="more memory", retry=number)
    yield computed(stage, attempts)
    yield p.StageCompleted(stage=stage, outputs=[p.FileDigest(path="a", size=1, sha256="0" * 64)])


def story() -> Iterator[Payload]:
    """Yield more than 100,000 events, one stage after another."""
    for number in range(1, STAGES + 1):
        yield from life(f"stage-{number}", 40)


def written(path: Path) -> Path:
    """Create a root whose log has 100,000 events, and return its path."""
    folder = path / ".wfctl"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'workflow = "{WORKFLOW}"\n')
    upgrade_database(folder / "events.db")
    clock = Clock()
    store = open_store(
        folder / "events.db", schema=Schema(VERSIONS, UPCASTERS), clock=build_clock(clock)
    )
    stages = [
        {"id": f"stage-{n}", "name": f"Stage {n}", "depends_on": [f"stage-{n - 1}"] * (n > 1)}
        for n in range(1, STAGES + 1)
    ]
    world = World(store, clock)
    world.begin({"workflow_id": WORKFLOW, "stages": stages})
    batch: list[Payload] = []
    for payload in story():
        batch.append(payload)
        if len(batch) == 500 or world.events + len(batch) == EVENTS:
            clock.minute += 1
            world.append(BOT, batch, None)
            batch = []
        if world.events >= EVENTS:
            break
    store.close()
    assert world.events == EVENTS
    return path


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a root with a log of 100,000 events."""
    return written(tmp_path_factory.mktemp("long") / "root")


#: The program prints ``VmHWM``, the peak memory of this process alone. The value of wait4 would
#: include the parent process.
PROGRAM = """
import re, sys
from cli.main import run
code = run(sys.argv[1:])
sys.stdout.flush()
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""


def peak_kb(*arguments: str, out: Path) -> int:
    """Run wfctl in a child process, and return its peak memory in KB."""
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments],
            env={**os.environ, "PYTHONPATH": str(HERE)},
            stdout=file,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return int(done.stderr)


@pytest.mark.forged
@pytest.mark.parametrize("format_", rounds(sorted(FORMATS), few=0, daily=2))
def test_export_of_a_long_log_needs_little_memory(
    long_log: Path, tmp_path: Path, format_: str
) -> None:
    """An export to stdout needs less memory than its limit."""
    out = tmp_path / "export"
    peak = peak_kb("--root", str(long_log), "export", format_, out=out)
    print(f"{format_}: {peak} KB, {out.stat().st_size} bytes")
    assert out.stat().st_size > 500
    assert peak < LIMIT_KB


@pytest.mark.soak
@pytest.mark.forged
def test_archive_of_a_long_log_needs_little_memory(long_log: Path, tmp_path: Path) -> None:
    """Export and import stay below their limits, and both logs have the same head."""
    file, made, out = tmp_path / "archive.zip", tmp_path / "made", tmp_path / "out"
    peak = peak_kb("--root", str(long_log), "export", "archive", str(file), out=out)
    print(f"archive: {peak} KB, {file.stat().st_size} bytes")
    assert peak < LIMIT_KB
    peak = peak_kb("import", str(file), "--into", str(made), out=out)
    print(f"import: {peak} KB")
    heads = [Place(root).done("fsck")["head"] for root in (long_log, made)]
    assert heads[0] == heads[1]
    assert peak < 2 * LIMIT_KB
