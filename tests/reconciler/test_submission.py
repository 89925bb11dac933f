"""wfctl builds a DPDispatcher submission from a stage, and a copy of it for each attempt."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import (
    InlineSecret,
    InvalidSubmission,
    UnusablePath,
    UnusableProfile,
    UnusableSubmission,
)
from reconciler.submission import build as submission
from reconciler.submission import job_guard
from reconciler.submission.build import StageJob
from tests.reconciler.support import PROFILE

ATTEMPT = AttemptPaths(Path("/w"), "wf", "stage-2", "att-0001")
JOB = StageJob(
    "stage-2",
    "python fit.py",
    forward_files=("fit.py",),
    inputs=("stage-1/x.json", "stage-2/start.json"),
    outputs=("stage-2/y.json",),
)


def built(**changes: Any) -> dict[str, Any]:
    """Return the submission of the example stage, with the given changes."""
    fields = {name: getattr(JOB, name) for name in StageJob.__slots__}
    return submission.build_submission(StageJob(**{**fields, **changes}), PROFILE)


def attempted(given: dict[str, Any], **described: Any) -> tuple[dict[str, Any], ExecutionHost]:
    """Return the copy of a submission for the example attempt, and the machine of its job."""
    return submission.build_attempt_copy(given, ATTEMPT, described or None)


def own(given: dict[str, Any], **described: Any) -> dict[str, Any]:
    """Return only the copy of a submission for the example attempt."""
    return attempted(given, **described)[0]


def test_outputs_and_logs_are_backward_files() -> None:
    """Without backward_files in the plan, the outputs and both logs are copied back."""
    assert built()["task_list"][0]["backward_files"] == ["y.json", "log", "err"]


def test_given_backward_files_are_unchanged() -> None:
    """If the stage lists its backward_files, wfctl adds no other files to copy back."""
    task = built(backward_files=("z.json",))["task_list"][0]
    assert task["backward_files"] == ["z.json"]


def test_inputs_of_other_stages_are_common_files() -> None:
    """Inputs of other stages are copied next to the stage, so ../stage-1/x.json works."""
    assert built()["forward_common_files"] == ["stage-1/x.json"]


def test_inputs_inside_the_stage_are_forward_files() -> None:
    """Inputs in the stage's own folder are copied like the other files of the stage."""
    assert built()["task_list"][0]["forward_files"] == ["fit.py", "start.json"]


@pytest.mark.parametrize("name", ["inputs", "outputs", "forward_files", "backward_files"])
@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "stage-2/../../x", "", "a\0b"])
def test_path_outside_the_root_is_refused(name: str, path: str) -> None:
    """The error contains the field and the path outside the workflow folder."""
    changes = {"backward_files": None, name: (path,)}
    with pytest.raises(UnusablePath) as caught:
        built(**changes)
    assert (caught.value.data["field"], caught.value.data["path"]) == (name, path)


def test_output_outside_its_stage_is_refused() -> None:
    """Such an output would stay in the job's scratch folder and would not be copied back."""
    with pytest.raises(UnusablePath, match="below stage-2/"):
        built(outputs=("stage-1/y.json",))


def test_overrides_replace_the_defaults_of_the_profile() -> None:
    """The resources of the stage override the default resources of its profile."""
    profile = {**PROFILE, "resource_defaults": {"cpu_per_node": 4, "group_size": 2}}
    job = StageJob("stage-1", "true", resource_overrides={"cpu_per_node": 8})
    assert submission.build_submission(job, profile)["resources"] == {
        "group_size": 2,
        "cpu_per_node": 8,
    }


def test_config_path_is_passed_as_a_reference() -> None:
    """The submission names the file with the credentials, which wfctl does not read."""
    profile = {"type": "remote", "config_path": "machines/hpc.json"}
    result = submission.build_submission(JOB, profile)
    assert result["machine"] == {"$ref": "../machines/hpc.json"}
    assert submission.uses_ref(result)


@pytest.mark.parametrize("profile", [{}, {"config": {}}, {"config_path": ""}, {"config": 3}])
def test_profile_without_a_machine_is_refused(profile: dict[str, Any]) -> None:
    """wfctl refuses a profile whose config is missing, empty or invalid."""
    with pytest.raises(UnusableProfile):
        submission.build_submission(JOB, profile)


def test_attempt_runs_once_in_its_own_folder() -> None:
    """The submission of an attempt has no retries, no links and only absolute paths."""
    machine = own(built())["machine"]
    assert machine["retry_count"] == 0
    assert machine["remote_profile"] == {"symlink": False}
    assert machine["local_root"] == "/w"
    assert machine["remote_root"] == "/w/stage-2/.attempts/att-0001/work"


def test_scratch_folder_of_a_profile_is_used() -> None:
    """Each attempt gets its own subfolder of the profile's remote_root."""
    given = built()
    given["machine"]["remote_root"] = "/scratch"
    copied, machine = attempted(given)
    assert copied["machine"]["remote_root"] == "/scratch/wf/stage-2/att-0001"
    assert machine.scratch == "/scratch/wf/stage-2/att-0001"


def test_attempt_is_named_in_the_environment_of_the_job() -> None:
    """The variable WFCTL_ATTEMPT also makes the hash of each submission unique."""
    given = built(resource_overrides={"envs": {"A": "1"}})
    envs = own(given)["resources"]["envs"]
    assert envs == {"A": "1", "WFCTL_ATTEMPT": "wf/stage-2/att-0001"}


def test_guard_runs_before_the_script_of_the_stage() -> None:
    """The job claims its start before it runs the first user command."""
    given = built(resource_overrides={"prepend_script": ["module load x"]})
    lines = own(given)["resources"]["prepend_script"]
    assert lines[-1] == "module load x"
    assert any("flock" in line for line in lines[:-1])
    assert any("mkdir" in line for line in lines[:-1])


def test_original_submission_is_unchanged() -> None:
    """Building the submission of an attempt does not modify the original submission."""
    given = built()
    before = copy.deepcopy(given)
    own(given)
    assert given == before


FAR = {"batch_type": "Slurm", "context_type": "SSHContext", "remote_root": "/far"}


def test_referenced_machine_gets_no_remote_profile() -> None:
    """A remote_profile in the submission would replace the secrets of the referenced file."""
    given = {**built(), "machine": {"$ref": "../hpc.json"}}
    assert own(given, **FAR)["machine"] == {
        "$ref": "/w/hpc.json",
        "retry_count": 0,
        "local_root": "/w",
        "remote_root": "/far/wf/stage-2/att-0001",
    }


def test_referenced_local_machine_copies_its_inputs() -> None:
    """A machine without a connection gets copies of the inputs, and no links."""
    given = {**built(), "machine": {"$ref": "../hpc.json"}}
    machine = own(given, batch_type="Slurm", context_type="LocalContext")["machine"]
    assert machine["remote_profile"] == {"symlink": False}
    assert machine["remote_root"] == "/w/stage-2/.attempts/att-0001/work"


@pytest.mark.parametrize("root", [None, "", "work", "~/work"])
def test_remote_root_on_another_machine_must_be_absolute(root: str | None) -> None:
    """The working folder on the remote machine is unknown, so a relative path is refused."""
    given = {**built(), "machine": {**FAR, "remote_root": root}}
    with pytest.raises(UnusableSubmission, match="remote_root"):
        own(given)


@pytest.mark.parametrize("name", ["password", "passphrase", "totp_secret"])
def test_secret_in_a_submission_is_refused(name: str) -> None:
    """wfctl would copy the secret with each attempt; the error names only its field."""
    given = {**built(), "machine": {**FAR, "remote_profile": {name: "canary-7"}}}
    with pytest.raises(InlineSecret, match=name) as caught:
        own(given)
    assert "canary-7" not in f"{caught.value}{caught.value.data}"


def test_guard_of_a_remote_job_has_no_local_paths() -> None:
    """The guard of a remote job (commands before the job's script) uses only remote paths."""
    lines = job_guard.build_guard_lines(ATTEMPT, ExecutionHost("Slurm", "SSHContext", "/far"))
    assert not any("/w/" in line for line in lines)
    assert any('"${REMOTE_ROOT%/*}"/"job-' in line for line in lines)


@pytest.mark.parametrize("batch_type", ["SlurmJobArray", "Bohrium", None])
def test_batch_type_without_job_records_is_refused(batch_type: str | None) -> None:
    """wfctl cannot guarantee that job arrays and cloud jobs start only once."""
    given = {**built(), "machine": {**FAR, "batch_type": batch_type}}
    with pytest.raises(UnusableSubmission, match="batch_type"):
        own(given)


def test_lazy_context_is_refused() -> None:
    """DPDispatcher's LazyLocalContext would skip tasks that an earlier attempt finished."""
    given = built()
    given["machine"]["context_type"] = "LazyLocalContext"
    with pytest.raises(UnusableSubmission, match="LocalContext"):
        own(given)


@pytest.mark.parametrize("name", ["machine", "resources"])
def test_incomplete_submission_is_refused(name: str) -> None:
    """The error names the part that the submission does not have."""
    given = built()
    del given[name]
    with pytest.raises(UnusableSubmission, match=name):
        own(given)


def test_prepared_submission_is_read_unchanged(tmp_path: Path) -> None:
    """wfctl reads a submission file that a person or an agent wrote without changing it."""
    path = tmp_path / "submission.json"
    path.write_text(json.dumps(built()))
    assert submission.read_submission(path) == built()


@pytest.mark.parametrize("text", ['{"a": 1,\n  b}', "[]", "\xff"])
def test_invalid_submission_file_is_refused(tmp_path: Path, text: str) -> None:
    """For invalid JSON, a list or invalid UTF-8, the error contains the file name."""
    path = tmp_path / "submission.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidSubmission, match=r"submission\.json"):
        submission.read_submission(path)


def test_invalid_json_is_reported_with_line_and_column(tmp_path: Path) -> None:
    """The error has the line and column of the first wrong character."""
    path = tmp_path / "submission.json"
    path.write_text('{"a": 1,\n  b}')
    with pytest.raises(InvalidSubmission) as caught:
        submission.read_submission(path)
    assert (caught.value.data["line"], caught.value.data["column"]) == (2, 3)


MISSHAPEN = [
    ("task_list", []),
    ("task_list", ["echo"]),
    ("task_list", [{"command": 7}]),
    ("task_list", [{"command": "x", "forward_files": "fit.py"}]),
    ("forward_common_files", 3),
    ("machine", {"remote_profile": "a secret"}),
    ("resources", {"prepend_script": "module load x"}),
    ("resources", {"custom_flags": 7}),
    ("resources", {"envs": ["A"]}),
]


@pytest.mark.parametrize(("field", "value"), MISSHAPEN)
def test_submission_with_a_wrong_type_is_refused(tmp_path: Path, field: str, value: object) -> None:
    """The error names the field but not its value, which could be a secret."""
    path = tmp_path / "submission.json"
    path.write_text(json.dumps({**built(), field: value}))
    with pytest.raises(UnusableSubmission, match=field) as caught:
        submission.read_submission(path)
    assert "secret" not in caught.value.message


def test_resource_overrides_with_a_wrong_type_are_refused() -> None:
    """wfctl checks the resources after merging the overrides of the stage into them."""
    with pytest.raises(UnusableSubmission, match="prepend_script"):
        built(resource_overrides={"prepend_script": "module load x"})
