"""Pinned scripts: where a person agreed to the files that are run, and not only to their names."""

from __future__ import annotations

from collections.abc import Sequence

from lifecycle.errors import NeedsConsent
from lifecycle.state.workflow import Workflow
from reconciler.context import Jobs
from service.consent.scripts import changed, scripts_of


class ScriptsChanged(NeedsConsent):
    """Files that would run are not those that were agreed to."""

    code = "scripts_changed"

    def __init__(self, where: str, paths: Sequence[str]) -> None:
        super().__init__(
            f"{where}: session_config.pin holds the files that may run, and these are others now: "
            f"{', '.join(paths)}. Bring them back, or propose them as they are: `wfctl amend "
            "propose --set session_config.pin=scripts --reason …`; a person decides.",
            where=where,
            files=list(paths),
        )


def check_pinned(jobs: Jobs, state: Workflow, where: str) -> None:
    """Raise `ScriptsChanged` where a pinned file is another one, or one that runs is not pinned."""
    pinned = state.session_config.get("pin")
    if not isinstance(pinned, dict):
        return
    new = scripts_of(jobs.root, state).keys() - pinned.keys()
    others = sorted({*changed(jobs.root, pinned), *new})
    if others:
        raise ScriptsChanged(where, others)
