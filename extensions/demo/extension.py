"""Register the extension ``demo`` with the core of wfctl."""

from __future__ import annotations

from wfctl_eventstore.extension import Extension


class DemoExtension(Extension):
    """Run a small example workflow that is killed and recovered."""

    commands = {
        "demo": "extensions.demo.command",
    }
    help_sections = {
        "Start a workflow": {
            "demo": "Run a small example workflow, kill it and recover it",
        },
    }


EXTENSION = DemoExtension()
