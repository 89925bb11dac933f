"""What a generator makes up: taken or refused, never a fault of ours, and nothing outside."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from tests.adversary import hostile
from tests.cli.support import PLAN, Answer, Place, call, tree, write_plan
from tests.exports.support import handed_over
from tests.rounds import rounds

#: Rounds of a hundred: one of a few by `make test`, ten by `make crash`.
ROUNDS = rounds(range(10), few=1)
FEW, MANY = 12, 100

Make = Callable[["World", range], None]


class World:
    """A home that must stay as it is, and the honest things that are spoilt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home, self.work = path / "home", path / "work"
        for folder in (self.home, self.work):
            folder.mkdir()
        (self.home / "precious").write_text("mine\n")
        root = path / "origin"
        root.mkdir()
        assert call("--root", str(root), "init", str(write_plan(path))).code == 0
        place = Place(root)
        place.done("note", "hello")
        place.done("stage", "prepare", "stage-1")
        self.archive = handed_over(place, path)
        self.before = tree(self.path)

    def used(self, root: Path) -> None:
        """Use a root that came from outside, and see that nothing else was touched."""
        lines = (["status"], ["note", "x"], ["log"], ["fsck"], ["replay", "--check"], ["report"])
        for line in lines:
            sound(call("--root", str(root), "--root-is", "copied", "-o", "json", *line))

    def is_untouched(self) -> None:
        """Throw away the folder of work; nothing outside it may be new or changed."""
        rmtree(self.work)
        self.work.mkdir()
        assert tree(self.path) == self.before


def sound(answer: Answer) -> Answer:
    """See that an answer is one of the contract, and tells of no fault of ours."""
    assert answer.code in range(8), answer
    assert answer.code == 0 or answer.out == "" or '"internal"' not in answer.out, answer
    return answer


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Make a world, and stand in the middle of it."""
    made = World(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.home / ".config"))
    monkeypatch.setenv("WFCTL_ACTOR", "agent:x")
    monkeypatch.chdir(made.home)
    return made


def archives(world: World, seeds: range) -> None:
    """Import one archive a seed, and use what was made of it."""
    for seed in seeds:
        random = Random(seed)
        file = hostile.archive(world.archive, world.work / "hostile.zip", random)
        answer = sound(call("-o", "json", "import", str(file), "--into", str(world.work / "made")))
        if answer.code == 0:
            world.used(world.work / "made")
        else:
            assert not (world.work / "made").exists(), (seed, answer)
        world.is_untouched()


def plans(world: World, seeds: range) -> None:
    """Begin with one plan a seed."""
    for seed in seeds:
        random = Random(seed)
        file = hostile.plan(copy.deepcopy(PLAN), world.work, random)
        root = world.work / "root"
        root.mkdir()
        answer = sound(call("--root", str(root), "-o", "json", "init", str(file)))
        if answer.code == 0:
            world.used(root)
        world.is_untouched()


def folders(world: World, seeds: range) -> None:
    """Take over one folder a seed, where it is, and look at it as it is."""
    for seed in seeds:
        random = Random(seed)
        folder = hostile.folder(copy.deepcopy(PLAN), world.work / "old", world.home, random)
        world.used(folder)
        sound(call("-o", "json", "import", str(folder), "--into", str(world.work / "made")))
        if sound(call("-o", "json", "import", str(folder))).code == 0:
            world.used(folder)
        world.is_untouched()


@pytest.mark.parametrize("make", [archives, plans, folders])
def test_a_few_of_a_stranger_lead_nowhere(world: World, make: Make) -> None:
    """The same ones each time."""
    make(world, range(FEW))


@pytest.mark.parametrize("make", [archives, plans, folders])
@pytest.mark.parametrize("number", ROUNDS)
def test_a_thousand_of_a_stranger_lead_nowhere(world: World, make: Make, number: int) -> None:
    """A thousand archives, plans and folders in all."""
    make(world, range(1_000 + number * MANY, 1_000 + (number + 1) * MANY))
