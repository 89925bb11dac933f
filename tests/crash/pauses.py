"""Pause points at which the real programs stop, so that a kill happens at an exact moment."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tests.crash import pausing
from tests.crash.support import Workflow, until

#: Simulates a slow disk: waits before it moves a marker file into place.
_SLOW_MV = """#!/bin/bash
case ${{!#}} in
*/DPDISP_DONE)
    if mv "{folder}/done.armed" "{folder}/done.at" 2>/dev/null; then
        while [ ! -e "{folder}/done.go" ]; do sleep 0.01; done
    fi
    ;;
esac
exec {mv} "$@"
"""


@dataclass(frozen=True)
class Pauses:
    """A folder that the programs of a test check at each pause point.

    Points of dpdisp: ``upload``, ``record`` (before the submission is recorded), ``recorded``
    (after it), ``download``, ``cleaned``. Point of the wrapper: ``done``, before it moves
    DPDISP_DONE into place.
    """

    folder: Path

    def into(self, workflow: Workflow) -> Workflow:
        """Return the workflow with programs that stop at armed pause points."""
        self.folder.mkdir()
        shutil.copy(pausing.__file__, self.folder / "sitecustomize.py")
        slow = self.folder / "bin" / "mv"
        slow.parent.mkdir()
        slow.write_text(_SLOW_MV.format(folder=self.folder, mv=shutil.which("mv")))
        slow.chmod(0o755)
        paths = {
            "PYTHONPATH": f"{self.folder}:{workflow.environ['PYTHONPATH']}",
            "PATH": f"{slow.parent}:{workflow.environ['PATH']}",
        }
        return replace(workflow, environ={**workflow.environ, **paths})

    def arm(self, point: str) -> None:
        """Make the first program that reaches the point stop there."""
        (self.folder / f"{point}.armed").touch()

    def reached(self, point: str) -> bool:
        """Return whether a program has stopped at the point."""
        return (self.folder / f"{point}.at").exists()

    def release(self) -> None:
        """Release all stopped programs, and disarm all points."""
        for armed in self.folder.glob("*.armed"):
            armed.unlink(missing_ok=True)
        for at in self.folder.glob("*.at"):
            at.with_suffix(".go").touch()

    def wait(self, point: str) -> None:
        """Wait until a program has stopped at the point."""
        until(lambda: self.reached(point))
