"""Register the extension ``adoption`` with the core of wfctl."""

from __future__ import annotations

from wfctl_eventstore.extension import Extension


class AdoptionExtension(Extension):
    """Import a workflow whose state and log files were kept by hand."""

    commands = {
        "import": "extensions.adoption.command",
    }
    help_sections = {
        "Start a workflow": {
            "import": "Import a workflow from an archive or hand-written files",
        },
    }


EXTENSION = AdoptionExtension()
