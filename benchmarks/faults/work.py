"""The works of the fault games, as data: a chain, a sweep and a loop of rounds."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

#: Parameter of every step, and its value after somebody has edited it by hand.
FACTOR, EDITED_FACTOR = "3", "4"

#: Files that a person wrote before the work starts, with their content.
SOURCES = {"source.txt": "the source\n", "settings.txt": "the settings\n"}

#: Number of steps that every tool may run at the same time.
JOBS_AT_ONCE = 4

#: Name of the only output of each step, in a folder that has the name of the step.
RESULT = "result.txt"


class Step(NamedTuple):
    """One step: a shell command that runs with the folder of the tool as working directory."""

    name: str
    command: str
    needs: tuple[str, ...]  # names of steps
    inputs: tuple[str, ...]  # files, relative to the folder
    outputs: tuple[str, ...]


class Work(NamedTuple):
    """Steps in an order in which they can run, and the step during which a fault happens."""

    name: str
    steps: tuple[Step, ...]
    focus: str
    seconds: Mapping[str, float]  # of single steps
    default: float  # seconds of every other step


def make_work(name: str, script: Path, middle: float = 15.0) -> Work:
    """Return the work `chain`, `sweep` or `rounds`; its steps run the copy of step.py at `script`.

    ``middle`` is the duration of the middle step of the chain in seconds.
    """
    if name == "chain":
        return Work(name, _chain(script), "measure", {"measure": middle}, 0.2)
    if name == "sweep":
        return Work(name, _sweep(script), "point-20", {"collect": 0.2}, 1.0)
    if name == "rounds":
        return Work(name, _rounds(script), "round-2-point-1", {}, 1.0)
    raise ValueError(f"expected the work chain, sweep or rounds, found {name!r}")


def compute_results(
    work: Work, sources: Mapping[str, str], factors: Mapping[str, str]
) -> dict[str, str]:
    """Return the right content of all outputs by path, for the sources and changed parameters."""
    files = dict(sources)
    for step in work.steps:
        content = f"{step.name} {factors.get(step.name, FACTOR)}\n"
        content += "".join(files[path] for path in step.inputs)
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        files |= dict.fromkeys(step.outputs, f"computing\n{step.name} {digest}\n")
    return {path: content for path, content in files.items() if path not in sources}


def parameter_of(name: str, factor: str) -> str:
    """Return the part of a step's command that a person edits to change the parameter."""
    return f"{name} --factor {factor}"


def find_dependents(steps: Iterable[Step], name: str) -> frozenset[str]:
    """Return the names of all steps that need the step `name`, directly or indirectly."""
    found = {name}
    for step in steps:
        if found & set(step.needs):
            found.add(step.name)
    return frozenset(found - {name})


def _chain(script: Path) -> tuple[Step, ...]:
    return (
        _step(script, "prepare", (), ("source.txt",)),
        _step(script, "measure", ("prepare",), ("settings.txt",)),
        _step(script, "report", ("measure",)),
    )


def _sweep(script: Path) -> tuple[Step, ...]:
    points = [f"point-{number:02}" for number in range(1, 41)]
    return (
        *(_step(script, name, (), ("source.txt",)) for name in points),
        _step(script, "collect", points),
    )


def _rounds(script: Path) -> tuple[Step, ...]:
    steps: list[Step] = []
    for number in (1, 2, 3):
        needs = (f"decide-{number - 1}",) if number > 1 else ()
        points = [f"round-{number}-point-{point}" for point in (1, 2)]
        steps += [_step(script, name, needs, ("source.txt",)) for name in points]
        steps.append(_step(script, f"decide-{number}", points))
    return tuple(steps)


def _step(script: Path, name: str, needs: Sequence[str], sources: tuple[str, ...] = ()) -> Step:
    inputs = (*(f"{step}/{RESULT}" for step in needs), *sources)
    outputs = (f"{name}/{RESULT}",)
    words = [sys.executable, str(script), name, "--factor", FACTOR, "--inputs", *inputs]
    command = shlex.join([*words, "--outputs", *outputs])
    return Step(name, command, tuple(needs), inputs, outputs)
