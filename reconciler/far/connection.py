"""Reaches the machine that a submission names, as DPDispatcher would.

Run as a process of its own, by the Python that has DPDispatcher: this is the only place where
credentials are read, and nothing of them leaves it. It takes one JSON request on stdin and gives
one JSON answer on stdout, ``{"error": …}`` if it got none, ``{"refused": …}`` if a person must
correct the connection settings first. Called with a submission as its
argument it passes text on instead, from stdin to stdout, without the secrets of the machine's
connection settings.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

#: What may be told of a machine; everything else of its description stays here.
_TOLD = ("batch_type", "context_type", "local_root", "remote_root")
_REFERENCES = 8
#: Names of the context whose jobs work in folders of this machine.
_LOCAL = ("localcontext", "local")
#: Connection settings that let nobody in, and that a person needs to find a mistake. A command may
#: hold a password, and any other setting one that was put into the wrong place.
_PUBLIC = frozenset({"username", "hostname", "key_filename"})


class RefusedConnection(Exception):
    """A connection that cannot be made before a person corrects its settings."""


class UnknownHost(RefusedConnection):
    """A host name that is not known here: a mistake, or a network that is away."""


def main() -> int:
    """Answer the request on stdin, or pass the text on stdin on."""
    if len(sys.argv) > 1:
        return _pass_on(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["machine"])
    answers = sys.stdout
    # DPDispatcher logs to stdout, where the answer alone belongs.
    sys.stdout = sys.stderr
    request = json.load(sys.stdin)
    machine: dict[str, Any] = {}
    try:
        machine = resolved(request["machine"])
        if "script" in request:
            answer = _run(machine, request)
        elif "header" in request:
            answer = _render(machine, request)
        else:
            answer = {name: machine.get(name) for name in _TOLD}
            if str(machine.get("context_type")).lower() in _LOCAL and "submission" in request:
                answer |= _describe_submission(request["submission"])
    except RefusedConnection as error:
        unknown = isinstance(error, UnknownHost)
        answer = {"refused": redacted(str(error), machine), "is_unknown_host": unknown}
    except Exception as error:  # noqa: BLE001 - whatever it was, it is the answer
        answer = {"error": redacted(f"{type(error).__name__}: {error}", machine)}
    json.dump(answer, answers)
    answers.flush()
    return 0


def _pass_on(machine: dict[str, Any]) -> int:
    try:
        machine = resolved(machine)
    except (OSError, ValueError, TypeError) as error:
        # Nothing could be told from a secret, so nothing is passed on.
        print(f"nothing of what follows is shown: {type(error).__name__}", flush=True)
        for _ in sys.stdin:
            pass
        return 1
    for line in sys.stdin:
        print(redacted(line, machine), end="", flush=True)
    return 0


def resolved(machine: dict[str, Any]) -> dict[str, Any]:
    """Follow the references of a machine; what stands beside one wins over it."""
    for _ in range(_REFERENCES):
        if "$ref" not in machine:
            return machine
        path = Path(machine["$ref"])
        beside = {key: value for key, value in machine.items() if key != "$ref"}
        machine = {**_loaded(path), **beside}
        if "$ref" in machine:
            machine["$ref"] = str(path.parent / machine["$ref"])
    raise ValueError(f"more than {_REFERENCES} references, one after another")


def _loaded(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix.lower() == ".json":
        found = json.loads(text)
    else:
        import yaml

        found = yaml.safe_load(text)
    if not isinstance(found, dict):
        raise TypeError(f"{path} must hold an object, found {type(found).__name__}")
    return found


def redacted(text: str, machine: dict[str, Any]) -> str:
    """Return the text without the secrets of the machine's connection settings."""
    settings = machine.get("remote_profile")
    if isinstance(settings, dict):
        settings = {key: value for key, value in settings.items() if key not in _PUBLIC}
    for value in sorted(_values(settings), key=len, reverse=True):
        text = text.replace(value, "***")
    return text


def _values(settings: Any) -> list[str]:
    if isinstance(settings, dict):
        return [value for entry in settings.values() for value in _values(entry)]
    if isinstance(settings, list):
        return [value for entry in settings for value in _values(entry)]
    # A short word or number could stand anywhere; no secret is that short. A command is told in
    # other words by those who run it, so each word of it counts too.
    words = [word.strip("'\";") for word in str(settings).split()]
    return [str(settings), *(w for w in words if len(w) > 7)] if len(str(settings)) > 3 else []


def _run(machine: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    session = _session(machine.get("remote_profile", {}))
    try:
        stdin, stdout, stderr = session.exec_command("exec bash -s")
        stdout.channel.settimeout(request["timeout"])
        stdin.write(request["script"])
        stdin.channel.shutdown_write()
        out = stdout.read().decode(errors="replace")
        code = stdout.channel.recv_exit_status()
        err = stderr.read().decode(errors="replace")
    finally:
        session.close()
    return {"code": code, "out": out, "err": redacted(err, machine)}


def _render(machine: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Return the header and the environment of a job script; no machine is contacted."""
    with _without_log():
        from dpdispatcher.machine import Machine
        from dpdispatcher.submission import Job, Resources, Task
    with TemporaryDirectory() as place:
        here = {"context_type": "LocalContext", "local_root": place, "remote_root": place}
        made = Machine.load_from_dict({**machine, **here, "remote_profile": {}})
        made.context.remote_root = "."
        header, environment = (
            Job([Task("true", ".")], resources=Resources.load_from_dict(request[of]), machine=made)
            for of in ("header", "environment")
        )
        head = f"{made.gen_script_header(header)}\n{made.gen_script_custom_flags_lines(header)}"
        return {"header": head, "environment": made.gen_script_env(environment)}


@contextmanager
def _without_log() -> Iterator[None]:
    """Let DPDispatcher be imported: it writes a log into the current folder."""
    here = Path.cwd()
    with TemporaryDirectory() as place:
        os.chdir(place)
        from dpdispatcher.dlog import dlog

        yield
        dlog.handlers.clear()
        os.chdir(here)


def _session(profile: dict[str, Any]) -> Any:
    with _without_log():
        from dpdispatcher.contexts.ssh_context import SSHSession
        from paramiko import AuthenticationException
    try:
        _check_names(profile)
        return SSHSession(**profile)
    except TypeError as error:
        raise RefusedConnection(f"remote_profile cannot be used: {error}") from error
    except (AuthenticationException, RuntimeError) as error:
        if not _is_login_refused(error):
            raise
        raise RefusedConnection(_refused_login(profile, error)) from error


def _check_names(profile: dict[str, Any]) -> None:
    """Raise `RefusedConnection` if the settings name a key or a host that does not exist."""
    key, host = profile.get("key_filename"), profile.get("hostname")
    if key and not Path(key).exists():
        why = f"the key file {Path(key).absolute()} (key_filename) does not exist"
        raise RefusedConnection(why)
    # A proxy's command finds the host itself.
    if host is None or profile.get("proxy_command") is not None:
        return
    try:
        socket.getaddrinfo(host, None, socket.AF_INET)
    except socket.gaierror as error:
        if error.errno in _UNKNOWN_HOST:
            why = f"the host name {host} (hostname) is not known{_alias(host)}"
            raise UnknownHost(why) from error


#: A name server that is away says EAI_AGAIN: that is no answer.
_UNKNOWN_HOST = (socket.EAI_NONAME, socket.EAI_NODATA)


def _alias(host: str) -> str:
    """Return what to write for a host name that is an alias of the user's SSH settings."""
    import paramiko

    try:
        settings = paramiko.SSHConfig.from_path(Path("~/.ssh/config").expanduser())
    except (OSError, paramiko.SSHException):
        return ""
    if host not in settings.get_hostnames():
        return ""
    named = settings.lookup(host).get("hostname", "its HostName")
    return f"; it is an alias of ~/.ssh/config, which is not read: write {named} as hostname"


#: Words of Paramiko for a login that was cut off or got no answer in time.
_CUT_OFF = ("timeout", "timed out", "eof", "shut down")


def _is_login_refused(error: Exception) -> bool:
    """Return whether the machine, or the lack of a usable key, refused the login.

    A login that was cut off, or got no answer in time, is raised as a failed one too.
    """
    words = f"{error} {error.__cause__ or ''}".lower()
    return "authentication" in words and not any(one in words for one in _CUT_OFF)


def _refused_login(profile: dict[str, Any], error: Exception) -> str:
    user, host, key = (profile.get(one) for one in ("username", "hostname", "key_filename"))
    by = f" with the key {key}" if key else ""
    return f"{host} refuses the user {user}{by}: {error}"


def _describe_submission(path: str) -> dict[str, Any]:
    """Return the folder in which the jobs of a submission work, and the names of the jobs."""
    with _without_log():
        from dpdispatcher.entrypoints.submit import load_submission_from_json
    submission = load_submission_from_json(path, allow_ref=True)
    submission.generate_jobs()
    jobs = [job.job_hash for job in submission.belonging_jobs]
    return {"folder": submission.machine.context.remote_root, "jobs": jobs}


if __name__ == "__main__":
    sys.exit(main())
