"""Snakemake: a Snakefile with one rule for each step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.work import JOBS_AT_ONCE, Step

NAME = "Snakemake"
PACKAGES = ("snakemake==9.27.1",)
DOCUMENTATION = (
    "https://snakemake.readthedocs.io/en/v9.27.1/executing/cli.html",
    "https://snakemake.readthedocs.io/en/v9.27.1/project_info/faq.html",
)
STATE = (".snakemake",)


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the Snakefile; its first rule requests the final result."""
    rules = [f"rule all:\n    input: {list(steps[-1].outputs)}\n"]
    rules += [_describe_rule(number, step) for number, step in enumerate(steps)]
    (folder / "Snakefile").write_text("\n".join(rules))


def command(folder: Path, python: str) -> list[str]:
    """Run the first rule; Snakemake requires a number of cores, and a job uses one."""
    return [_program(python), "--cores", str(JOBS_AT_ONCE)]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Remove a stale lock, then compute incomplete files again, as Snakemake's messages say."""
    return [
        [_program(python), "--unlock"],
        [*command(folder, python), "--rerun-incomplete"],
    ]


def _describe_rule(number: int, step: Step) -> str:
    shell = step.command.replace("{", "{{").replace("}", "}}")
    return (
        f"rule step_{number}:\n"
        f"    input: {list(step.inputs)}\n"
        f"    output: {list(step.outputs)}\n"
        f"    shell: {shell!r}\n"
    )


def _program(python: str) -> str:
    return str(Path(python).parent / "snakemake")
