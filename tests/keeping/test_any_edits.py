"""After random edits of files, `wfctl status` reports exactly the expected stages as stale.

The test keeps its own model of the bytes that each stage read and wrote, and compares wfctl's
answers with the model.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cli.support import Place, attempt_data, write_plan
from tests.rounds import rounds

pytestmark = pytest.mark.slow

ME = ("--actor", "user:me")
_STAGES, _EDITS = 4, 8
Files = dict[str, bytes | None]


@dataclass
class Stage:
    """A stage of the model. `read` has the contents of the inputs at the last computation."""

    id: str
    needs: list[str]
    inputs: list[str]
    read: Files | None = None
    left: Files = field(default_factory=dict)


class World:
    """A workflow, its files, and the expected contents of these files."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.place = Place(folder / "root")
        self.place.path.mkdir()
        self.random = random
        self.stages: dict[str, Stage] = {}
        for number in range(1, _STAGES + 1):
            earlier = list(self.stages)
            needs = sorted(random.sample(earlier, random.randint(0, min(2, len(earlier)))))
            own = [f"in-{random.randint(1, 3)}.txt"]
            inputs = [*own, *(f"{id_}/out.txt" for id_ in needs)]
            self.stages[f"stage-{number}"] = Stage(f"stage-{number}", needs, inputs)
        for number in (1, 2, 3):
            self.write(f"in-{number}.txt", b"0")
        self._init(folder)
        for id_ in self.stages:
            self.compute(id_)

    def _init(self, folder: Path) -> None:
        listed = [
            {
                "id": one.id,
                "name": one.id,
                "depends_on": one.needs,
                "inputs": one.inputs,
                "outputs": [f"{one.id}/out.txt"],
                "parameters": {"n": 0},
            }
            for one in self.stages.values()
        ]
        plan = {"workflow_id": "any", "stages": listed}
        self.place.done("init", str(write_plan(folder, plan)), "--consent", "trust")

    def write(self, path: str, content: bytes) -> None:
        """Write bytes to a file.

        At random, the file is written in place or replaced, and gets a current or an old time.
        """
        place = self.place.path / path
        place.parent.mkdir(exist_ok=True)
        if self.random.random() < 0.5:
            place.unlink(missing_ok=True)
        place.write_bytes(content)
        if self.random.random() < 0.5:
            os.utime(place, (1e9, 1e9))

    def now(self, path: str) -> bytes | None:
        """Return the current content of a file, or None if the file does not exist."""
        place = self.place.path / path
        return place.read_bytes() if place.exists() else None

    def compute(self, id_: str) -> None:
        """Compute a stage from the current files, and append the events of a real run."""
        stage = self.stages[id_]
        read = {path: self.now(path) for path in stage.inputs}
        stage.read = {path: content or b"0" for path, content in read.items()}
        for path, content in read.items():
            if content is None:
                self.write(path, b"0")
        path = f"{id_}/out.txt"
        self.write(path, sha256(b"".join(filter(None, stage.read.values()))).digest())
        stage.left = {path: self.now(path)}
        attempts = len(self.place.done("show", id_)["attempts"])
        number = f"att-{attempts + 1:04d}"
        started = json.loads(attempt_data(id_, inputs=_digests(stage.read)))
        ended = {"stage": id_, "attempt": number, "exit_code": 0}
        done = {
            "stage": id_,
            "attempt": number,
            "evidence": "seen",
            "outputs": _digests(stage.left),
        }
        self._append("attempt.started", started)
        self._append("stage.computed", ended)
        self._append("stage.completed", done)

    def _append(self, type_: str, data: dict[str, Any]) -> None:
        self.place.done("append", type_, "--data", json.dumps(data))

    def edit(self) -> None:
        """Make one random edit of a file, amend a random stage, or adopt its results."""
        files = [f"in-{n}.txt" for n in (1, 2, 3)] + [f"{id_}/out.txt" for id_ in self.stages]
        path = self.random.choice(files)
        content = self.now(path)
        match self.random.randint(0, 5):
            case 0:
                (self.place.path / path).unlink(missing_ok=True)
            case 1 if content is not None:
                self.write(path, content)
            case 2:
                self.amend(self.random.choice(list(self.stages)))
            case 3:
                self.adopt(self.random.choice(list(self.stages)))
            case _:
                self.write(path, self.random.choice([b"0", b"1", b"22"]))

    def amend(self, id_: str) -> None:
        """Change a parameter by an approved amendment, and compute all affected stages."""
        value = self.random.random()
        words = ("--set", f"parameters.n={value}", "--reason", "other")
        proposed = self.place.done("amend", "propose", "--stage", id_, *words)
        self.place.done("amend", "approve", proposed["amendment"]["id"])
        again = {id_, *self.below(id_)}
        for one in self.stages:
            if one in again:
                self.compute(one)

    def adopt(self, id_: str) -> None:
        """Adopt the current outputs of a stage as its results, if all exist."""
        stage = self.stages[id_]
        now = {path: self.now(path) for path in stage.left}
        if None not in now.values():
            self.place.done("verify", id_, "--adopt", "--reason", "fine", *ME)
            stage.left = now

    def below(self, id_: str) -> set[str]:
        """Return all stages that depend on a stage."""
        found: set[str] = set()
        for stage in self.stages.values():
            if {id_, *found} & set(stage.needs):
                found.add(stage.id)
        return found

    def own(self, id_: str) -> set[str]:
        """Return the inputs of a stage that differ from the inputs of its last computation."""
        return {
            path for path, was in (self.stages[id_].read or {}).items() if self.now(path) != was
        }

    def stale(self) -> set[str]:
        """Return the stages with changed inputs, and all stages that depend on them."""
        own = {id_ for id_ in self.stages if self.own(id_)}
        return own | {below for id_ in own for below in self.below(id_)}

    def wrong(self, id_: str) -> set[str]:
        """Return the outputs of a stage that differ from the recorded results of the stage."""
        return {path for path, was in self.stages[id_].left.items() if self.now(path) != was}


def _digests(files: Files) -> list[dict[str, Any]]:
    contents = {path: content or b"" for path, content in files.items()}
    return [
        {"path": path, "size": len(content), "sha256": sha256(content).hexdigest()}
        for path, content in contents.items()
    ]


@pytest.mark.parametrize("seed", [*range(2), *rounds(range(2, 40), few=18)])
def test_stale_stages_match_the_model_after_random_edits(tmp_path: Path, seed: int) -> None:
    """After each edit, `status` and `verify` report the stages and files that the model expects.

    `stage verify` fails for every stale stage.
    """
    world = World(tmp_path, Random(seed))
    for _ in range(_EDITS):
        world.edit()
        stale = world.stale()
        assert set(world.place.done("status")["stale"]) == stale
        found = world.place.json("verify", *(["--deep"] if world.random.random() < 0.5 else []))
        told = {(one["stage"], one["what"], one["path"]) for one in found.data["found"]}
        assert told == {
            *((id_, "result", path) for id_ in world.stages for path in world.wrong(id_)),
            *((id_, "input", path) for id_ in world.stages for path in world.own(id_)),
        }
        id_ = world.random.choice(list(world.stages))
        passes = world.place.call("stage", "verify", id_).code == 0
        assert not (passes and (id_ in stale or world.wrong(id_)))
