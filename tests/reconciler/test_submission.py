"""How a stage becomes a submission, and a submission the copy of one attempt."""

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
    """Build a submission from the usual stage with these changes."""
    fields = {name: getattr(JOB, name) for name in StageJob.__slots__}
    return submission.build(StageJob(**{**fields, **changes}), PROFILE)


def attempted(given: dict[str, Any], **described: Any) -> tuple[dict[str, Any], ExecutionHost]:
    """Return the attempt's copy of a submission and the machine it goes to."""
    return submission.for_attempt(given, ATTEMPT, described or None)


def own(given: dict[str, Any], **described: Any) -> dict[str, Any]:
    """Return the attempt's copy of a submission."""
    return attempted(given, **described)[0]


def test_outputs_come_back_with_log_and_err() -> None:
    """Without backward_files the stage's outputs and both logs are brought back."""
    assert built()["task_list"][0]["backward_files"] == ["y.json", "log", "err"]


def test_given_backward_files_stay_as_given() -> None:
    """A stage that names its backward_files gets those and no others."""
    task = built(backward_files=("z.json",))["task_list"][0]
    assert task["backward_files"] == ["z.json"]


def test_inputs_of_other_stages_are_common_files() -> None:
    """An input outside the stage is copied beside it, so that ../stage-1/x.json is found."""
    assert built()["forward_common_files"] == ["stage-1/x.json"]


def test_inputs_of_the_stage_itself_are_forwarded_with_its_files() -> None:
    """An input inside the stage is copied like a forward file."""
    assert built()["task_list"][0]["forward_files"] == ["fit.py", "start.json"]


@pytest.mark.parametrize("name", ["inputs", "outputs", "forward_files", "backward_files"])
@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "stage-2/../../x", "", "a\0b"])
def test_a_path_that_leaves_the_root_is_refused(name: str, path: str) -> None:
    """An absolute path or one that climbs is an error that names field and path."""
    changes = {"backward_files": None, name: (path,)}
    with pytest.raises(UnusablePath) as caught:
        built(**changes)
    assert (caught.value.data["field"], caught.value.data["path"]) == (name, path)


def test_an_output_outside_its_stage_is_refused() -> None:
    """A job works in a scratch copy, so nothing outside its stage would come back."""
    with pytest.raises(UnusablePath, match="below stage-2/"):
        built(outputs=("stage-1/y.json",))


def test_overrides_win_over_the_defaults_of_the_profile() -> None:
    """Resources are the profile's defaults with the stage's overrides on top."""
    profile = {**PROFILE, "resource_defaults": {"cpu_per_node": 4, "group_size": 2}}
    job = StageJob("stage-1", "true", resource_overrides={"cpu_per_node": 8})
    assert submission.build(job, profile)["resources"] == {"group_size": 2, "cpu_per_node": 8}


def test_a_config_path_is_passed_on_by_reference() -> None:
    """The file with the credentials is named and never read."""
    profile = {"type": "remote", "config_path": "machines/hpc.json"}
    result = submission.build(JOB, profile)
    assert result["machine"] == {"$ref": "../machines/hpc.json"}
    assert submission.uses_ref(result)


@pytest.mark.parametrize("profile", [{}, {"config": {}}, {"config_path": ""}, {"config": 3}])
def test_a_profile_without_a_machine_is_refused(profile: dict[str, Any]) -> None:
    """A profile that names no machine is an error that says what is expected."""
    with pytest.raises(UnusableProfile):
        submission.build(JOB, profile)


def test_an_attempt_is_one_run_in_a_place_of_its_own() -> None:
    """The copy retries nothing, links nothing and says where everything lies."""
    machine = own(built())["machine"]
    assert machine["retry_count"] == 0
    assert machine["remote_profile"] == {"symlink": False}
    assert machine["local_root"] == "/w"
    assert machine["remote_root"] == "/w/stage-2/.attempts/att-0001/work"


def test_a_scratch_place_outside_the_root_is_kept_and_split_by_attempt() -> None:
    """A profile's own remote_root is used, with a folder for each attempt."""
    given = built()
    given["machine"]["remote_root"] = "/scratch"
    copied, machine = attempted(given)
    assert copied["machine"]["remote_root"] == "/scratch/wf/stage-2/att-0001"
    assert machine.scratch == "/scratch/wf/stage-2/att-0001"


def test_an_attempt_is_named_in_its_environment() -> None:
    """The attempt's tag makes the submission's hash its own."""
    given = built(resource_overrides={"envs": {"A": "1"}})
    envs = own(given)["resources"]["envs"]
    assert envs == {"A": "1", "WFCTL_ATTEMPT": "wf/stage-2/att-0001"}


def test_the_guard_comes_before_the_lines_of_the_stage() -> None:
    """Nothing of the stage's own runs before the start is claimed."""
    given = built(resource_overrides={"prepend_script": ["module load x"]})
    lines = own(given)["resources"]["prepend_script"]
    assert lines[-1] == "module load x"
    assert any("flock" in line for line in lines[:-1])
    assert any("mkdir" in line for line in lines[:-1])


def test_what_was_prepared_stays_as_it_was() -> None:
    """Making the attempt's copy leaves the original alone."""
    given = built()
    before = copy.deepcopy(given)
    own(given)
    assert given == before


FAR = {"batch_type": "Slurm", "context_type": "SSHContext", "remote_root": "/far"}


def test_a_referenced_machine_gets_no_profile_beside_it() -> None:
    """A reference is merged shallowly: a remote_profile beside it would replace the secrets."""
    given = {**built(), "machine": {"$ref": "../hpc.json"}}
    assert own(given, **FAR)["machine"] == {
        "$ref": "/w/hpc.json",
        "retry_count": 0,
        "local_root": "/w",
        "remote_root": "/far/wf/stage-2/att-0001",
    }


def test_a_referenced_machine_may_be_this_one() -> None:
    """If nothing connects, the inputs are copied and not linked, as for any local machine."""
    given = {**built(), "machine": {"$ref": "../hpc.json"}}
    machine = own(given, batch_type="Slurm", context_type="LocalContext")["machine"]
    assert machine["remote_profile"] == {"symlink": False}
    assert machine["remote_root"] == "/w/stage-2/.attempts/att-0001/work"


@pytest.mark.parametrize("root", [None, "", "work", "~/work"])
def test_a_far_root_must_be_absolute(root: str | None) -> None:
    """A place on another machine is seen from no folder, so only a whole path names it."""
    given = {**built(), "machine": {**FAR, "remote_root": root}}
    with pytest.raises(UnusableSubmission, match="remote_root"):
        own(given)


@pytest.mark.parametrize("name", ["password", "passphrase", "totp_secret"])
def test_a_secret_beside_the_job_is_refused_and_not_told(name: str) -> None:
    """What opens a machine would be copied with every attempt; the error names the field only."""
    given = {**built(), "machine": {**FAR, "remote_profile": {name: "canary-7"}}}
    with pytest.raises(InlineSecret, match=name) as caught:
        own(given)
    assert "canary-7" not in f"{caught.value}{caught.value.data}"


def test_a_remote_job_keeps_its_records_in_its_own_folder() -> None:
    """Where the job runs elsewhere, no path of this machine is in its guard."""
    lines = submission.guard(ATTEMPT, ExecutionHost("Slurm", "SSHContext", "/far"))
    assert not any("/w/" in line for line in lines)
    assert any('"${REMOTE_ROOT%/*}"/"job-' in line for line in lines)


@pytest.mark.parametrize("batch_type", ["SlurmJobArray", "Bohrium", None])
def test_a_batch_type_that_keeps_no_records_is_refused(batch_type: str | None) -> None:
    """Elements of an array share one script, and a cloud has no folder: neither starts once."""
    given = {**built(), "machine": {**FAR, "batch_type": batch_type}}
    with pytest.raises(UnusableSubmission, match="batch_type"):
        own(given)


def test_a_lazy_context_is_refused() -> None:
    """It would skip what an earlier attempt finished."""
    given = built()
    given["machine"]["context_type"] = "LazyLocalContext"
    with pytest.raises(UnusableSubmission, match="LocalContext"):
        own(given)


@pytest.mark.parametrize("name", ["machine", "resources"])
def test_a_submission_without_its_parts_is_refused(name: str) -> None:
    """A prepared file that lacks a part is an error that names the part."""
    given = built()
    del given[name]
    with pytest.raises(UnusableSubmission, match=name):
        own(given)


def test_a_prepared_file_is_read_as_it_is(tmp_path: Path) -> None:
    """What a person or an agent prepared comes back unchanged."""
    path = tmp_path / "submission.json"
    path.write_text(json.dumps(built()))
    assert submission.read(path) == built()


@pytest.mark.parametrize("text", ['{"a": 1,\n  b}', "[]", "\xff"])
def test_a_prepared_file_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    """Bad JSON, another type and bytes that are no text are errors that name the file."""
    path = tmp_path / "submission.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidSubmission, match=r"submission\.json"):
        submission.read(path)


def test_bad_json_is_placed_by_line_and_column(tmp_path: Path) -> None:
    """The error points at the character that is wrong."""
    path = tmp_path / "submission.json"
    path.write_text('{"a": 1,\n  b}')
    with pytest.raises(InvalidSubmission) as caught:
        submission.read(path)
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
def test_a_prepared_file_of_another_shape_is_refused(
    tmp_path: Path, field: str, value: object
) -> None:
    """The error names the field, and not what stands there: text as a list would be its letters."""
    path = tmp_path / "submission.json"
    path.write_text(json.dumps({**built(), field: value}))
    with pytest.raises(UnusableSubmission, match=field) as caught:
        submission.read(path)
    assert "secret" not in caught.value.message


def test_resource_overrides_of_another_shape_are_refused() -> None:
    """They are checked as they end up in the submission."""
    with pytest.raises(UnusableSubmission, match="prepend_script"):
        built(resource_overrides={"prepend_script": "module load x"})
