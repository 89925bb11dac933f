"""A person's own key for signatures, and the file that says who may sign: made, and looked at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from eventstore.private import make_own_folder
from service.consent.signature import SignatureFailed, run_keygen, started_keygen
from service.errors import InvalidOption, NotFound
from service.root.disk import content_of, write_whole

#: Who signs: one name, as a line of allowed signers begins.
_NAME = re.compile(r"[^\s,*?!\"]+")
#: Kinds of keys that a device keeps, which wants a touch for each signature.
_DEVICE = "sk-"


def folder() -> Path:
    """Return where the key and the signers' file of this login are."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path(os.environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "wfctl"


def make_key(path: Path, name: str, *, hardware: bool) -> None:
    """Let ssh-keygen make a key, which asks for the passphrase itself; raises `SignatureFailed`."""
    make_own_folder(path.parent)
    kind = "ed25519-sk" if hardware else "ed25519"
    code = started_keygen("-q", "-t", kind, "-C", name, "-f", str(path), stdout=sys.stderr)
    if code != 0:
        raise SignatureFailed(
            f"ssh-keygen made no key at {path} (exit code {code}); what it said stands above.",
            key=str(path),
        )


def public_of(key: Path) -> str:
    """Return type and key of a public key's file, ``key.pub`` for a private one.

    Raises `NotFound` where there is none, `InvalidOption` where it is none.
    """
    path = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    content = content_of(path)
    if content is None:
        raise NotFound(f"expected a public key at {path}; found nothing")
    words = content.decode(errors="replace").split()
    if len(words) < 2 or not words[0].startswith(("ssh-", "sk-", "ecdsa-")):
        raise InvalidOption(f"expected a public key of OpenSSH at {path}; found another content")
    return f"{words[0]} {words[1]}"


def needs_touch(public: str) -> bool:
    """Whether a device keeps the key, so that each signature wants a touch."""
    return public.startswith(_DEVICE)


def is_open(key: Path) -> bool:
    """Whether a private key can be used without a passphrase by whoever can read it."""
    if key.suffix == ".pub":
        return False
    done: subprocess.CompletedProcess[bytes] = run_keygen("-y", "-P", "", "-f", str(key))
    return done.returncode == 0


def signer_line(name: str, public: str) -> str:
    """Return the line that allows a key; raises `InvalidOption` for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise InvalidOption(
            f"--name: expected one word without commas and patterns, found {name!r}"
        )
    return f"{name} {public}"


def allow(path: Path, line: str) -> bool:
    """Add a line to a file of allowed signers; return whether it was not there."""
    text = (content_of(path) or b"").decode("utf-8", "surrogateescape")
    if line in text.splitlines():
        return False
    gap = "" if not text or text.endswith("\n") else "\n"
    make_own_folder(path.parent)
    write_whole(path, f"{text}{gap}{line}\n".encode("utf-8", "surrogateescape"))
    return True
