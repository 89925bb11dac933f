"""SSH signatures, made and checked by ssh-keygen(1) as git does with signed commits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from eventstore.private import make_own_folder
from service.errors import InvalidOption, NotFound, ServiceError
from service.root.disk import content_of, write_whole

#: What a signature is for; one made for git or for a file does not count for wfctl.
NAMESPACE = "wfctl"
#: Looked at before PATH, which anyone who starts wfctl has in his hands.
_PLACES = "/usr/bin:/bin:/usr/local/bin"
#: How OpenSSH ends, and what it says, where the login has no entry among the users.
_FATAL, _NAMELESS = 255, b"No user exists for uid"


class SignatureFailed(ServiceError):
    """ssh-keygen could not be run, or could not sign."""

    code = "signature_failed"


def sign(statement: bytes, key: Path) -> str:
    """Return the armoured signature of ``statement`` by a private key, or by the agent for a
    public one; raises `SignatureFailed`.
    """
    with tempfile.TemporaryDirectory(prefix="wfctl-") as folder:
        place = Path(folder) / "statement"
        place.write_bytes(statement)
        done = _keygen("-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(place))
        if done.returncode != 0:
            raise SignatureFailed(
                f"ssh-keygen did not sign with {key}: {_said(done)}. Expected a private key, or a "
                "public one whose key the SSH agent holds.",
                key=str(key),
            )
        return place.with_suffix(".sig").read_text()


def signer_of(signature: str, signers: Sequence[str]) -> str | None:
    """Return the first allowed signer whose key made the signature, None without one."""
    found = _asked("find-principals", signature, signers)
    names = found.stdout.decode(errors="replace").splitlines()
    return names[0] if found.returncode == 0 and names else None


def objection(
    statement: bytes, signature: str, signer: str, signers: Sequence[str], at: str
) -> str | None:
    """Return why the signature does not hold, None if it does.

    ``at`` is the time (``YYYY-MM-DDTHH:MM:SS…Z``) at which the signer must have been allowed.
    """
    moment = at[:19].translate({ord(letter): None for letter in "-:T"}) + "Z"
    who = ("-I", signer, "-n", NAMESPACE, "-O", f"verify-time={moment}")
    done = _asked("verify", signature, signers, *who, statement=statement)
    return None if done.returncode == 0 else f"the signature does not hold: {_said(done)}"


def fingerprint(statement: bytes, signature: str) -> str | None:
    """Return the fingerprint of the key that signed a statement; None if it signed another."""
    done = _asked("check-novalidate", signature, (), "-n", NAMESPACE, statement=statement)
    words = done.stdout.decode(errors="replace").split()
    return words[-1] if done.returncode == 0 and words else None


_Done = subprocess.CompletedProcess[bytes]


def _asked(
    what: str, signature: str, signers: Sequence[str], *more: str, statement: bytes = b""
) -> _Done:
    """Ask ssh-keygen about a signature, and about the lines of those who may sign."""
    lines = "".join(f"{line}\n" for line in signers)
    with tempfile.TemporaryDirectory(prefix="wfctl-") as folder:
        options = list(more)
        for option, name, content in (("-s", "signature", signature), ("-f", "signers", lines)):
            (Path(folder) / name).write_bytes(content.encode())
            options += [option, f"{folder}/{name}"]
        return _keygen("-Y", what, *options, statement=statement)


def _keygen(*arguments: str, statement: bytes = b"") -> _Done:
    """Run ssh-keygen to its end and return what it said.

    Raises `SignatureFailed` if it cannot work here: nothing is known of the signature then.
    """
    done = subprocess.run(
        [_found(), *arguments],
        input=statement,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    if done.returncode == _FATAL and done.stderr.startswith(_NAMELESS):
        raise SignatureFailed(
            f"ssh-keygen works only for logins that have a name; found uid {os.getuid()} without "
            "one, as in a container with a number of its own. Give it a name (a line in "
            "/etc/passwd), or call wfctl under a login that has one.",
            uid=os.getuid(),
        )
    return done


def _found() -> str:
    program = shutil.which("ssh-keygen", path=_PLACES) or shutil.which("ssh-keygen")
    if program is None:
        raise SignatureFailed(
            "consent by signature needs ssh-keygen, which was not found; install OpenSSH's client "
            "(Debian: apt install openssh-client)."
        )
    return program


def _said(done: _Done) -> str:
    text = (done.stderr or done.stdout).decode(errors="replace").strip()
    return text.splitlines()[-1] if text else f"exit code {done.returncode}"


#: Who signs: one name, as a line of allowed signers begins.
_NAME = re.compile(r"[^\s,*?!\"]+")


def make_key(path: Path, name: str, *, hardware: bool) -> None:
    """Let ssh-keygen make a key, which asks for the passphrase itself; raises `SignatureFailed`."""
    make_own_folder(path.parent)
    kind = "ed25519-sk" if hardware else "ed25519"
    asked = [_found(), "-q", "-t", kind, "-C", name, "-f", str(path)]
    done = subprocess.run(asked, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise SignatureFailed(
            f"ssh-keygen made no key at {path} (exit code {done.returncode}); what it said stands "
            "above.",
            key=str(path),
        )


def public_of(key: Path) -> str:
    """Return type and key of a public key's file, ``key.pub`` for a private one.

    Raises `NotFound` if there is no file, `InvalidOption` for another content.
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
    return public.startswith("sk-")


def is_open(key: Path) -> bool:
    """Whether a private key can be used without a passphrase by anyone who can read it."""
    return key.suffix != ".pub" and _keygen("-y", "-P", "", "-f", str(key)).returncode == 0


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
