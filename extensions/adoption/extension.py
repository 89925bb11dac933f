"""What the extension adoption adds to the core of wfctl."""

from __future__ import annotations

from wfctl_eventstore.extension import Extension


class AdoptionExtension(Extension):
    """Import a workflow that was kept by hand."""

    commands = {
        "import": "extensions.adoption.command",
    }
    help_sections = {
        "Start a workflow": {
            "import": "Import a workflow from an archive or hand-written files",
        },
    }


EXTENSION = AdoptionExtension()
