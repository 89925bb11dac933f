"""wfctl accepts parameters up to the kernel's limit, and refuses larger ones early."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sessions.support import silent, stage, workflow

pytestmark = pytest.mark.slow


def test_parameters_up_to_the_kernel_limit_reach_the_command(
    tmp_path: Path,
) -> None:
    """`amend propose` and `dispatch` refuse larger parameters and variables."""
    large = {"expected_seconds": 1, "sequence": "A" * 129_900}
    large |= {f"part_{n}": "A" * 100_000 for n in range(8)}
    command = '[ "$(env | wc -c)" -gt 900000 ] && [ "${#WFCTL_PARAM_sequence}" = 129900 ]'
    place = workflow(tmp_path, stage(1, command, parameters=large), silent(2))
    place.done("dispatch", "stage-1", "--sync")
    assert place.done("show", "stage-1")["status"] == "post_processing"
    more = ("--set", f"parameters.sequence={'A' * 130_000}", "--reason", "Longer.")
    refused = place.json("amend", "propose", "--stage", "stage-2", *more)
    assert "parameters.sequence: expected at most 130,000 bytes" in refused.error["message"]
    submission = {
        "work_base": ".",
        "machine": {"batch_type": "Shell", "context_type": "LocalContext"},
        "resources": {"group_size": 1, "envs": {"SEQUENCE": "A" * 140_000}},
        "task_list": [{"command": "true", "task_work_path": "stage-2"}],
    }
    (place.path / "stage-2").mkdir()
    (place.path / "stage-2/submission.json").write_text(json.dumps(submission))
    for option in ("--dry-run", "--sync"):
        refused = place.json("dispatch", "stage-2", option)
        assert refused.code != 0
        assert "resources.envs.SEQUENCE must be at most 130,000 bytes" in refused.error["message"]
