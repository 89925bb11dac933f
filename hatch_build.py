"""Build the wheel so that an installation adds one name to site-packages, and the manual page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Path of the manual page. `make package` writes the page before it builds the wheel.
_PAGE = "build/wfctl.1"


class ApplicationHook(BuildHookInterface[Any]):
    """A build hook that puts the packages of wfctl into ``wfctl_eventstore/app``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the packages and the manual page, if it exists, to a wheel.

        An editable installation uses the packages where they are.
        """
        if version == "editable":
            return
        for package in self.config["application"]:
            build_data["force_include"][package] = f"wfctl_eventstore/app/{package}"
        page = Path(self.root, _PAGE)
        if page.exists():
            build_data["shared_data"][str(page)] = "share/man/man1/wfctl.1"
