"""``plan check`` and ``init`` refuse resources that cannot be requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lifecycle.words.resources import parse_resources
from tests.cli.support import Answer, call, write_plan
from tests.growth.support import GROWTH, make_plan, make_stage

#: Wrong resources of a stage → a part of the message.
WRONG: dict[str, tuple[Any, str]] = {
    "no object": (4, "resources: expected an object"),
    "an unknown name": ({"gpus": 1}, "resources.gpus: unknown resource"),
    "a negative amount": ({"memory_gb": -1}, "memory_gb: expected a number above 0"),
    "a truth value": ({"cores": True}, "cores: expected a whole number"),
    "a fraction of a node": ({"nodes": 1.5}, "nodes: expected a whole number"),
    "no ceiling": ({"memory_gb": {"start": 1, "times": 2}}, "memory_gb.at_most: this field is"),
    "no start": ({"memory_gb": {"times": 2, "at_most": 2}}, "memory_gb.start: this field is"),
    "no growth": ({"memory_gb": {"start": 1, "at_most": 2}}, "expected either times or plus"),
    "two ways to grow": ({"memory_gb": {**GROWTH, "plus": 1}}, "expected either times or plus"),
    "no growth by its factor": ({"memory_gb": {**GROWTH, "times": 1}}, "times: expected a number"),
    "a low ceiling": ({"memory_gb": {**GROWTH, "at_most": 0.5}}, "at_most: expected at least 1"),
    "tiny steps": ({"memory_gb": {**GROWTH, "times": 1.01}}, "more than 20 attempts"),
    "an unknown field": ({"memory_gb": {**GROWTH, "most": 3}}, "memory_gb.most: unknown field"),
}
#: Parameters that request the same resource twice → a part of the message.
TWICE: dict[str, tuple[dict[str, Any], str]] = {
    "the time limit": ({"time_limit": 60}, "also set by parameters.time_limit"),
    "the cores": ({"resource_overrides": {"cpu_per_node": 2}}, "resource_overrides.cpu_per_node"),
    "the memory of Slurm": (
        {"resource_overrides": {"custom_flags": ["#SBATCH --mem=8G"]}},
        "'#SBATCH --mem=8G' of custom_flags",
    ),
    "the time of PBS": (
        {"resource_overrides": {"custom_flags": ["#PBS -l walltime=1:00:00"]}},
        "also set by the line '#PBS -l walltime=1:00:00'",
    ),
}


def check(folder: Path, stage: Any, **fields: Any) -> Answer:
    """Check a plan with one stage."""
    return call("plan", "check", str(write_plan(folder, make_plan(stage, **fields))))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_resources_are_refused(tmp_path: Path, name: str) -> None:
    """The message names the field and the expected value."""
    given, message = WRONG[name]
    answer = check(tmp_path, make_stage("true", given))
    assert answer.code == 1, answer
    assert message in answer.err


@pytest.mark.parametrize(
    ("given", "field"),
    [("nan", "memory_gb"), ("{start = 1, times = inf, at_most = 4}", "memory_gb.times")],
)
def test_amount_that_is_not_finite_is_refused(tmp_path: Path, given: str, field: str) -> None:
    """The message names the field by its path in the plan."""
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'workflow_id = "grow-2026-11-23"\npurpose = "Grow."\n[[stages]]\nid = "stage-1"\n'
        'name = "Grow"\noutputs = ["stage-1/out.txt"]\n[stages.parameters]\n'
        f'command = "true"\nresources.memory_gb = {given}\n'
    )
    answer = call("plan", "check", str(plan))
    assert f"stages[0].parameters.resources.{field}: expected a finite number" in answer.err


def test_wrong_resources_of_a_profile_are_refused(tmp_path: Path) -> None:
    """The message names the profile."""
    profiles = {"local": {"type": "local", "resources": {"gpus": 1}}}
    answer = check(tmp_path, make_stage("true", {}), backend_profiles=profiles)
    assert "backend_profiles.local.resources.gpus: unknown resource" in answer.err, answer


@pytest.mark.parametrize("name", TWICE)
def test_resource_that_is_requested_twice_is_refused(tmp_path: Path, name: str) -> None:
    """Otherwise it would be unclear which of both amounts the job gets."""
    parameters, message = TWICE[name]
    resources = {"memory_gb": GROWTH, "time_limit": 60, "cores": 2}
    answer = check(tmp_path, make_stage("true", resources, **parameters))
    assert answer.code == 1, answer
    assert message in answer.err


def test_resources_of_a_stage_override_those_of_its_profile() -> None:
    """An entry of the stage replaces the entry of the same name."""
    found = parse_resources({"memory_gb": 1, "cores": 2}, {"memory_gb": GROWTH})
    assert (found["memory_gb"].at_most, found["cores"].start) == (64, 2)


def test_whole_numbers_grow_to_whole_numbers() -> None:
    """A factor of 1.5 turns one core into two, then three, and then the ceiling."""
    cores = parse_resources({"cores": {"start": 1, "times": 1.5, "at_most": 4}})["cores"]
    assert [cores.grow(1), cores.grow(2), cores.grow(3), cores.grow(4)] == [2, 3, 4, 4]
