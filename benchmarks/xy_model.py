"""Compare a study with Snakemake: ``python -m benchmarks.xy_model [REPETITIONS]``.

Runs the example ``examples/xy-model`` to its result, once with wfctl and once with Snakemake, in
turns. Both run two tasks at a time. Prints the elapsed seconds of each run and the ratio of the
medians. Snakemake must be installed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

_HERE = Path(__file__).resolve().parents[1]
_EXAMPLE = _HERE / "examples/xy-model"
_SNAKEFILE = """
TEMPERATURES = {temperatures}

rule all:
    input: "tc.json"

rule simulate:
    input: "xy.py"
    output: "samples/{{T}}.csv"
    shell: "python3 {{input}} {{wildcards.T}} {size} {sweeps} > {{output}}"

rule analyse:
    input: "helicity.py", "samples/{{T}}.csv"
    output: "helicity/{{T}}.json"
    shell: "python3 {{input}} {{wildcards.T}} {size} > {{output}}"

rule gather:
    input: expand("helicity/{{T}}.json", T=TEMPERATURES)
    output: "tasks.csv"
    run:
        import json
        with open(output[0], "w") as table:
            table.write("T,state,helicity,helicity_error\\n")
            for T, path in zip(TEMPERATURES, input):
                number = json.load(open(path))
                table.write(f"{{T}},done,{{number['y']}},{{number['error']}}\\n")

rule cross:
    input: "cross.py", "tasks.csv"
    output: "tc.json"
    shell: "python3 {{input}} > {{output}}"
"""


def run_wfctl(folder: Path) -> None:
    """Create the workflow of the example, and run it to its end."""
    environ = {**os.environ, "PYTHONPATH": str(_HERE)}
    line = [sys.executable, "-m", "cli.main"]
    _run([*line, "init", "plan.toml", "--consent", "trust"], folder, environ)
    while not (folder / "cross/tc.json").exists():
        _run([*line, "run"], folder, environ)


def run_snakemake(folder: Path) -> None:
    """Run the same commands with Snakemake."""
    plan = tomllib.loads((folder / "plan.toml").read_text())
    text = _SNAKEFILE.format(
        temperatures=plan["stages"][0]["parameters"]["map"]["grid"]["T"],
        size=plan["parameters"]["L"],
        sweeps=plan["parameters"]["sweeps"],
    )
    (folder / "Snakefile").write_text(text)
    _run(["snakemake", "--cores", "2", "--quiet"], folder, dict(os.environ))
    if not (folder / "tc.json").exists():
        sys.exit("Snakemake did not write tc.json")


def _run(line: Sequence[str], folder: Path, environ: dict[str, str]) -> None:
    null = subprocess.DEVNULL
    subprocess.run(line, cwd=folder, env=environ, check=True, stdout=null, stderr=null)


def main(repetitions: int) -> None:
    """Print the elapsed seconds of each run, and the ratio of the medians."""
    seconds: dict[str, list[float]] = {"wfctl": [], "snakemake": []}
    for _ in range(repetitions):
        for name, run in (("wfctl", run_wfctl), ("snakemake", run_snakemake)):
            with tempfile.TemporaryDirectory() as parent:
                folder = Path(shutil.copytree(_EXAMPLE, Path(parent, "xy")))
                start = time.perf_counter()
                run(folder)
                seconds[name].append(time.perf_counter() - start)
                print(f"{name} {seconds[name][-1]:.1f} s", flush=True)
    ratio = statistics.median(seconds["wfctl"]) / statistics.median(seconds["snakemake"])
    print(f"wfctl takes {ratio:.2f} times as long as Snakemake")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
