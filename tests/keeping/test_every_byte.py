"""Every byte that a job wrote and did not delete itself is here afterwards, and can be found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempt.markers import digest_of
from tests.cli.support import Place
from tests.keeping.support import made
from tests.keeping.writers import job_of, lying, written
from tests.rounds import rounds

pytestmark = pytest.mark.slow
#: Rounds of `make test`, of `make crash`, and all of them.
_SOME, _MORE, _ALL = 4, 30, 300


def check_kept(root: Path, manifest: Path, events: Iterable[Mapping[str, Any]]) -> None:
    """Check that each file of each attempt lies where it was written, or where the log says.

    ``events`` are those by which the log tells what attempts left.
    """
    named = places_named(events)
    there = lying(root)
    for attempt, files in written(manifest).items():
        for path, digest in files.items():
            own = os.path.normpath(f"stage-1/{path}")
            known = {own, *named.get(own, ())}
            places = there.get(digest, set()) | {one for one in known if lies_at(one, digest)}
            assert places, f"{attempt}: {own} is lost"
            # What was moved out of a later attempt's way keeps its path below the attempt's folder.
            aside = any(one.endswith(f"/kept/{own}") for one in places)
            assert places & known or aside, f"{attempt}: {own} lies in {places}, the log: {known}"


def places_named(events: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return where the log says that files lie, by the path that each was written at."""
    named: dict[str, list[str]] = {}
    for event in events:
        for file in event["data"]["files"]:
            named.setdefault(file["path"], []).append(str(file["at"] or file["path"]))
    return named


def lies_at(path: str, digest: str) -> bool:
    """Whether the file of a digest lies at an absolute path, where the log names one."""
    place = Path(path)
    if not place.is_absolute() or not os.path.lexists(place):
        return False
    return digest == (f"-> {place.readlink()}" if place.is_symlink() else digest_of(place))


def check(place: Place, seed: int) -> None:
    """Run the random job of a seed to its end, and look for what it wrote."""
    job_of(seed).put(place.path / "stage-1")
    assert place.call("run").code in (0, 6)
    events = place.done("events", "--type", "attempt.left")
    check_kept(place.path, place.path.parent / "manifest", events)
    place.done("replay", "--check")


def of_seed(folder: Path, seed: int) -> Place:
    """Return a workflow of the random job of a seed."""
    return made(folder, job_of(seed).stage(folder / "manifest"))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(_SOME))
def test_every_byte_that_a_job_wrote_is_kept(tmp_path: Path, seed: int) -> None:
    """In its place, or where the log says; whatever it is called and however the job ended."""
    check(of_seed(tmp_path, seed), seed)


@pytest.mark.parametrize("seed", rounds(range(_SOME, _ALL), _MORE))
def test_every_byte_that_more_jobs_wrote_is_kept(tmp_path: Path, seed: int) -> None:
    """The same of more of them."""
    check(of_seed(tmp_path, seed), seed)
