"""Remember the plan file that wfctl read last, and find out whether somebody has edited it since.

The log contains the plan, and wfctl does not read the file again before ``wfctl plan apply``. The
record ``.wfctl/plan-file.json`` is only a cache: without the record, no edit is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

import orjson

from eventstore.chain import canonical_json, sha256_hex
from eventstore.regular_files import read_regular
from projections.files.state_document import FILE_NAME as STATE
from projections.words.result_origin import AttentionItem
from service.root.atomic_files import Mark, file_change_fingerprint, write_whole
from service.root.root import Root
from service.root.sync_record import digest
from wording import CodedError

#: File in ``.wfctl/`` with the path and the digest of the plan file.
PLAN_FILE = "plan-file.json"


class PlanFileRecord(NamedTuple):
    """A plan file as wfctl read it.

    ``path`` is absolute, or relative to the workflow folder. ``mark`` is metadata that change
    whenever the file is written. ``document`` is the digest of the parsed plan. It is empty in the
    record of an earlier version.
    """

    path: str
    size: int
    mark: Mark
    sha256: str
    document: str = ""


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


def write_plan_file_record(root: Root, record: PlanFileRecord | None, document: Any) -> None:
    """Replace the record of the plan file. Without a plan file, remove the record.

    ``document`` is the plan that wfctl read from the file. The file ``workflow-state.json`` gets no
    record, because wfctl itself changes it. Errors of the file system are ignored, because the plan
    is in the log already.
    """
    with suppress(OSError):
        _write_plan_file_record(root, record, document)


def _write_plan_file_record(root: Root, record: PlanFileRecord | None, document: Any) -> None:
    if record is None or Path(record.path).resolve() == root.path.resolve() / STATE:
        (root.folder / PLAN_FILE).unlink(missing_ok=True)
        return
    if Path(record.path).is_relative_to(root.path):
        # The path stays valid if the workflow folder is moved or copied.
        record = record._replace(path=str(Path(record.path).relative_to(root.path)))
    record = record._replace(document=sha256_hex(canonical_json(document)))
    write_whole(root.folder / PLAN_FILE, orjson.dumps(record._asdict()))


def find_edited_plan_file(root: Root) -> Iterator[AttentionItem]:
    """Yield an item if the plan file was edited after wfctl read it.

    The file is read only if its metadata changed. A missing file yields nothing. Other comments and
    another layout are no edit, because the plan is the same.
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
    if status.st_size == record.size and digest(read_regular(place)) == record.sha256:
        return False
    return _digest_document(place) != record.document


def _digest_document(place: Path) -> str | None:
    """Return the digest of the plan in a file, or None if the plan cannot be read."""
    from service.documents.plan_file import read_plan  # needed only for an edited file

    try:
        return sha256_hex(canonical_json(read_plan(str(place))))
    except (CodedError, OSError):
        return None
