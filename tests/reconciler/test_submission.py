"""A stage becomes a submission, and a submission becomes the copy of one attempt."""

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
    """Build the submission of the usual stage with the given changes."""
    fields = {name: getattr(JOB, name) for name in StageJob.__slots__}
    return submission.build_submission(StageJob(**{**fields, **changes}), PROFILE)


def attempted(given: dict[str, Any], **described: Any) -> tuple[dict[str, Any], ExecutionHost]:
    """Return the copy of a submission for one attempt, and the machine of the job."""
    return submission.build_attempt_copy(given, ATTEMPT, described or None)


def own(given: dict[str, Any], **described: Any) -> dict[str, Any]:
    """Return the copy of a submission for one attempt."""
    return attempted(given, **described)[0]


def test_outputs_and_logs_are_backward_files() -> None:
    """Without backward_files in the plan, the outputs and both logs are copied back."""
    assert built()["task_list"][0]["backward_files"] == ["y.json", "log", "err"]


def test_given_backward_files_are_unchanged() -> None:
    """If the stage names its backward_files, nothing is added."""
    task = built(backward_files=("z.json",))["task_list"][0]
    assert task["backward_files"] == ["z.json"]


def test_inputs_of_other_stages_are_common_files() -> None:
    """They are copied next to the stage, so that the path ../stage-1/x.json works."""
    assert built()["forward_common_files"] == ["stage-1/x.json"]


def test_inputs_inside_the_stage_are_forward_files() -> None:
    """They are copied like the other files of the stage."""
    assert built()["task_list"][0]["forward_files"] == ["fit.py", "start.json"]


@pytest.mark.parametrize("name", ["inputs", "outputs", "forward_files", "backward_files"])
@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "stage-2/../../x", "", "a\0b"])
def test_path_outside_the_root_is_refused(name: str, path: str) -> None:
    """The error has the field and the path."""
    changes = {"backward_files": None, name: (path,)}
    with pytest.raises(UnusablePath) as caught:
        built(**changes)
    assert (caught.value.data["field"], caught.value.data["path"]) == (name, path)


def test_output_outside_its_stage_is_refused() -> None:
    """The job runs in a scratch copy, so such an output would not be copied back."""
    with pytest.raises(UnusablePath, match="below stage-2/"):
        built(outputs=("stage-1/y.json",))


def test_overrides_replace_the_defaults_of_the_profile() -> None:
    """The resources are the defaults of the profile, updated by those of the stage."""
    profile = {**PROFILE, "resource_defaults": {"cpu_per_node": 4, "group_size": 2}}
    job = StageJob("stage-1", "true", resource_overrides={"cpu_per_node": 8})
    assert submission.build_submission(job, profile)["resources"] == {
        "group_size": 2,
        "cpu_per_node": 8,
    }


def test_config_path_is_passed_as_a_reference() -> None:
    """The file with the credentials is named but not read."""
    profile = {"type": "remote", "config_path": "machines/hpc.json"}
    result = submission.build_submission(JOB, profile)
    assert result["machine"] == {"$ref": "../machines/hpc.json"}
    assert submission.uses_ref(result)


@pytest.mark.parametrize("profile", [{}, {"config": {}}, {"config_path": ""}, {"config": 3}])
def test_profile_without_a_machine_is_refused(profile: dict[str, Any]) -> None:
    """An empty or invalid config is refused as well."""
    with pytest.raises(UnusableProfile):
        submission.build_submission(JOB, profile)


def test_attempt_runs_once_in_its_own_folder() -> None:
    """The copy allows no retries and no links, and has absolute paths."""
    machine = own(built())["machine"]
    assert machine["retry_count"] == 0
    assert machine["remote_profile"] == {"symlink": False}
    assert machine["local_root"] == "/w"
    assert machine["remote_root"] == "/w/stage-2/.attempts/att-0001/work"


def test_scratch_folder_of_a_profile_is_used() -> None:
    """Each attempt gets its own subfolder of the given remote_root."""
    given = built()
    given["machine"]["remote_root"] = "/scratch"
    copied, machine = attempted(given)
    assert copied["machine"]["remote_root"] == "/scratch/wf/stage-2/att-0001"
    assert machine.scratch == "/scratch/wf/stage-2/att-0001"


def test_attempt_is_named_in_the_environment_of_the_job() -> None:
    """The tag of the attempt makes the hash of the submission unique."""
    given = built(resource_overrides={"envs": {"A": "1"}})
    envs = own(given)["resources"]["envs"]
    assert envs == {"A": "1", "WFCTL_ATTEMPT": "wf/stage-2/att-0001"}


def test_guard_runs_before_the_script_of_the_stage() -> None:
    """No user command runs before the job has claimed its start."""
    given = built(resource_overrides={"prepend_script": ["module load x"]})
    lines = own(given)["resources"]["prepend_script"]
    assert lines[-1] == "module load x"
    assert any("flock" in line for line in lines[:-1])
    assert any("mkdir" in line for line in lines[:-1])


def test_original_submission_is_unchanged() -> None:
    """Building the copy of an attempt does not modify its source."""
    given = built()
    before = copy.deepcopy(given)
    own(given)
    assert given == before


FAR = {"batch_type": "Slurm", "context_type": "SSHContext", "remote_root": "/far"}


def test_referenced_machine_gets_no_remote_profile() -> None:
    """An additional remote_profile would replace the secrets of the referenced file."""
    given = {**built(), "machine": {"$ref": "../hpc.json"}}
    assert own(given, **FAR)["machine"] == {
        "$ref": "/w/hpc.json",
        "retry_count": 0,
        "local_root": "/w",
        "remote_root": "/far/wf/stage-2/att-0001",
    }


def test_referenced_local_machine_copies_its_inputs() -> None:
    """Without a connection, the inputs are copied and not linked."""
    given = {**built(), "machine": {"$ref": "../hpc.json"}}
    machine = own(given, batch_type="Slurm", context_type="LocalContext")["machine"]
    assert machine["remote_profile"] == {"symlink": False}
    assert machine["remote_root"] == "/w/stage-2/.attempts/att-0001/work"


@pytest.mark.parametrize("root", [None, "", "work", "~/work"])
def test_remote_root_on_another_machine_must_be_absolute(root: str | None) -> None:
    """A relative path would depend on an unknown working folder."""
    given = {**built(), "machine": {**FAR, "remote_root": root}}
    with pytest.raises(UnusableSubmission, match="remote_root"):
        own(given)


@pytest.mark.parametrize("name", ["password", "passphrase", "totp_secret"])
def test_secret_in_a_submission_is_refused(name: str) -> None:
    """The secret would be copied with each attempt, and the error names only the field."""
    given = {**built(), "machine": {**FAR, "remote_profile": {name: "canary-7"}}}
    with pytest.raises(InlineSecret, match=name) as caught:
        own(given)
    assert "canary-7" not in f"{caught.value}{caught.value.data}"


def test_guard_of_a_remote_job_has_no_local_paths() -> None:
    """A remote job keeps its records in its own folder."""
    lines = job_guard.build_guard_lines(ATTEMPT, ExecutionHost("Slurm", "SSHContext", "/far"))
    assert not any("/w/" in line for line in lines)
    assert any('"${REMOTE_ROOT%/*}"/"job-' in line for line in lines)


@pytest.mark.parametrize("batch_type", ["SlurmJobArray", "Bohrium", None])
def test_batch_type_without_job_records_is_refused(batch_type: str | None) -> None:
    """Job arrays and cloud jobs cannot guarantee that a job starts only once."""
    given = {**built(), "machine": {**FAR, "batch_type": batch_type}}
    with pytest.raises(UnusableSubmission, match="batch_type"):
        own(given)


def test_lazy_context_is_refused() -> None:
    """A LazyLocalContext would skip tasks that an earlier attempt finished."""
    given = built()
    given["machine"]["context_type"] = "LazyLocalContext"
    with pytest.raises(UnusableSubmission, match="LocalContext"):
        own(given)


@pytest.mark.parametrize("name", ["machine", "resources"])
def test_incomplete_submission_is_refused(name: str) -> None:
    """The error names the missing part."""
    given = built()
    del given[name]
    with pytest.raises(UnusableSubmission, match=name):
        own(given)


def test_prepared_submission_is_read_unchanged(tmp_path: Path) -> None:
    """The file may come from a person or an agent."""
    path = tmp_path / "submission.json"
    path.write_text(json.dumps(built()))
    assert submission.read_submission(path) == built()


@pytest.mark.parametrize("text", ['{"a": 1,\n  b}', "[]", "\xff"])
def test_invalid_submission_file_is_refused(tmp_path: Path, text: str) -> None:
    """Invalid JSON, a list and invalid UTF-8 lead to an error with the file name."""
    path = tmp_path / "submission.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidSubmission, match=r"submission\.json"):
        submission.read_submission(path)


def test_invalid_json_is_reported_with_line_and_column(tmp_path: Path) -> None:
    """The position is that of the wrong character."""
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
    """The merged resources of the submission are checked."""
    with pytest.raises(UnusableSubmission, match="prepend_script"):
        built(resource_overrides={"prepend_script": "module load x"})
