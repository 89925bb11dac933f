"""Remember the plan file that wfctl read last, and find out whether somebody has edited it since.

The log contains the plan, and wfctl does not read the file again before ``wfctl plan apply``. The
record ``.wfctl/plan-file.json`` is only a cache: without the record, no edit is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import orjson

from eventstore.regular_files import read_regular
from projections.files.state_document import FILE_NAME as STATE
from projections.words.result_origin import AttentionItem
from service.root.atomic_files import Mark, file_change_fingerprint, write_whole
from service.root.root import Root
from service.root.sync_record import digest

#: File in ``.wfctl/`` with the path and the digest of the plan file.
PLAN_FILE = "plan-file.json"


class PlanFileRecord(NamedTuple):
    """A plan file as wfctl read it.

    ``path`` is absolute, or relative to the workflow folder. ``mark`` is metadata that change
    whenever the file is written.
    """

    path: str
    size: int
    mark: Mark
    sha256: str


def build_plan_file_record(source: str) -> PlanFileRecord | None:
    """Return the record of a plan file. Call this function before wfctl reads the plan.

    Return None for standard input and for a file that cannot be read.
    """
    if source == "-":
        return None
    try:
        # If the file is a link, keep its name, because the link may later name another file.
        place = Path(source).parent.resolve() / Path(source).name
        status = place.stat()
        sha256 = digest(read_regular(place))
        str(place).encode()
    except (OSError, ValueError):
        return None
    return PlanFileRecord(str(place), status.st_size, file_change_fingerprint(status), sha256)


def write_plan_file_record(root: Root, record: PlanFileRecord | None) -> None:
    """Replace the record of the plan file. Without a plan file, remove the record.

    The file ``workflow-state.json`` gets no record, because wfctl itself changes it. Errors of the
    file system are ignored, because the plan is in the log already.
    """
    with suppress(OSError):
        _write_plan_file_record(root, record)


def _write_plan_file_record(root: Root, record: PlanFileRecord | None) -> None:
    if record is None or Path(record.path).resolve() == root.path.resolve() / STATE:
        (root.folder / PLAN_FILE).unlink(missing_ok=True)
        return
    if Path(record.path).is_relative_to(root.path):
        # The path stays valid if the workflow folder is moved or copied.
        record = record._replace(path=str(Path(record.path).relative_to(root.path)))
    write_whole(root.folder / PLAN_FILE, orjson.dumps(record._asdict()))


def find_edited_plan_file(root: Root) -> Iterator[AttentionItem]:
    """Yield an item if the plan file was edited after wfctl read it.

    The file is read only if its metadata changed. A missing or unreadable file yields nothing.
    """
    try:
        record = PlanFileRecord(**orjson.loads(read_regular(root.folder / PLAN_FILE)))
        is_edited = _is_edited(root.path / record.path, record)
    except (OSError, ValueError, TypeError):
        return
    if is_edited:
        from shlex import join  # needed only for an edited file

        command = join(["wfctl", "plan", "apply", _name_for_command(root, record)])
        text = (
            "was changed after wfctl read it, and the workflow still uses the old plan; "
            f"`{command} --reason TEXT` proposes the changes"
        )
        yield AttentionItem("plan", record.path, text, person=False)


def _name_for_command(root: Root, record: PlanFileRecord) -> str:
    """Return a name of the plan file that is valid in the current folder."""
    if Path.cwd() != root.path:
        return str(root.path / record.path)
    return f"./{record.path}" if record.path.startswith("-") else record.path


def _is_edited(place: Path, record: PlanFileRecord) -> bool:
    """Return whether a plan file differs from its record. Raises OSError if it is missing."""
    status = place.stat()
    if file_change_fingerprint(status) == record.mark or not S_ISREG(status.st_mode):
        return False
    return status.st_size != record.size or digest(read_regular(place)) != record.sha256
