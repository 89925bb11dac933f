"""The exports of the fixed stories, kept as files.

`python -m tests.exports.golden` writes them from the events that are kept; with `anew` it first
writes those events from the stories, by the rules of today.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from eventstore.sqlite.store import open_store
from eventstore.store import Claim, Expected
from migrations.upgrade import upgrade
from projections.exports.formats import FORMATS
from service.handover.restore import Then, Verbatim, new_event
from tests.cli.support import wfctl
from tests.exports.world import STORIES, STREAM, WORKFLOW, make_root

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "exports"
#: Stories whose exports are kept.
KEPT = ("half-way", "completed")


def path_of(story: str, format_: str) -> Path:
    """Return where an export of a story is kept."""
    return GOLDEN / story / f"{format_}{FORMATS[format_].suffix}"


def frozen_root(path: Path, story: str) -> Path:
    """Make a root of the kept events, whatever the rules would make of the story today."""
    folder = path / ".wfctl"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'workflow = "{WORKFLOW}"\n')
    upgrade(folder / "events.db")
    then = Then()
    store = open_store(folder / "events.db", schema=Verbatim({}), clock=then, journal="truncate")
    bodies = map(json.loads, path_of(story, "events").read_text("utf-8").splitlines())
    for command, group in groupby(bodies, lambda body: str(body["command_id"])):
        events = list(group)
        then.turn(events[0])
        store.append(
            STREAM, [new_event(e) for e in events], expected=Expected.ANY, claim=Claim(command, "")
        )
    store.close()
    return path


def write_all(anew: bool) -> None:
    """Write every kept export; ``anew``: of the events that the stories yield today."""
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
