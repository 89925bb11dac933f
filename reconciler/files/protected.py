"""List the files of a root that the remote machine of an attempt must not overwrite."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.scripts import INIT, READ_UNASKED
from projections.files import progress_log, state_document
from reconciler.attempt.paths import AttemptPaths
from reconciler.far.incoming import PROTECTED_RECORD
from service.consent.scripts import find_scripts_to_approve
from service.root.atomic_files import write_whole

#: Names of files in the root that wfctl writes or runs.
_IN_ROOT = (state_document.FILE_NAME, progress_log.FILE_NAME, INIT)


def record_protected_files(
    root: Path, state: Workflow, stage: Stage, attempt: AttemptPaths
) -> None:
    """Write a list of files that no result of a remote attempt may overwrite.

    The list is stored in the attempt's folder. Files that wfctl writes into a stage's folder are
    not listed, because they are never overwritten anyway.
    """
    written_here, named = {*_IN_ROOT}, {*find_scripts_to_approve(root, state)}
    for one in state.stages.values():
        written_here |= {*one.work.tables}
        named |= {os.path.normpath(path) for path in one.inputs}
        named |= {os.path.normpath(path) for path in one.outputs if one.id != stage.id}
    named -= {os.path.normpath(path) for path in stage.outputs}
    known = {"written_here": written_here, "named": named, "names": READ_UNASKED}
    listed = {name: sorted(paths) for name, paths in known.items()}
    write_whole(attempt.folder / PROTECTED_RECORD, json.dumps(listed, indent=1).encode() + b"\n")
