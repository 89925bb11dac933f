"""`wfctl events --follow` prints events as other processes append them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.cli.support import HERE, Place
from tests.cli.test_server import made
from tests.server import started

pytestmark = pytest.mark.slow


@contextmanager
def following(place: Place, *words: str) -> Iterator[IO[str]]:
    """Start a follower, yield its output, and kill the process at the end."""
    line = [sys.executable, "-m", "cli.main", "--root", str(place.path), "-o", "jsonl"]
    command = [*line, "events", "--follow", *words]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def seen(output: IO[str], number: int) -> list[str]:
    """Read the given number of events, and return their types."""
    return [json.loads(output.readline())["type"] for _ in range(number)]


def test_events_of_other_processes_are_followed(place: Place) -> None:
    """The follower prints all matching events from the first one on, in the order of the log."""
    before = place.types()
    with following(place) as output, following(place, "--type", "note.logged") as notes:
        assert seen(output, len(before)) == before
        place.done("stage", "prepare", "stage-1")
        place.done("note", "hello")
        assert seen(output, 2) == ["stage.prepared", "note.logged"]
        assert seen(notes, 1) == ["note.logged"]


def test_follower_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    """`events --follow` prints each later event once, and no event of another workflow."""
    server = started()
    try:
        url = server.log()
        place, other = made(tmp_path, url, "one"), made(tmp_path, url, "two")
        before = place.types()
        with following(place) as output:
            assert seen(output, len(before)) == before
            place.done("note", "before")
            assert seen(output, 1) == ["note.logged"]
            server.stop("immediate")
            server.start()
            other.done("note", "not of this workflow")
            place.done("stage", "prepare", "stage-1")
            place.done("note", "after")
            assert seen(output, 2) == ["stage.prepared", "note.logged"]
    finally:
        server.close()
