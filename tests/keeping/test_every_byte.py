"""wfctl keeps every file that a job wrote and did not delete, and its location is known."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempt.file_digests import compute_file_sha256
from tests.cli.support import Place
from tests.keeping.support import made
from tests.keeping.writers import job_of, lying, written
from tests.rounds import rounds

pytestmark = pytest.mark.slow
#: The number of random jobs in `make test`, in `make crash`, and in total.
_SOME, _MORE, _ALL = 4, 30, 300


def check_kept(root: Path, manifest: Path, events: Iterable[Mapping[str, Any]]) -> None:
    """Check that each file of each attempt is at its original path or where the log says.

    ``manifest`` lists the files that the jobs wrote. ``events`` list the leftover files of
    attempts.
    """
    named = places_named(events)
    there = lying(root)
    for attempt, files in written(manifest).items():
        for path, digest in files.items():
            own = os.path.normpath(f"stage-1/{path}")
            known = {own, *named.get(own, ())}
            places = there.get(digest, set()) | {one for one in known if lies_at(one, digest)}
            assert places, f"{attempt}: {own} is lost"
            # If wfctl moves a file aside before a later attempt, the file is below `kept` in the
            # folder of its attempt, at the same relative path.
            aside = any(one.endswith(f"/kept/{own}") for one in places)
            assert places & known or aside, f"{attempt}: {own} lies in {places}, the log: {known}"


def places_named(events: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the locations of each file that the log names, by the file's original path."""
    named: dict[str, list[str]] = {}
    for event in events:
        for file in event["data"]["files"]:
            named.setdefault(file["path"], []).append(str(file["at"] or file["path"]))
    return named


def lies_at(path: str, digest: str) -> bool:
    """Return whether an absolute path from the log has a file with the given digest."""
    place = Path(path)
    if not place.is_absolute() or not os.path.lexists(place):
        return False
    return digest == (
        f"-> {place.readlink()}" if place.is_symlink() else compute_file_sha256(place)
    )


def check(place: Place, seed: int) -> None:
    """Run the random job of the given seed, and check that wfctl kept all its files."""
    job_of(seed).put(place.path / "stage-1")
    assert place.call("run").code in (0, 6)
    events = place.done("events", "--type", "attempt.left")
    check_kept(place.path, place.path.parent / "manifest", events)
    place.done("replay", "--check")


def of_seed(folder: Path, seed: int) -> Place:
    """Return a workflow whose only stage runs the random job of the given seed."""
    return made(folder, job_of(seed).stage(folder / "manifest"))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(_SOME))
def test_every_file_of_a_random_job_is_kept(tmp_path: Path, seed: int) -> None:
    """Each file is at its path or where the log says, also after a failed or killed job."""
    check(of_seed(tmp_path, seed), seed)


@pytest.mark.parametrize("seed", rounds(range(_SOME, _ALL), _MORE))
def test_every_file_of_more_random_jobs_is_kept(tmp_path: Path, seed: int) -> None:
    """The long test run repeats this check for more random jobs."""
    check(of_seed(tmp_path, seed), seed)
