"""Create and check SSH signatures with ssh-keygen, as git does for signed commits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from eventstore.private_files import create_owner_only_folder
from service.errors import InvalidOption, NotFound, ServiceError
from service.root.atomic_files import content_of, write_whole

#: Namespace of wfctl's signatures. A signature that was made for git or for a file is not valid for
#: wfctl.
NAMESPACE = "wfctl"
#: Folders to search for ssh-keygen before PATH, because the caller could manipulate PATH.
_PLACES = "/usr/bin:/bin:/usr/local/bin"
#: Exit code and error message of OpenSSH if the user id has no user name.
_FATAL, _NAMELESS = 255, b"No user exists for uid"


class SignatureFailed(ServiceError):
    """ssh-keygen cannot run or cannot sign."""

    code = "signature_failed"


def sign(statement: bytes, key: Path) -> str:
    """Return the SSH signature of ``statement``, made with the given key.

    If ``key`` is a public key, the SSH agent signs with its private key. Raises `SignatureFailed`
    if ssh-keygen cannot sign.
    """
    with tempfile.TemporaryDirectory(prefix="wfctl-") as folder:
        place = Path(folder) / "statement"
        place.write_bytes(statement)
        done = _run_keygen("-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(place))
        if done.returncode != 0:
            raise SignatureFailed(
                f"ssh-keygen could not sign with the key {key}: {_last_output_line(done)}. "
                "Use a private key, or a public key whose private key is in the SSH agent.",
                key=str(key),
            )
        return place.with_suffix(".sig").read_text()


def find_signer(signature: str, signers: Sequence[str]) -> str | None:
    """Return the name of the allowed signer whose key made the signature, or None.

    If there are several, return the first one.
    """
    found = _query_signature("find-principals", signature, signers)
    names = found.stdout.decode(errors="replace").splitlines()
    return names[0] if found.returncode == 0 and names else None


def explain_invalid_signature(
    statement: bytes, signature: str, signer: str, signers: Sequence[str], at: str
) -> str | None:
    """Return the reason why a signature is invalid, or None if it is valid.

    ``signer`` must have been allowed to sign at the time ``at`` (``YYYY-MM-DDTHH:MM:SS…Z``).
    """
    moment = at[:19].translate({ord(letter): None for letter in "-:T"}) + "Z"
    who = ("-I", signer, "-n", NAMESPACE, "-O", f"verify-time={moment}")
    done = _query_signature("verify", signature, signers, *who, statement=statement)
    return (
        None if done.returncode == 0 else f"the signature is not valid: {_last_output_line(done)}"
    )


def find_fingerprint(statement: bytes, signature: str) -> str | None:
    """Return the fingerprint of the key that signed the statement.

    Return None if the signature does not fit the statement.
    """
    done = _query_signature("check-novalidate", signature, (), "-n", NAMESPACE, statement=statement)
    words = done.stdout.decode(errors="replace").split()
    return words[-1] if done.returncode == 0 and words else None


_Done = subprocess.CompletedProcess[bytes]


def _query_signature(
    what: str, signature: str, signers: Sequence[str], *more: str, statement: bytes = b""
) -> _Done:
    """Run ssh-keygen to examine a signature, and return the completed process.

    ``what`` is the name of the operation. ``signers`` are lines of an allowed-signers file.
    """
    lines = "".join(f"{line}\n" for line in signers)
    with tempfile.TemporaryDirectory(prefix="wfctl-") as folder:
        options = list(more)
        for option, name, content in (("-s", "signature", signature), ("-f", "signers", lines)):
            (Path(folder) / name).write_bytes(content.encode())
            options += [option, f"{folder}/{name}"]
        return _run_keygen("-Y", what, *options, statement=statement)


def _run_keygen(*arguments: str, statement: bytes = b"") -> _Done:
    """Run ssh-keygen and return the completed process.

    Raises `SignatureFailed` if the user id has no user name. The validity of a signature is then
    unknown.
    """
    done = subprocess.run(
        [_find_keygen(), *arguments],
        input=statement,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    if done.returncode == _FATAL and done.stderr.startswith(_NAMELESS):
        raise SignatureFailed(
            f"ssh-keygen works only for user accounts with a name, but the user ID {os.getuid()} "
            "has no name (for example in a container that runs with its own user ID). Add a line "
            "for this user ID to /etc/passwd, or run wfctl under a user account with a name.",
            uid=os.getuid(),
        )
    return done


def _find_keygen() -> str:
    program = shutil.which("ssh-keygen", path=_PLACES) or shutil.which("ssh-keygen")
    if program is None:
        raise SignatureFailed(
            "consent by signature needs the program ssh-keygen, which is not installed. Install "
            "the OpenSSH client (Debian: apt install openssh-client)."
        )
    return program


def _last_output_line(done: _Done) -> str:
    text = (done.stderr or done.stdout).decode(errors="replace").strip()
    return text.splitlines()[-1] if text else f"exit code {done.returncode}"


#: Pattern of a signer's name at the start of a line in an allowed-signers file.
_NAME = re.compile(r"[^\s,*?!\"]+")


def make_key(path: Path, name: str, *, hardware: bool) -> None:
    """Create an SSH key with ssh-keygen, which asks the user for a passphrase.

    With ``hardware``, the key is stored on a security key. Raises `SignatureFailed` if this fails.
    """
    create_owner_only_folder(path.parent)
    kind = "ed25519-sk" if hardware else "ed25519"
    asked = [_find_keygen(), "-q", "-t", kind, "-C", name, "-f", str(path)]
    done = subprocess.run(asked, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise SignatureFailed(
            f"ssh-keygen did not create a key at {path} (exit code {done.returncode}). The "
            "message of ssh-keygen is shown above.",
            key=str(path),
        )


def read_public_key(key: Path) -> str:
    """Return the type and the key from the public key file of an SSH key.

    For a private key ``key``, read the file ``key.pub``. Raises `NotFound` if the file does not
    exist, and `InvalidOption` if it contains no public key.
    """
    path = key if key.suffix == ".pub" else key.with_name(f"{key.name}.pub")
    content = content_of(path)
    if content is None:
        raise NotFound(
            f"the file {path}, which should contain the public key, does not exist. Name an "
            "existing key"
        )
    words = content.decode(errors="replace").split()
    if len(words) < 2 or not words[0].startswith(("ssh-", "sk-", "ecdsa-")):
        raise InvalidOption(f"{path} is not a public key of OpenSSH")
    return f"{words[0]} {words[1]}"


def needs_touch(public: str) -> bool:
    """Return whether the key is on a security device that a person must touch to sign."""
    return public.startswith("sk-")


def is_unprotected_key(key: Path) -> bool:
    """Return whether a private key has no passphrase."""
    return key.suffix != ".pub" and _run_keygen("-y", "-P", "", "-f", str(key)).returncode == 0


def signer_line(name: str, public: str) -> str:
    """Return a line for an allowed-signers file, with the name and the public key.

    Raises `InvalidOption` for an invalid name.
    """
    if not _NAME.fullmatch(name):
        raise InvalidOption(
            "the option --name accepts one word without commas and wildcards, but the given name "
            f"is {name!r}"
        )
    return f"{name} {public}"


def allow_signer(path: Path, line: str) -> bool:
    """Add a line to an allowed-signers file, unless the file already contains the line.

    Return whether the line was added.
    """
    text = (content_of(path) or b"").decode("utf-8", "surrogateescape")
    if line in text.splitlines():
        return False
    gap = "" if not text or text.endswith("\n") else "\n"
    create_owner_only_folder(path.parent)
    write_whole(path, f"{text}{gap}{line}\n".encode("utf-8", "surrogateescape"))
    return True
