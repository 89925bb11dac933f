"""The roots in which this login wrote, kept outside of each: a link by the digest of its path."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from eventstore.private import make_own_folder


def folder() -> Path:
    """Return where they are kept."""
    home = Path(os.environ.get("HOME", "~"))
    base = os.environ.get("XDG_STATE_HOME") or str(home / ".local/state")
    return Path(base).expanduser() / "wfctl" / "roots"


def remember(root: Path) -> None:
    """Keep that there is a root; where nothing can be kept it is not listed, and works as well."""
    link = folder() / sha256(os.fsencode(root)).hexdigest()[:32]
    with suppress(OSError):
        if os.path.lexists(link):
            return
        make_own_folder(link.parent)
        # A link is made whole or not at all, and needs no second process to be told apart.
        link.symlink_to(root, target_is_directory=True)


def known_roots() -> list[Path]:
    """Return the folders that are roots still, in the order of their paths; nothing is written."""
    try:
        found = [link.readlink() for link in folder().iterdir()]
    except OSError:
        return []
    return sorted(root for root in found if (root / ".wfctl" / "config.toml").is_file())
