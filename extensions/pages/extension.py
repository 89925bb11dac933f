"""Register the extension ``pages`` with the core of wfctl."""

from __future__ import annotations

from wfctl_eventstore.extension import Extension


class PagesExtension(Extension):
    """Show workflows as web pages in the browser."""

    commands = {
        "serve": "extensions.pages.command",
    }
    help_sections = {
        "See where it stands": {
            "serve": "Follow your workflows in the browser",
        },
    }


EXTENSION = PagesExtension()
