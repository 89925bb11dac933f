"""List the input files of an attempt with their digests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from eventstore.regular_files import NotRegular
from lifecycle.payload import models as p
from lifecycle.state.conditions import list_needed_files
from lifecycle.state.workflow import Stage, Workflow
from projections.files import progress_log, state_document
from reconciler.attempt.file_digests import digests
from reconciler.attempt.paths import (
    iterate_forwarded_paths,
)
from reconciler.errors import ReconcilerError
from reconciler.submission import build as submission
from service.consent.scripts import (
    find_script_digests,
)
from service.root.folder_entries import exists
from service.root.git import describe_code_commit
from service.root.root import MARKER

#: Names of files that wfctl writes into the root.
_ROOT_FILES = (MARKER, state_document.FILE_NAME, progress_log.FILE_NAME)


def find_attempt_inputs(
    root: Path, state: Workflow, stage: Stage, files: Sequence[p.FileDigest]
) -> dict[str, Any]:
    """Return the inputs of an attempt for its record: files, scripts and code commit."""
    scripts = find_script_digests(root, state, stage)
    made = (path for one in state.stages.values() for path in one.outputs)
    code = describe_code_commit(
        root, [*scripts, *(one.path for one in files)], [*_ROOT_FILES, *made]
    )
    return {"inputs": list(files), "scripts": scripts, "code": code}


def find_foreign_launch_inputs(
    root: Path, state: Workflow, stage: Stage, path: str
) -> dict[str, Any]:
    """Return the inputs of an attempt that wfctl did not launch, for its record.

    ``path`` is its submission file. The attempt already runs, so missing files are ignored.
    """
    needed, sent = list_needed_files(state, stage), list[str]()
    with suppress(ReconcilerError, OSError, NotRegular, LookupError):
        own = {**submission.read_submission(root / path), "machine": {"local_root": str(root)}}
        sent.extend(os.path.relpath(one, root) for one in iterate_forwarded_paths(own))
    others = [one for one in sent if not (one in needed or one.startswith(".."))]
    submitted = _digest_existing(root, [path])
    known = find_attempt_inputs(root, state, stage, _digest_existing(root, [*needed, *others]))
    return {"submission_sha256": submitted[0].sha256 if submitted else "", **known}


def _digest_existing(root: Path, paths: Iterable[str]) -> list[p.FileDigest]:
    return [one for path in paths if exists(root / path) for one in digests(root, [path])]


def find_imported_attempt_inputs(root: Path, state: Workflow) -> dict[str, dict[str, Any]]:
    """Return the inputs of each running attempt that was imported, by stage."""
    found = {
        stage.id: find_foreign_launch_inputs(root, state, stage, stage.attempt.submission)
        for stage in state.stages.values()
        if stage.attempt is not None and stage.attempt.taken_over
    }
    # The files may have changed since the attempt started, so the current commit proves nothing
    # about them.
    return {id_: {k: v for k, v in one.items() if k != "code"} for id_, one in found.items()}
