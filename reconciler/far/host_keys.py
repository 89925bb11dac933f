"""Connect only to machines whose host key is known, as ssh does.

DPDispatcher accepts any key. The key is checked before credentials are sent. Known keys are read
from the files that ssh reads, and from a file of wfctl.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

_SSH_CONFIG = "~/.ssh/config"
_USER_KNOWN_HOSTS, _SYSTEM_KNOWN_HOSTS = (
    "~/.ssh/known_hosts ~/.ssh/known_hosts2",
    "/etc/ssh/ssh_known_hosts",
)
#: Values of the ssh option ``StrictHostKeyChecking`` that allow the first connection to a new host.
_ACCEPTING_VALUES = frozenset({"accept-new", "no", "off"})


class RefusedHostKey(ConnectionError):
    """The key of a host is not known, or differs from the key that is known."""


def check_host_keys(session_class: Any) -> None:
    """Make DPDispatcher's SSH sessions connect only to machines with a known host key."""
    set_up = session_class._setup_ssh  # noqa: SLF001 - no public method connects

    def set_up_checked(own: Any) -> None:
        import paramiko

        start = paramiko.Transport.start_client

        def start_client(transport: Any, *args: Any, **options: Any) -> None:
            place = own.hostname, own.port
            _start_with_key_check(transport, place, lambda: start(transport, *args, **options))

        paramiko.Transport.start_client = start_client
        try:
            set_up(own)
        finally:
            paramiko.Transport.start_client = start

    session_class._setup_ssh = set_up_checked  # noqa: SLF001


def _start_with_key_check(
    transport: Any, place: tuple[str, int], start: Callable[[], None]
) -> None:
    """Start a connection to a machine, and check the key of the machine.

    ``place`` is the host name and the port. A new host is accepted if the user's SSH settings allow
    this. Otherwise raises `RefusedHostKey` if the key is not known.
    """
    host, port = place
    settings = _read_ssh_settings(host)
    name = host if port == 22 else f"[{host}]:{port}"
    files = _list_known_hosts_files(settings)
    found = [of for path in files for of in _read_host_keys(path, name)]
    known = [key for mark, key in found if not mark]
    revoked = [key for mark, key in found if mark]
    # A server has keys of several types. Request a type for which a key is known, because a key of
    # another type could not be compared.
    types = {known_type for key in known for known_type in _list_algorithms(key.get_name())}
    options = transport.get_security_options()
    options.key_types = sorted(options.key_types, key=lambda one: one not in types)
    start()
    key = transport.get_remote_server_key()
    if key in known and key not in revoked:
        return
    if not found and settings.get("stricthostkeychecking", "").lower() in _ACCEPTING_VALUES:
        _pin_key(name, key)
        return
    transport.close()
    raise RefusedHostKey(
        _describe_changed_key(name, key) if found else _describe_unknown_key(name, host, port, key)
    )


def _describe_unknown_key(name: str, host: str, port: int, key: Any) -> str:
    return (
        f"the host key of {name} is not known: {_fingerprint_of(key)}. Compare it with the "
        f"key that the administrators of the host publish, then accept it with `ssh -p {port} "
        f"{host}`"
    )


def _describe_changed_key(name: str, key: Any) -> str:
    return (
        f"the host key of {name} has changed: {_fingerprint_of(key)}. Ask the administrators "
        "of the host; if the new key is right, remove the old one with `ssh-keygen -R "
        f"'{name}'` and accept the new one"
    )


def _fingerprint_of(key: Any) -> str:
    """Return the type and the fingerprint of a host key, in the format of ssh."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def _list_algorithms(type_: str) -> tuple[str, ...]:
    return ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa") if type_ == "ssh-rsa" else (type_,)


def _read_ssh_settings(host: str) -> dict[str, str]:
    """Return the user's SSH settings for a host. The keys of the dict are in lower case."""
    import paramiko

    try:
        config = paramiko.SSHConfig.from_path(Path(_SSH_CONFIG).expanduser())
        return dict(config.lookup(host))
    except (OSError, paramiko.SSHException):
        return {}


def _wfctl_known_hosts_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "wfctl/known_hosts"


def _list_known_hosts_files(settings: dict[str, str]) -> Iterator[Path]:
    named = settings.get("userknownhostsfile", _USER_KNOWN_HOSTS).split()
    named += settings.get("globalknownhostsfile", _SYSTEM_KNOWN_HOSTS).split()
    yield from (Path(one).expanduser() for one in named)
    yield _wfctl_known_hosts_path()


def _read_host_keys(path: Path, name: str) -> Iterator[tuple[bool, Any]]:
    """Yield the keys of a host in a known_hosts file, each after a flag for revoked keys.

    Omits lines that cannot be read and keys of certificate authorities.
    """
    from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in map(str.strip, lines):
        is_revoked = line.startswith("@revoked ")
        try:
            entry = HostKeyEntry.from_line(line.removeprefix("@revoked ").strip())
        except (InvalidHostKey, ValueError):
            continue
        if entry is not None and _matches_host_pattern(name, entry.hostnames):
            yield is_revoked, entry.key


def _matches_host_pattern(name: str, patterns: Iterable[str]) -> bool:
    from paramiko import HostKeys

    is_named = False
    for pattern in patterns:
        if pattern.startswith("!") and fnmatchcase(name, _escape_brackets(pattern[1:])):
            return False
        if pattern.startswith("|"):
            is_named |= HostKeys.hash_host(name, pattern) == pattern
        else:
            is_named |= fnmatchcase(name, _escape_brackets(pattern))
    return is_named


def _escape_brackets(pattern: str) -> str:
    """Escape the brackets of an ssh pattern for `fnmatchcase`.

    Brackets have no special meaning in an ssh pattern.
    """
    return pattern.replace("[", "[[]")


def _pin_key(name: str, key: Any) -> None:
    """Add the key of a new host to wfctl's known_hosts file.

    Later connections then notice if the key changes.
    """
    path = _wfctl_known_hosts_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(f"{name} {key.get_name()} {key.get_base64()}\n")
