"""Register the extension ``handover`` with the core of wfctl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.frame.context import Context
from service.root.root import Root
from wfctl_eventstore.extension import Extension


class HandoverExtension(Extension):
    """Pass a workflow on: archives, backups, and copies of the database."""

    commands = {
        "db copy": "extensions.handover.command",
        "db backup": "extensions.handover.command",
        "db restore": "extensions.handover.command",
        "db salvage": "extensions.handover.command",
    }
    help_sections = {}

    @contextmanager
    def open_archive(self, file: Path) -> Iterator[Root]:
        """Restore an archive into a temporary folder and yield the folder as a root."""
        from extensions.handover.command import open_archive_temporarily

        with open_archive_temporarily(file) as root:
            yield root

    def restore_archive(
        self, context: Context, file: Path, into: Path | None, *, dry_run: bool
    ) -> None:
        """Restore the workflow of an archive into a folder, and print the result."""
        from extensions.handover.command import restore_into_root

        restore_into_root(context, file, into, dry_run)


EXTENSION = HandoverExtension()
