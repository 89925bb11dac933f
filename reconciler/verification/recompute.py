"""Compute a completed stage once more, in a folder of its own, to check its numbers.

The folder ``.wfctl/checks/STAGE-N`` contains a workflow with only this stage. The results of the
checked workflow are not touched. After the check, the folder is deleted if all numbers agree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from lifecycle.errors import Refused
from lifecycle.state.conditions import find_point_source_stages, points_added_by_rounds
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import MAP
from lifecycle.words.plan_parameters import PLAN_PARAMETERS, remove_plan_values
from lifecycle.words.scripts import INIT
from projections.words.format_numbers import format_with_error
from projections.words.format_results import measure_difference
from reconciler.attempt.file_digests import has_recorded_content
from reconciler.host.program import command_of_module
from service.consent.scripts import digest_of, find_changed_digests
from service.root.atomic_files import write_whole

#: Folder inside ``.wfctl`` that contains the folders of all checks.
CHECKS = "checks"
_PLAN = "plan.json"
#: Name of the stages that fill the gaps in the numbers of stages, and the reason why they are
#: skipped. The stages ``stage-1``, ``stage-2`` and so on of a plan must have no gap.
_PLACEHOLDER = "Not part of this check"
_REASON = "this check computes another stage"
_NUMBERED = re.compile(r"stage-([1-9][0-9]*)")
#: Parameters of a stage that are not needed to compute its numbers again. A verify command may read
#: files of other stages, which do not exist in the folder of the check.
_UNUSED = ("verify", "verify_parameters")
#: Largest difference, in units of the combined standard error, at which two numbers agree.
_MAX_SIGMA = 2.0


class NotComputableAgain(Refused):
    """A stage cannot be computed once more, for the reason in the message."""

    code = "not_computable_again"

    def __init__(self, stage: str, why: str) -> None:
        super().__init__(f"{stage} cannot be computed once more: {why}", stage=stage)


class CheckNotPrepared(Refused):
    """The folder of a check could not be prepared. The message has the output of the command."""

    code = "check_not_prepared"

    def __init__(self, word: str, output: str) -> None:
        super().__init__(f"the check could not be prepared: {output.strip()}", word=word)


class NumberCheck(NamedTuple):
    """A number of a completed stage, and the number of its second computation.

    ``sigma`` is the difference divided by the combined standard error, or None if no error is
    known. ``agrees`` is None if the numbers differ and no error is known.
    """

    name: str
    value: float
    error: float | None
    again: float | None
    again_error: float | None
    sigma: float | None
    agrees: bool | None

    def describe(self) -> str:
        """Return one line that says whether the two numbers agree."""
        first = format_with_error(self.value, self.error)
        if self.again is None:
            return f"{self.name}: {first}, but the second computation has no such number"
        second = format_with_error(self.again, self.again_error)
        if self.value == self.again:
            return f"{self.name}: {first}, the same again"
        if self.sigma is not None:
            verb = "agrees" if self.agrees else "does not agree"
            return f"{self.name}: {first}, then {second}: {verb} ({self.sigma:.1f} σ)"
        spread = abs(self.value - self.again) / 2
        mean = format_with_error((self.value + self.again) / 2, spread)
        return f"{self.name}: {first}, then {second}: no error is known; both together give {mean}"


def prepare_check(root: Path, state: Workflow, stage: Stage) -> Path:
    """Create the folder in which a stage is computed once more, and return its path.

    An unfinished check of the same definition is continued. Raises `NotComputableAgain` if the
    stage is not completed, belongs to a loop, or if one of its inputs has changed.
    """
    stages = list_stages_to_compute(state, stage)
    for one in stages:
        _require_computable(root, state, one)
    content = json.dumps(_build_plan(state, stages), indent=1, ensure_ascii=False).encode()
    folder = _choose_folder(root / ".wfctl" / CHECKS, stage.id, content)
    if not (folder / ".wfctl").exists():
        # The plan is written first, because it marks the folder as made by wfctl.
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _PLAN, content + b"\n")
        for path in _list_files(root, state, stages):
            _copy_into(root, folder, path)
    return folder


def remove_check(folder: Path) -> None:
    """Delete the folder of a check, and the folder of all checks if it is empty then.

    `prepare_check` created the folder, or recognized its own folder by the plan.
    Raises OSError if a file cannot be deleted.
    """
    shutil.rmtree(folder)
    with suppress(OSError):  # another check is there
        folder.parent.rmdir()


def list_stages_to_compute(state: Workflow, stage: Stage) -> list[Stage]:
    """Return the stages that a check computes: those whose points it uses, and the stage."""
    return [*find_point_source_stages(state, stage)[::-1], stage]


def run_check(folder: Path) -> bool:
    """Compute the stage in the folder of a check. Return whether it is completed.

    The progress of the computation goes to stderr. A person has approved the same definition in the
    checked workflow, so the workflow of the check needs no approval.
    """
    if not (folder / ".wfctl").exists():
        _require_success(_run_wfctl(folder, "init", _PLAN, "--consent", "trust", captured=True))
    for stage in _list_unfinished_placeholders(folder):
        words = ("amend", "propose", "--type", "stage_skip", "--stage", stage)
        done = _run_wfctl(folder, "-o", "json", *words, "--reason", _REASON, captured=True)
        _require_success(done)
        amendment = json.loads(done.stdout)["data"]["amendment"]["id"]
        _require_success(_run_wfctl(folder, "amend", "approve", amendment, captured=True))
    line = ("-o", "json", "--log-level", "error", "run")
    return _run_wfctl(folder, *line, stdout=subprocess.PIPE).returncode == 0


def _list_unfinished_placeholders(folder: Path) -> list[str]:
    """Return the placeholder stages in the folder of a check that are not skipped yet."""
    done = _run_wfctl(folder, "-o", "json", "status", captured=True)
    _require_success(done)
    return [
        stage["id"]
        for stage in json.loads(done.stdout)["data"]["stages"]
        if stage["name"] == _PLACEHOLDER and stage["status"] != Status.SKIPPED
    ]


def _require_success(done: subprocess.CompletedProcess[bytes]) -> None:
    """Raise `CheckNotPrepared` if a wfctl command on the folder of a check failed."""
    if done.returncode != 0:
        raise CheckNotPrepared(done.args[-1], (done.stderr or done.stdout).decode(errors="replace"))


def read_check_rows(folder: Path, stage: str) -> list[dict[str, Any]]:
    """Return the rows of ``wfctl metrics STAGE`` for the computed stage in a check's folder."""
    done = _run_wfctl(folder, "-o", "json", "metrics", stage, captured=True)
    answer = json.loads(done.stdout)
    found: list[dict[str, Any]] = answer["data"]["metrics"] if answer["success"] else []
    return found


def compare_rows(
    stage: Stage, first: Sequence[Mapping[str, Any]], again: Sequence[Mapping[str, Any]]
) -> list[NumberCheck]:
    """Compare the numbers of two computations of a stage, given their rows of ``wfctl metrics``."""
    second = dict(_name_numbers(stage, again))
    return [
        _compare(name, value, error, *second.get(name, (None, None)))
        for name, (value, error) in _name_numbers(stage, first)
    ]


def _require_computable(root: Path, state: Workflow, stage: Stage) -> None:
    """Raise `NotComputableAgain` unless a stage can be computed with its recorded inputs."""
    attempt = stage.source
    if stage.status is not Status.COMPLETED or attempt is None:
        raise NotComputableAgain(
            stage.id, f"its status is {stage.status.value}, but only a completed stage has numbers"
        )
    if stage.parameters.get("metrics") is None:
        raise NotComputableAgain(
            stage.id, "it has no metrics. Name its numbers in parameters.metrics"
        )
    if state.loop_of(stage.id) is not None and not stage.work.tables:
        raise NotComputableAgain(
            stage.id, "it is a stage of a loop, and its results depend on the earlier rounds"
        )
    changed = [
        one["path"] for one in attempt.inputs if not has_recorded_content(root / one["path"], one)
    ]
    # A changed script must not run here, because nobody has approved it.
    changed += find_changed_digests(root, {**(attempt.beside or {}), **attempt.scripts})
    if changed:
        raise NotComputableAgain(
            stage.id,
            f"the file {changed[0]}, which it reads, has changed since then. Restore the file, or "
            f"run `wfctl rerun {stage.id}`",
        )


def _build_plan(state: Workflow, stages: Sequence[Stage]) -> dict[str, Any]:
    """Return a plan with the given stages, and with placeholders for missing numbers of stages."""
    named = {stage.id for stage in stages}
    numbers = [int(found[1]) for id_ in named if (found := _NUMBERED.fullmatch(id_))]
    gaps = (f"stage-{number}" for number in range(1, max(numbers, default=0)))
    return {
        "workflow_id": state.id,
        "purpose": f"Compute {stages[-1].id} once more, to check its numbers.",
        "default_backend": state.default_backend,
        "backend_profiles": state.backend_profiles,
        **({PLAN_PARAMETERS: state.parameters} if state.parameters else {}),
        "stages": [
            *({"id": id_, "name": _PLACEHOLDER} for id_ in gaps if id_ not in named),
            *(_build_stage(state, stage, named) for stage in stages),
        ],
    }


def _build_stage(state: Workflow, stage: Stage, named: Collection[str]) -> dict[str, Any]:
    """Return the definition of a stage that depends only on other stages in ``named``."""
    return {
        "id": stage.id,
        "name": stage.name,
        "depends_on": [one for one in stage.depends_on if one in named],
        "backend": stage.backend,
        "inputs": stage.inputs,
        "outputs": stage.declared_outputs,
        "parameters": _build_parameters(state, stage),
    }


def _build_parameters(state: Workflow, stage: Stage) -> dict[str, Any]:
    """Return the parameters of a stage, with the points of all rounds if it is in a loop."""
    own = remove_plan_values(stage.parameters, state.parameters)
    found = {name: value for name, value in own.items() if name not in _UNUSED}
    added = points_added_by_rounds(state, stage.id)
    if added:
        points = [*(dict(point.values) for point in stage.work.listed_points()), *added]
        ways = ("grid", "zip", "points", "order")
        options = {key: value for key, value in found[MAP].items() if key not in ways}
        found[MAP] = {**options, "points": points}
    return found


def _choose_folder(checks: Path, stage: str, plan: bytes) -> Path:
    """Return the folder of an unfinished check with the same plan, or a new folder."""
    for number in count(1):
        folder = checks / f"{stage}-{number}"
        if not folder.exists():
            return folder
        is_last = not (checks / f"{stage}-{number + 1}").exists()
        if is_last and _can_continue(folder) and _read(folder / _PLAN) == plan + b"\n":
            return folder
    raise AssertionError


def _can_continue(folder: Path) -> bool:
    """Return whether the workflow of a check is neither completed nor failed."""
    if not (folder / ".wfctl").exists():
        return True
    done = _run_wfctl(folder, "-o", "json", "status", captured=True)
    if done.returncode != 0:
        return False
    data = json.loads(done.stdout)["data"]
    failed = any(stage["status"] == Status.FAILED for stage in data["stages"])
    return data["status"] != "completed" and not failed


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _list_files(root: Path, state: Workflow, stages: Sequence[Stage]) -> Iterator[str]:
    """Yield the files that the stages read, relative to the root."""
    of_stages = {output for stage in stages for output in stage.outputs}
    for stage in stages:
        attempt = stage.source
        yield from () if attempt is None else _list_files_of_attempt(attempt)
        yield from stage.work.points_files
        yield from (path for path in stage.inputs if path not in of_stages)
        machine = state.profile(stage).get("config_path")
        if isinstance(machine, str):
            yield machine
    if state.scripts.get(INIT) == digest_of(root, INIT):
        yield INIT  # as approved


def _list_files_of_attempt(attempt: Attempt) -> Iterator[str]:
    yield from (one["path"] for one in attempt.inputs)
    yield from attempt.scripts
    yield from attempt.beside or ()


def _copy_into(root: Path, folder: Path, path: str) -> None:
    """Copy a file or folder from the root into another folder, unless it is outside or missing."""
    source, target = root / path, folder / path
    if Path(path).is_absolute() or ".." in Path(path).parts or target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.is_file():
        shutil.copy2(source, target)


def _run_wfctl(
    folder: Path, *words: str, captured: bool = False, stdout: int = 2
) -> subprocess.CompletedProcess[bytes]:
    """Run a wfctl command on the workflow in a folder.

    Its output goes to stderr. With ``captured``, it is returned, and only ``stdout`` otherwise.
    """
    environ = {k: v for k, v in os.environ.items() if k not in ("WFCTL_DATABASE_URL", "WFCTL_ROOT")}
    line = [*command_of_module("cli.main"), "--root", str(folder), *words]
    return subprocess.run(
        line,
        cwd=folder,
        env=environ,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if captured else stdout,
        stderr=subprocess.PIPE if captured else None,
    )


def _name_numbers(
    stage: Stage, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, tuple[float, float | None]]]:
    """Yield each number of the rows with its name, its value and its error."""
    for row in rows:
        if "key" not in row:
            yield row["name"], (row["value"], row["error"])
            continue
        for name in stage.work.task_metrics:
            if name in row:
                yield f"{name} at {row['key']}", (row[name], row.get(f"{name}_error"))


def _compare(
    name: str, value: float, error: float | None, again: float | None, again_error: float | None
) -> NumberCheck:
    found = None if again is None else measure_difference(value, error, again, again_error)
    sigma = None if found is None else found.sigma
    agrees = None if sigma is None else sigma <= _MAX_SIGMA
    if again is None or found is None:
        agrees = False
    elif value == again:
        agrees = True
    return NumberCheck(name, value, error, again, again_error, sigma, agrees)
