"""Collect advice about weaknesses of the workflow's plan and setup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from eventstore.regular_files import read_regular
from lifecycle.plan.advice import list_advice
from lifecycle.state.workflow import Workflow
from service.consent.scripts import find_importable_modules, find_script_digests
from service.consent.undeclared_files import find_undeclared_files
from service.root.folder_entries import exists
from service.root.paths_within_root import join_normalized_path

#: Maximum size in bytes of a script that wfctl inspects to give advice.
_LONGEST = 1 << 20


def collect_advice(root: Path, state: Workflow) -> list[str]:
    """Return advice on a plan, with one sentence for each possible problem.

    The plan and the scripts that it runs are examined.
    """
    names = {*find_script_digests(root, state)}
    for stage in state.stages.values():
        names |= {*find_importable_modules(root, state, stage)}
    texts = []
    for name in sorted(names):
        with suppress(OSError):  # the file vanished after the listing
            texts.append(read_regular(root / name, _LONGEST).decode("utf-8", "replace"))
    found = [*list_advice(state, "\n".join(texts)), *_describe_undeclared_files(root, state)]
    return [
        *_find_profiles_without_machine(root, state.backend_profiles),
        *_find_map_file_problems(root, state),
        *found,
    ]


def _describe_undeclared_files(root: Path, state: Workflow) -> Iterator[str]:
    """Yield a sentence for each file that a check reads but its stage does not declare."""
    for stage in state.stages.values():
        for script, path in find_undeclared_files(root, state, stage):
            yield (
                f"{stage.id}: the check {script} names the file {path}, which is not an input "
                f"of the stage. Add {path} to `inputs`, so that wfctl notices when the file "
                "changes"
            )


def _find_map_file_problems(root: Path, state: Workflow) -> Iterator[str]:
    """Yield the problems of each file that contains the points of a sweep.

    Missing files are ignored, because wfctl reports them when the stage starts.
    """
    from hashlib import sha256

    from lifecycle.sweeps.definition import MAP
    from lifecycle.sweeps.points import build_points

    for stage in state.stages.values():
        try:
            for path in stage.work.points_files:
                given, content = stage.parameters[MAP], read_regular(root / path)
                found = sha256(content).hexdigest()
                if found != given["sha256"]:
                    yield f"{stage.id}: {path}: the map names another sha256; the file has {found}"
                else:
                    build_points(given, content.decode("utf-8-sig"))
        except OSError:
            continue  # the dispatch of the stage reports a missing input
        except ValueError as error:
            yield f"{stage.id}.parameters.map: {error}"


def _find_profiles_without_machine(root: Path, profiles: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each backend profile that names no machine.

    The configuration file of the machine is not read.
    """
    for name, profile in profiles.items():
        given = profile.get("config_path")
        if given is None and not isinstance(profile.get("config"), Mapping):
            yield (
                f"{name}: the backend profile has neither config nor config_path, so no stage "
                "can be dispatched to it (without a profile, a stage uses `local`)"
            )
        elif isinstance(given, str) and given and not exists(join_normalized_path(root, given)):
            file = join_normalized_path(root, given)
            yield (
                f"{name}: the machine file {file} is missing, so no stage can be dispatched to "
                "this backend yet"
            )
