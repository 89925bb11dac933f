"""Register the extension ``exports`` with the core of wfctl."""

from __future__ import annotations

from wfctl_eventstore.extension import Extension


class ExportsExtension(Extension):
    """Write the workflow in formats that other tools read."""

    commands = {
        "export": "extensions.exports.command",
    }
    help_sections = {
        "Share and prove": {
            "export": "Export the workflow in another format",
        },
    }


EXTENSION = ExportsExtension()
