"""Find the scripts that a plan runs, and compute their digests.

A plan only names its scripts. A script could therefore be changed after the approval of the plan.
wfctl records the digests of the scripts with each approval and at the start of each attempt, so
that it can report such a change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import file_digest
from itertools import islice
from pathlib import Path, PurePosixPath

from lifecycle.fold.evolve import apply_amendment
from lifecycle.state.run_files import (
    expand_root_and_input_variables,
    find_command_scripts,
    find_data_files_from_jobs,
    map_commands_to_folders,
)
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.words.scripts import (
    IMPORTED,
    INIT,
    MISSING,
    OUTSIDE,
    explain_unknown_digest,
    has_script_ending,
    is_content_unknown,
    is_digest,
)
from service.consent.packages import find_run_module
from service.root.folder_entries import is_file, is_folder

#: Maximum number of modules to record for an attempt.
_MODULES = 200
#: Maximum number of characters of a part of a command to show to a person.
_SHOWN = 120
#: Pattern of words that may be paths. For example, ``--script=check.py`` contains two words.
_WORDS = r"[^\s=;|&<>()$`'\"*?\[\]{}\\]+"


def find_script_digests(root: Path, state: Workflow, stage: Stage | None = None) -> dict[str, str]:
    """Return the scripts that the plan or one of its stages runs, each with its SHA-256.

    These are files named in commands and verify commands, inputs that are scripts, files with the
    points of sweeps, machine files of profiles, and ``init.sh``. Outputs of stages and missing
    files are left out. Paths inside the workflow folder are relative to it.
    """
    found = find_scripts_to_approve(root, state, stage)
    return {path: digest for path, digest in found.items() if is_digest(digest)}


def find_scripts_to_approve(
    root: Path, state: Workflow, stage: Stage | None = None
) -> dict[str, str]:
    """Return the scripts that a person approves, each with its SHA-256 or a special value.

    These are the scripts of `find_script_digests`, and scripts without a digest. The value is
    `OUTSIDE` for a script outside the workflow folder, and `MISSING` for one that does not exist.
    If a part of a command runs a file without naming it, the key is this part, and the value is
    `OUTSIDE` with a reason.
    """
    stages = list(state.stages.values()) if stage is None else [stage]
    made = {path for one in state.stages.values() for path in one.outputs}
    run = {_relative_to_root(root, path) for one in stages for path in _list_run_files(one)}
    named = run | {
        _relative_to_root(root, path) for one in stages for path in _list_named_paths(root, one)
    }
    machines = _only_strings([state.profile(one).get("config_path") for one in stages])
    read = {INIT, *map(os.path.normpath, machines)}
    found = {path: _digest_or_reason(root, path, path in run) for path in named - read}
    found |= {path: digest_of(root, path) or MISSING for path in read}
    found |= {words: why for one in stages for words, why in _find_unnamed_file_commands(root, one)}
    return {
        path: one for path, one in sorted(found.items()) if one is not None and path not in made
    }


def _find_unnamed_file_commands(root: Path, stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield each part of a stage's commands that runs an unnamed file, with the reason."""
    from lifecycle.words.unknown_files import find_unknown_files  # slow to load

    for name in map_commands_to_folders(stage):
        command = stage.parameters.get(name)
        if isinstance(command, str):
            for one in find_unknown_files(command.replace(f"{root}/", "$WFCTL_ROOT/")):
                words = " ".join(one.words.split())
                shown = words if len(words) <= _SHOWN else f"{words[: _SHOWN - 1]}…"
                yield shown, f"{OUTSIDE}: {one.reason}"


def _relative_to_root(root: Path, path: str) -> str:
    """Return a path relative to the workflow folder.

    Paths outside this folder stay unchanged.
    """
    for folder in dict.fromkeys((root, root.resolve())) if path.startswith("/") else ():
        if path.startswith(f"{folder}/"):
            return os.path.relpath(path, folder)
    return path


def _digest_or_reason(root: Path, path: str, is_run: bool) -> str | None:
    """Return the digest of a file, or a special value if the file does not exist.

    The value is `OUTSIDE` for a script outside the workflow folder, `MISSING` for a missing script,
    and None for any other file without a digest.
    """
    is_script = has_script_ending(path) or is_run
    if path.startswith(("/", "..")):
        return OUTSIDE if is_script else None
    if is_script and is_folder(root / path):
        return None
    return digest_of(root, path) or (MISSING if is_script else None)


def find_scripts_after_amendment(
    root: Path, state: Workflow, amendment: Amendment
) -> dict[str, str]:
    """Return the scripts that a person approves, as they will be after an amendment.

    See `find_scripts_to_approve`.
    """
    changed = state.draft()
    apply_amendment(changed, amendment)
    return find_scripts_to_approve(root, changed)


def find_importable_modules(root: Path, state: Workflow, stage: Stage) -> dict[str, str]:
    """Return the Python files that a stage's scripts could import, with their SHA-256.

    These are files next to a script, in the stage's folder, in packages there that a script
    imports, and in the workflow folder if the stage has a check. A file with the name of a standard
    module is included only if a script imports this name, or imports a library that may import it.
    The number of files is limited.
    """
    from projections.words.result_origin import module_of
    from service.consent.packages import (  # needed only for a launch
        find_package_modules,
        find_unimported_stdlib_names,
    )

    own = find_script_digests(root, state, stage)
    folders = {stage.id, *(str(PurePosixPath(path).parent) for path in own)}
    folders |= {"."} if stage.parameters.get("verify") else set()
    made = {path for one in state.stages.values() for path in one.outputs}
    found = {path for folder in folders for path in _list_modules(root, folder)}
    sources = {*own, *(path for path in found if path.endswith(".py"))}
    unused = find_unimported_stdlib_names(root, sources, _commands_of(stage))
    found = {path for path in found if module_of(path) not in unused}
    found |= {*find_package_modules(root, folders, sources)}
    listed = sorted(found - made)
    digests = ((path, digest_of(root, path)) for path in listed if path not in own)
    return dict(islice(((path, one) for path, one in digests if one is not None), _MODULES))


def _list_modules(root: Path, folder: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(root / folder))
    except OSError:
        return
    for entry in entries:
        path = os.path.normpath(os.path.join(folder, entry.name))  # noqa: PTH118 - joins names
        if entry.name == "__init__.py":
            continue  # makes the folder a package, to which a script in it does not belong
        if entry.name.endswith(IMPORTED):
            yield path
        elif is_folder(entry) and not entry.name.startswith("."):
            yield f"{path}/__init__.py"


def _commands_of(stage: Stage) -> list[str]:
    found = (stage.parameters.get(name) for name in ("command", *stage.work.verify_folders))
    return [text for text in found if isinstance(text, str)]


def digest_of(root: Path, path: str) -> str | None:
    """Return the SHA-256 of a file in hex, or None if the file cannot be read."""
    with suppress(OSError, ValueError):
        if is_file(root / path):
            with (root / path).open("rb") as stream:
                return file_digest(stream, "sha256").hexdigest()
    return None


def find_changed_digests(root: Path, recorded: dict[str, str]) -> dict[str, str | None]:
    """Return the scripts that differ from recorded digests, with their current digests."""
    known = {path: one for path, one in recorded.items() if not is_content_unknown(one)}
    now = {path: digest_of(root, path) for path in known}
    return {path: digest for path, digest in now.items() if (digest or MISSING) != known[path]}


def find_scripts_violating_pins(root: Path, state: Workflow) -> list[str]:
    """Return the scripts that the plan does not allow to run.

    If a plan pins its scripts (lists their digests), these are changed scripts and scripts that it
    does not list. Otherwise, return an empty list.
    """
    pinned = state.session_config.get("pin")
    if not isinstance(pinned, dict):
        return []
    new = find_script_digests(root, state).keys() - pinned.keys()
    found = {*find_changed_digests(root, pinned), *new}
    return sorted(found - find_unchanged_job_files(root, state) if found else found)


def explain_unpinnable_scripts(root: Path, state: Workflow) -> list[str]:
    """Return a reason for each script whose content wfctl cannot know.

    Return an empty list if the plan does not pin its scripts (list their digests).
    """
    if not isinstance(state.session_config.get("pin"), dict):
        return []
    found = find_scripts_to_approve(root, state).items()
    return [explain_unknown_digest(path, one) for path, one in found if is_content_unknown(one)]


def find_unchanged_job_files(root: Path, state: Workflow) -> set[str]:
    """Return the paths of files that jobs wrote and that have not changed since.

    Scripts are left out.
    """
    return {path for path, one in find_data_files_from_jobs(state) if digest_of(root, path) == one}


def find_verify_paths(root: Path, stage: Stage) -> set[str]:
    """Return the paths that the verify commands of a stage name."""
    commands = stage.work.verify_folders.items()
    return {
        path for name, folder in commands for path in _find_command_paths(root, stage, name, folder)
    }


def _list_named_paths(root: Path, stage: Stage) -> Iterator[str]:
    yield from find_verify_paths(root, stage)
    yield from _find_command_paths(root, stage, "command", stage.work.command_folder)
    yield from filter(has_script_ending, _only_strings(stage.inputs))
    yield from stage.work.points_files
    for path in filter(has_script_ending, _only_strings(stage.parameters.get("forward_files"))):
        yield from _join_below("", f"{stage.id}/{path}")


def _only_strings(values: object) -> list[str]:
    listed = values if isinstance(values, list) else []
    return [value for value in listed if isinstance(value, str) and value]


def _find_command_paths(root: Path, stage: Stage, name: str, folder: str) -> Iterator[str]:
    """Yield the words of a command that may be paths of files in the workflow folder."""
    command = stage.parameters.get(name)
    if not isinstance(command, str):
        return
    for word in re.findall(_WORDS, expand_root_and_input_variables(stage, folder, command)):
        if "/" in word or "." in word:
            yield from _join_below(folder, word)
    for one in find_command_scripts(stage, name, folder):
        if one.module is not None:
            yield from find_run_module(
                root, one.module, [one.path, *one.search, *_module_search_folders(stage)]
            )
        elif digest_of(root, one.path) is not None:
            yield one.path
        else:
            yield from (path for path in (f"{one.path}/__main__.py",) if digest_of(root, path))


def _list_run_files(stage: Stage) -> Iterator[str]:
    """Yield the files that the commands of a stage run, whatever their suffix.

    The files need not exist.
    """
    for name, folder in map_commands_to_folders(stage).items():
        found = find_command_scripts(stage, name, folder)
        yield from (one.path for one in found if one.runs and one.module is None)


def _module_search_folders(stage: Stage) -> list[str]:
    """Return further folders in which Python may find modules.

    These are the folders of PYTHONPATH and the folders of the stage's inputs.
    """
    given = os.environ.get("PYTHONPATH", "").split(":")
    return [*filter(None, given), *(os.path.dirname(path) for path in stage.inputs)]  # noqa: PTH120


def _join_below(folder: str, word: str) -> Iterator[str]:
    path = os.path.normpath(os.path.join(folder, word))  # noqa: PTH118 - joins names only
    if path != "." and "\0" not in path:
        yield path
