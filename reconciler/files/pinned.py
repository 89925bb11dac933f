"""Files that a stage reads and no field names, and scripts that a person pinned."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import DONE, VERDICTS, is_sweep, table_of
from reconciler.attempt.contract import PREPARED, WRAPPER
from reconciler.attempt.markers import MARKERS
from reconciler.context import Jobs
from reconciler.submission.build import ERROR_LOG, FILE_NAME, OUTPUT_LOG
from service.consent.scripts import changed, data_left, judging, others
from service.root.safe_open import is_inside
from wording import Worded


class ScriptsChanged(Worded, NeedsConsent):
    """Files that would run are not those that were agreed to."""

    code = "scripts_changed"
    text = (
        "{where}: session_config.pin holds the files that may run, and these are others now: "
        "{files:, }. Bring them back, or propose them as they are: `wfctl amend "
        "propose --set session_config.pin=scripts --reason …`; a person decides."
    )
    where: str
    files: Sequence[str]


def check_pinned(jobs: Jobs, state: Workflow, where: str) -> None:
    """Raise `ScriptsChanged` where a pinned file is another one, or one that runs is not pinned."""
    found = others(jobs.root, state)
    if found:
        raise ScriptsChanged(where, found)


class VerdictChanged(Worded, NeedsConsent):
    """What failed by one script would be judged by another one, which no person has agreed to."""

    code = "verdict_changed"
    text = (
        "{stage}: {attempt} did not pass by {files:, } as it was when that attempt "
        "started, and it is another file now. Bring it back, or have a person agree to it: "
        "`wfctl amend propose --set session_config.pin=scripts --reason …`."
    )
    stage: str
    attempt: str
    files: Sequence[str]


def check_verdict(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Raise `VerdictChanged` where a script differs from that by which an attempt did not pass.

    One that a person agreed to since is as good: an approval holds the digests of all scripts.
    """
    if (found := other_verdict(jobs.root, state, stage)) is not None:
        raise found


def other_verdict(root: Path, state: Workflow, stage: Stage) -> VerdictChanged | None:
    """Return why the stage may not be judged by its scripts as they are now, if it may not."""
    refuted = next((one for one in reversed(stage.attempts) if _was_refused(one)), None)
    if refuted is None:
        return None
    own = judging(stage)
    then = {path: sha256 for path, sha256 in refuted.scripts.items() if path in own}
    found = changed(root, then)
    unasked = {path for path, now in found.items() if state.scripts.get(path) != now}
    unasked -= data_left(root, state) if unasked else set()
    return VerdictChanged(stage.id, refuted.id, sorted(unasked)) if unasked else None


def _was_refused(attempt: Attempt) -> bool:
    failed = (attempt.tasks or {}).get("failures", [])
    return attempt.is_refuted or any(str(f.get("because")).startswith(VERDICTS) for f in failed)


#: Bytes and files that are sent without being named.
_BYTES, _FILES = 10**8, 1000
#: What wfctl, DPDispatcher and the published wrapper keep in the folder themselves.
_NOT_THEIRS = frozenset(
    {PREPARED, WRAPPER, FILE_NAME, OUTPUT_LOG, ERROR_LOG, "dpdispatcher.log", *MARKERS}
)


class TooMuchBeside(Worded, Refused):
    """More lies in a stage's folder than is sent to a job without being named."""

    code = "too_much_beside"
    text = (
        "{stage}/ holds {files} files of {bytes} bytes that no field of the stage names; expected "
        f"at most {_FILES} files and {_BYTES} bytes. Name those that its command needs: `wfctl "
        "amend propose --stage {stage} --set 'parameters.forward_files=[\"run.py\"]' --reason "
        "TEXT`; [] sends none."
    )
    stage: str
    files: int
    bytes: int


def files_beside(root: Path, stage: Stage) -> list[str]:
    """Return the files that somebody put into the stage's folder, relative to it, as patterns.

    None of its outputs, of its inputs, or of what its attempts left. Hidden files stay where they
    are. Raises `TooMuchBeside`.
    """
    taken = [*stage.outputs, *stage.inputs, *stage.left_in_place]
    if is_sweep(stage.parameters):
        taken += [*table_of(stage.id), f"{stage.id}/{DONE}"]
    above = tuple(os.path.normpath(path) for path in taken)
    found = [
        (path, size)
        for path, size in _below(root / stage.id)
        if not any(f"{stage.id}/{path}/".startswith(f"{one}/") for one in above)
    ]
    total = sum(size for _, size in found)
    if total > _BYTES or len(found) > _FILES:
        raise TooMuchBeside(stage.id, len(found), total)
    return [escape(path) for path, _ in found]


def _below(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each file below a folder with its size; none that is hidden, or is a link elsewhere."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            own = str(path.relative_to(folder))
            # Bytes that are not UTF-8 have no place in an event.
            can_be_recorded = own.encode(errors="ignore").decode() == own
            if name.startswith(".") or own in _NOT_THEIRS or not can_be_recorded:
                continue
            if path.is_file() and is_inside(path, folder):
                yield own, path.stat().st_size
