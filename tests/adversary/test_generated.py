"""What a generator makes up: taken or refused, never a fault of ours, and nothing outside."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from tests.adversary import hostile, hostile_archives, hostile_folders
from tests.adversary.bounded import sound
from tests.cli.support import PLAN, Place, call, tree, write_plan
from tests.exports.support import handed_over
from tests.rounds import rounds

#: Rounds of a hundred: one of a few by `make test`, ten by `make crash`.
ROUNDS = rounds(range(10), few=1)
FEW, MANY = 12, 100

Make = Callable[["World", int], None]

#: A root from outside is used by all of the first, and by some of the second.
ALWAYS = ("status", "note x", "fsck", "rehydrate")
SOME = (
    *("log", "events", "replay --check", "report", "reconcile", "show stage-1", "logs stage-1"),
    *("drift show", "drift revert", "inbox", "amend list", "audit bypasses", "audit times", "why"),
    *("machine list", "machine get wf", "verify", "session show", "export archive ../out.zip"),
    *("export report ../out.html", "stage prepare stage-1", "stage verify stage-1", "clean"),
    *("backup ../backup", "salvage", "pin", "dispatch stage-1 --dry-run", "replay --rebuild"),
    *("db project --rebuild", "db current", "tasks stage-1", "blame stage-1"),
    *(
        "runner status",
        "checkpoint ../checkpoint",
        "amend show amend-1",
        "--as-is status",
        "wait stage-1",
    ),
)


class World:
    """A home that must stay as it is, and the honest things that are spoilt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home, self.work = path / "home", path / "work"
        for folder in (self.home, self.work):
            folder.mkdir()
        # DPDispatcher makes a folder for its records wherever it is imported.
        (self.home / ".dpdispatcher/submission").mkdir(parents=True)
        (self.home / "precious").write_text("mine\n")
        self.root = path / "origin"
        self.root.mkdir()
        assert (
            call("--root", str(self.root), "init", str(write_plan(path)), "--consent", "trust").code
            == 0
        )
        place = Place(self.root)
        place.done("stage", "prepare", "stage-1")
        place.done("machine", "init", "wf", "--type", "dotagent", "--consent", "trust")
        place.done("note", "hello")
        self.archive = handed_over(place, path)
        self.before = self.outside()

    def used(self, root: Path, random: Random) -> None:
        """Use a root that came from outside."""
        for line in (*ALWAYS, *random.sample(SOME, 6)):
            words = [w.replace("../", f"{self.work}/") for w in line.split()]
            sound("--root", str(root), "--root-is", "copied", "-o", "json", *words)

    def is_untouched(self) -> None:
        """Throw away the folder of work; nothing outside it may be new or changed."""
        rmtree(self.work)
        self.work.mkdir()
        assert self.outside() == self.before

    def outside(self) -> dict[str, str]:
        """Return what lies around the folder of work, but what wfctl keeps for the login."""
        folders = (path for path in self.path.iterdir() if path.is_dir() and path.name != "login")
        return {f"{f.name}/{name}": what for f in folders for name, what in tree(f).items()}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Make a world, and stand in the middle of it; what the login keeps is no part of it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "login"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "login"))
    made = World(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("WFCTL_ACTOR", "agent:x")
    monkeypatch.chdir(made.home)
    return made


def archives(world: World, seed: int) -> None:
    """Import an archive, and use what was made of it."""
    random = Random(seed)
    file = hostile_archives.archive(world.archive, world.work / "hostile.zip", random)
    made = world.work / "made"
    if sound("-o", "json", "import", str(file), "--into", str(made)).code == 0:
        world.used(made, random)
    else:
        assert not made.exists()


def plans(world: World, seed: int) -> None:
    """Begin with a plan."""
    random = Random(seed)
    file = hostile.plan(copy.deepcopy(PLAN), world.work, random)
    root = world.work / "root"
    root.mkdir()
    if sound("--root", str(root), "-o", "json", "init", str(file), "--consent", "trust").code == 0:
        world.used(root, random)


def folders(world: World, seed: int) -> None:
    """Take over a folder, where it is, and look at it as it is."""
    random = Random(seed)
    folder = hostile.folder(copy.deepcopy(PLAN), world.work / "old", world.home, random)
    world.used(folder, random)
    sound("-o", "json", "import", str(folder), "--into", str(world.work / "made"))
    if sound("-o", "json", "import", str(folder)).code == 0:
        world.used(folder, random)


def roots(world: World, seed: int) -> None:
    """Use a root in which things were exchanged."""
    random = Random(seed)
    root = hostile_folders.root(world.root, world.work / "root", world.home, random)
    world.used(root, random)


MAKERS = (archives, plans, folders, roots)


def _tried(world: World, make: Make, seeds: range) -> None:
    for seed in seeds:
        try:
            make(world, seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        world.is_untouched()


@pytest.mark.parametrize("make", MAKERS)
def test_a_few_of_a_stranger_lead_nowhere(world: World, make: Make) -> None:
    """The same ones each time."""
    _tried(world, make, range(FEW))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("number", ROUNDS)
def test_a_thousand_of_a_stranger_lead_nowhere(world: World, make: Make, number: int) -> None:
    """A thousand archives, plans, folders and roots in all."""
    _tried(world, make, range(1_000 + number * MANY, 1_000 + (number + 1) * MANY))
