"""Generated hostile input causes no internal errors and no writes outside the work folder."""

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

#: Round numbers, each with a hundred seeds. `make test` runs a few seeds, `make crash` all ten
#: rounds.
ROUNDS = rounds(range(10), few=1)
FEW, MANY = 12, 100

Make = Callable[["World", int], None]

#: Commands to run on a root from a stranger: every command of ALWAYS and a sample of SOME.
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
    """A home folder that must not change, and the honest files that the generators damage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home, self.work = path / "home", path / "work"
        for folder in (self.home, self.work):
            folder.mkdir()
        # Create this folder first, because importing DPDispatcher creates it for its records, which
        # would look like a change of the home folder.
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
        """Run commands on a hostile workflow root, and check that none fails internally."""
        for line in (*ALWAYS, *random.sample(SOME, 6)):
            words = [w.replace("../", f"{self.work}/") for w in line.split()]
            sound("--root", str(root), "--root-is", "copied", "-o", "json", *words)

    def is_untouched(self) -> None:
        """Remove the work folder, and check that nothing outside it has changed."""
        rmtree(self.work)
        self.work.mkdir()
        assert self.outside() == self.before

    def outside(self) -> dict[str, str]:
        """Return the files outside the work folder, without those that wfctl keeps for the user."""
        folders = (path for path in self.path.iterdir() if path.is_dir() and path.name != "login")
        return {f"{f.name}/{name}": what for f in folders for name, what in tree(f).items()}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Create a home folder with honest files, and make it the working directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "login"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "login"))
    made = World(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("WFCTL_ACTOR", "agent:x")
    monkeypatch.chdir(made.home)
    return made


def archives(world: World, seed: int) -> None:
    """Import an archive, and run commands on the resulting root."""
    random = Random(seed)
    file = hostile_archives.archive(world.archive, world.work / "hostile.zip", random)
    made = world.work / "made"
    if sound("-o", "json", "import", str(file), "--into", str(made)).code == 0:
        world.used(made, random)
    else:
        assert not made.exists()


def plans(world: World, seed: int) -> None:
    """Start a workflow from a damaged plan."""
    random = Random(seed)
    file = hostile.plan(copy.deepcopy(PLAN), world.work, random)
    root = world.work / "root"
    root.mkdir()
    if sound("--root", str(root), "-o", "json", "init", str(file), "--consent", "trust").code == 0:
        world.used(root, random)


def folders(world: World, seed: int) -> None:
    """Import a folder, both in place and into another folder, and run commands on it."""
    random = Random(seed)
    folder = hostile.folder(copy.deepcopy(PLAN), world.work / "old", world.home, random)
    world.used(folder, random)
    sound("-o", "json", "import", str(folder), "--into", str(world.work / "made"))
    if sound("-o", "json", "import", str(folder)).code == 0:
        world.used(folder, random)


def roots(world: World, seed: int) -> None:
    """Run commands on a root with replaced files."""
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
def test_few_generated_inputs_write_nothing_outside(world: World, make: Make) -> None:
    """No generated input of a few fixed seeds causes a write outside the work folder."""
    _tried(world, make, range(FEW))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("number", ROUNDS)
def test_thousand_generated_inputs_write_nothing_outside(
    world: World, make: Make, number: int
) -> None:
    """Hostile inputs from up to a thousand seeds cause no write outside the work folder."""
    _tried(world, make, range(1_000 + number * MANY, 1_000 + (number + 1) * MANY))
