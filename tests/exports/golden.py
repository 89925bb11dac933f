"""Stored exports of two fixed workflows.

`python -m tests.exports.golden` writes the exports from the stored events. With `anew`, it first
writes new events with the current rules.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from eventstore.sqlite.store import open_store
from eventstore.store import Claim, Expected
from extensions.exports.formats import FORMATS
from extensions.handover.restore import ReplayClock, Verbatim, new_event
from migrations.upgrade import upgrade_database
from tests.cli.support import wfctl
from tests.exports.world import STORIES, STREAM, WORKFLOW, make_root

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "exports"
#: The workflows whose exports are stored.
KEPT = ("half-way", "completed")


def path_of(story: str, format_: str) -> Path:
    """Return the path of a stored export."""
    return GOLDEN / story / f"{format_}{FORMATS[format_].suffix}"


def frozen_root(path: Path, story: str) -> Path:
    """Create a root from the stored events, without applying the current rules."""
    folder = path / ".wfctl"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'workflow = "{WORKFLOW}"\n')
    upgrade_database(folder / "events.db")
    then = ReplayClock()
    store = open_store(folder / "events.db", schema=Verbatim({}), clock=then, journal="truncate")
    bodies = map(json.loads, path_of(story, "events").read_text("utf-8").splitlines())
    for command, group in groupby(bodies, lambda body: str(body["command_id"])):
        events = list(group)
        then.set_to_event(events[0])
        store.append(
            STREAM, [new_event(e) for e in events], expected=Expected.ANY, claim=Claim(command, "")
        )
    store.close()
    return path


def write_all(anew: bool) -> None:
    """Write all stored exports; with `anew`, from events made with the current rules."""
    for story in KEPT:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "root"
            root = make_root(path, STORIES[story]) if anew else frozen_root(path, story)
            for format_ in FORMATS:
                path = path_of(story, format_)
                path.parent.mkdir(parents=True, exist_ok=True)
                answer = wfctl("--root", str(root), "export", format_, str(path))
                if answer.code != 0:
                    sys.exit(answer.err)


if __name__ == "__main__":
    write_all(anew=sys.argv[1:] == ["anew"])
