"""The viscosity example: its integrals are correct, and its rounds of seeds survive a kill."""

from __future__ import annotations

import csv
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place, wfctl
from tests.examples.scripts import script_of
from tests.need import need_programs

EXAMPLE = Path(__file__).parents[2] / "examples/melt-viscosity"
#: A wrapper of LAMMPS that adds a line when a run ends.
COUNTING = '#!/bin/bash\n{lmp} "$@" && echo "$*" >> {ended}\n'


script = partial(script_of, EXAMPLE)


green_kubo, gather = script("green_kubo"), script("gather")


def test_integral_of_an_exponential_correlation_is_exact() -> None:
    """Five stress components are averaged, and only the last window is used."""
    lags, step = 501, 0.01
    lines = ["# Index TimeDelta Ncount", "0 501", *(f"{n} 0 1 9 9 9 9 9" for n in range(lags))]
    for n in range(lags):
        kept = math.exp(-n * step / 0.5)
        lines.append(f"{n + 1} {2 * n} 9 " + " ".join(f"{a * kept}" for a in (1, 1.5, 2, 2.5, 3)))
    kept = green_kubo.read("\n".join(lines), lags)
    running = green_kubo.integral(kept, step, 300 / 0.75)
    assert len(running) == lags
    for n in (100, 500):
        exact = 400 * 2 * 0.5 * (1 - math.exp(-n * step / 0.5))
        assert running[n] == pytest.approx(exact, rel=1e-3)


def test_error_of_the_mean_and_next_seeds() -> None:
    """The script finds the known error, and proposes no seed twice, not even a failed one."""
    dice = random.Random(3)
    value, error = gather.mean([dice.gauss(3.2, 0.8) for _ in range(16)])
    assert value == pytest.approx(3.2, abs=0.6)
    assert error == pytest.approx(0.2, rel=0.4)
    rows = [{"seed": str(n), "state": "done"} for n in (1, 3, 2)] + [
        {"seed": "4", "state": "failed"}
    ]
    assert gather.coming(rows, 3) == [5, 6, 7]


@pytest.mark.parametrize("name", ["small.toml", "plan.toml"])
def test_repeated_values_in_the_plan_agree(name: str) -> None:
    """Values that the plan states twice, such as the lag time and the seeds, are equal."""
    plan = tomllib.loads((EXAMPLE / name).read_text("utf-8"))
    run, gathered, compared = (stage["parameters"] for stage in plan["stages"])
    loop = plan["rounds"]["seeds"]
    assert run["lag"] == pytest.approx(run["every"] * run["timestep"])
    assert gathered["time"] == pytest.approx(run["lag"] * (run["lags"] - 1))
    assert run["map"]["grid"]["seed"]["to"] == gathered["each"] == loop["each"]
    assert loop["within"]["seed"]["to"] == loop["each"] * loop["at_most"] <= loop["tasks"]
    reference = gathered["metrics"]["viscosity"]["reference"]
    assert gathered["published"] == compared["value"] == reference["value"]
    assert compared["error"] == reference["error"]
    assert compared["relative"] == loop["until"]["relative_error"]


def loop_of(place: Place) -> dict[str, Any]:
    """Return the state of the workflow's loop over random seeds."""
    found: dict[str, Any] = place.done("round", "show", "seeds")
    return found


def counting(folder: Path) -> tuple[dict[str, str], Path]:
    """Return an environment whose LAMMPS records ended runs, and the file of the record."""
    ended, own = folder / "ended", folder / "bin/lmp"
    own.parent.mkdir()
    own.write_text(COUNTING.format(lmp=shutil.which("lmp"), ended=ended))
    own.chmod(0o755)
    return {"PATH": f"{own.parent}:{os.environ['PATH']}"}, ended


def killed_where(place: Place, environ: dict[str, str], is_there: Callable[[], bool]) -> None:
    """Start `wfctl run`, and kill only this process when a condition is true."""
    program = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "--root", str(place.path), "run"],
        cwd=place.path,
        env={**os.environ, "PYTHONPATH": str(HERE), **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with program:
        until = time.monotonic() + 240
        while not is_there():
            assert program.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        program.send_signal(signal.SIGKILL)
    assert program.returncode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.slow
def test_loop_of_seeds_continues_after_a_kill(tmp_path: Path) -> None:
    """After a kill in round 2, the loop continues until the error is 10 %."""
    need_programs("lmp", "bash")
    place = Place(tmp_path / "melt")
    shutil.copytree(EXAMPLE, place.path)
    assert place.call("init", str(place.path / "small.toml"), "--consent", "trust").code == 0
    environ, ended = counting(tmp_path)
    first = loop_of(place)["each"]
    killed_where(
        place, environ, lambda: ended.exists() and len(ended.read_text().splitlines()) > first
    )
    assert loop_of(place)["round"] == 2
    answer = wfctl("run", cwd=place.path, environ=environ, within=300)
    assert answer.code == 0, answer

    loop = loop_of(place)
    rounds = [one["round"] for one in loop["rounds"]]
    assert rounds == list(range(1, loop["round"] + 1))
    assert loop["round"] < loop["at_most"]
    assert "relative error" in loop["over"]
    relative = [
        one["numbers"]["gather.viscosity"]["error"] / one["numbers"]["gather.viscosity"]["value"]
        for one in loop["rounds"]
    ]
    assert relative[-1] <= 0.1 < min(relative[:-1])

    with (place.path / "run/tasks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["state"] for row in rows} == {"done"}
    assert [int(row["seed"]) for row in rows] == list(range(1, first * loop["round"] + 1))
    assert [int(row["round"]) for row in rows] == [n for n in rounds for _ in range(first)]
    runs = Counter(
        line.split("-var seed ")[1].split()[0] for line in ended.read_text().splitlines()
    )
    assert runs == Counter(row["seed"] for row in rows)

    found = json.loads((place.path / "gather/viscosity.json").read_text())
    estimates = [float(row["eta"]) for row in rows]
    assert (found["viscosity"], found["error"]) == pytest.approx(gather.mean(estimates))
    assert abs(found["viscosity"] - 3.24) <= 3 * math.hypot(found["error"], 0.04)
    assert "<polyline" in (place.path / "gather/viscosity.svg").read_text()
    kept = [place.path / f"gather/round-{n:02d}/viscosity.json" for n in rounds[:-1]]
    assert [json.loads(path.read_text())["seeds"] for path in kept] == [
        first * n for n in rounds[:-1]
    ]
