"""Connect to the remote machine that a submission names, with DPDispatcher's settings.

This script runs as a separate process in the Python that has DPDispatcher. Only this process reads
credentials, and it never prints them. It reads one JSON request on stdin and prints one JSON answer
on stdout: ``{"error": …}`` if the machine gave no answer, ``{"refused": …}`` if a person must
correct the connection settings first. If a submission is its argument, it copies stdin to stdout
instead, and removes the secrets of the machine's connection settings.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

#: Fields of a machine that may be printed. The other fields may be secret and stay in this process.
_PUBLIC_FIELDS = ("batch_type", "context_type", "local_root", "remote_root")
_MAX_REFERENCES = 8
#: Names of the DPDispatcher context in which jobs work in folders of this machine.
_LOCAL_CONTEXTS = ("localcontext", "local")
#: Connection settings that contain no secret and that a person needs in order to find a mistake.
#: All other settings may contain a password, for example in a command or by mistake.
_PUBLIC_SETTINGS = frozenset({"username", "hostname", "port", "key_filename"})


#: Maximum number of bytes that are read from the stderr of a script. The message shows the last 500
#: characters.
_MAX_ERROR_BYTES = 1 << 20


class RefusedConnection(Exception):
    """A connection that is impossible until a person corrects its settings."""


class UnknownHost(RefusedConnection):
    """The host name cannot be resolved: it is wrong, or the network is down."""


def main() -> int:
    """Answer the request on stdin. With an argument, copy stdin without secrets instead."""
    if len(sys.argv) > 1:
        return _copy_stdin_without_secrets(
            json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["machine"]
        )
    answers = sys.stdout
    # DPDispatcher writes log lines to stdout. They are redirected, because stdout must contain only
    # the answer.
    sys.stdout = sys.stderr
    request = json.load(sys.stdin)
    machine: dict[str, Any] = {}
    try:
        machine = resolve_references(request["machine"])
        if "script" in request:
            answer = _run_script(machine, request)
        elif "header" in request:
            answer = _render_job_script(machine, request)
        else:
            answer = {name: machine.get(name) for name in _PUBLIC_FIELDS}
            if (
                str(machine.get("context_type")).lower() in _LOCAL_CONTEXTS
                and "submission" in request
            ):
                answer |= _find_job_folder_and_names(request["submission"])
    except RefusedConnection as error:
        unknown = isinstance(error, UnknownHost)
        answer = {"refused": redact_secrets(str(error), machine), "is_unknown_host": unknown}
    except Exception as error:  # noqa: BLE001 - whatever it was, it is the answer
        answer = {"error": redact_secrets(f"{type(error).__name__}: {error}", machine)}
    json.dump(answer, answers)
    answers.flush()
    return 0


def _copy_stdin_without_secrets(machine: dict[str, Any]) -> int:
    try:
        machine = resolve_references(machine)
    except (OSError, ValueError, TypeError) as error:
        # If the connection settings cannot be read, secrets cannot be recognized. The text is
        # dropped to be safe.
        print(
            f"the details are hidden, because they may contain a secret: {type(error).__name__}",
            flush=True,
        )
        for _ in sys.stdin:
            pass
        return 1
    for line in sys.stdin:
        print(redact_secrets(line, machine), end="", flush=True)
    return 0


def resolve_references(machine: dict[str, Any]) -> dict[str, Any]:
    """Replace references to files in a machine's description by the contents of the files.

    Fields next to a reference override the fields in the file. Raises ValueError if the references
    are nested too deeply.
    """
    for _ in range(_MAX_REFERENCES):
        if "$ref" not in machine:
            return machine
        path = Path(machine["$ref"])
        beside = {key: value for key, value in machine.items() if key != "$ref"}
        machine = {**_load_machine_file(path), **beside}
        if "$ref" in machine:
            machine["$ref"] = str(path.parent / machine["$ref"])
    raise ValueError(f"more than {_MAX_REFERENCES} nested references")


def _load_machine_file(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix.lower() == ".json":
        found = json.loads(text)
    else:
        import yaml

        found = yaml.safe_load(text)
    if not isinstance(found, dict):
        raise TypeError(f"{path} must contain an object, found {type(found).__name__}")
    return found


def redact_secrets(text: str, machine: dict[str, Any]) -> str:
    """Return the text with every secret from the connection settings replaced by ``***``."""
    settings = machine.get("remote_profile")
    if isinstance(settings, dict):
        settings = {key: value for key, value in settings.items() if key not in _PUBLIC_SETTINGS}
    for value in sorted(_collect_secrets(settings), key=len, reverse=True):
        text = text.replace(value, "***")
    return text


def _collect_secrets(settings: Any) -> list[str]:
    if isinstance(settings, dict):
        return [value for entry in settings.values() for value in _collect_secrets(entry)]
    if isinstance(settings, list):
        return [value for entry in settings for value in _collect_secrets(entry)]
    # A value of at most three characters is not treated as a secret, because it would occur in many
    # texts. A message may quote a part of a command, so long words of a setting are treated as
    # secrets too.
    words = [word.strip("'\";") for word in str(settings).split()]
    return [str(settings), *(w for w in words if len(w) > 7)] if len(str(settings)) > 3 else []


def _run_script(machine: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    session = _open_session(machine.get("remote_profile", {}))
    try:
        stdin, stdout, stderr = session.exec_command("exec bash -s")
        stdout.channel.settimeout(request["timeout"])
        stdin.write(request["script"])
        stdin.channel.shutdown_write()
        answered = stdout.read(request["most"] + 1)
        if len(answered) > request["most"]:
            raise ValueError(f"the answer is longer than {request['most']} bytes")
        out = answered.decode(errors="replace")
        code = stdout.channel.recv_exit_status()
        err = stderr.read(_MAX_ERROR_BYTES).decode(errors="replace")
    finally:
        session.close()
    return {"code": code, "out": out, "err": redact_secrets(err, machine)}


def _render_job_script(machine: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Return the header and the environment lines of a job script, without a connection."""
    with _suppress_log_file():
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
def _suppress_log_file() -> Iterator[None]:
    """Let the code in the block import DPDispatcher without a log file as a side effect."""
    here = Path.cwd()
    with TemporaryDirectory() as place:
        os.chdir(place)
        from dpdispatcher.dlog import dlog

        yield
        dlog.handlers.clear()
        os.chdir(here)


def _open_session(profile: dict[str, Any]) -> Any:
    with _suppress_log_file():
        from dpdispatcher.contexts.ssh_context import SSHSession
        from paramiko import AuthenticationException
    host_keys = runpy.run_path(str(Path(__file__).with_name("host_keys.py")))
    host_keys["check_host_keys"](SSHSession)
    try:
        _check_key_file_and_host(profile)
        return SSHSession(**profile)
    except host_keys["RefusedHostKey"] as error:
        raise RefusedConnection(str(error)) from error
    except TypeError as error:
        raise RefusedConnection(f"remote_profile cannot be used: {error}") from error
    except (AuthenticationException, RuntimeError) as error:
        if not _is_login_refused(error):
            raise
        raise RefusedConnection(_describe_refused_login(profile, error)) from error


def _check_key_file_and_host(profile: dict[str, Any]) -> None:
    """Raise `RefusedConnection` if the key file or the host in the settings is missing."""
    key, host = profile.get("key_filename"), profile.get("hostname")
    if key and not Path(key).exists():
        why = f"the key file {Path(key).absolute()} (key_filename) does not exist"
        raise RefusedConnection(why)
    # With a proxy command, the proxy resolves the host name, so it need not be known here.
    if host is None or profile.get("proxy_command") is not None:
        return
    try:
        socket.getaddrinfo(host, None, socket.AF_INET)
    except socket.gaierror as error:
        if error.errno in _UNKNOWN_HOST_CODES:
            why = f"the host name {host} (hostname) is not known{_explain_alias(host)}"
            raise UnknownHost(why) from error


#: Error codes for an unknown host name. EAI_AGAIN is not included, because it means that the name
#: server did not answer.
_UNKNOWN_HOST_CODES = (socket.EAI_NONAME, socket.EAI_NODATA)


def _explain_alias(host: str) -> str:
    """Return a hint if a host name is only an alias in the user's SSH settings.

    Returns an empty string if it is not an alias.
    """
    import paramiko

    try:
        settings = paramiko.SSHConfig.from_path(Path("~/.ssh/config").expanduser())
    except (OSError, paramiko.SSHException):
        return ""
    if host not in settings.get_hostnames():
        return ""
    named = settings.lookup(host).get("hostname", "its HostName")
    return (
        f"; it is an alias in ~/.ssh/config, which wfctl does not read: write {named} as hostname"
    )


#: Words in error messages of Paramiko which show that a login was interrupted or timed out, not
#: refused.
_CONNECTION_LOST_WORDS = ("timeout", "timed out", "eof", "shut down")


def _is_login_refused(error: Exception) -> bool:
    """Return whether a login failed because the machine refused it or no key was usable.

    Paramiko raises the same error if a login was interrupted or timed out, so the message is
    checked.
    """
    words = f"{error} {error.__cause__ or ''}".lower()
    return "authentication" in words and not any(one in words for one in _CONNECTION_LOST_WORDS)


def _describe_refused_login(profile: dict[str, Any], error: Exception) -> str:
    user, host, key = (profile.get(one) for one in ("username", "hostname", "key_filename"))
    by = f" with the key {key}" if key else ""
    return f"{host} rejects the user {user}{by}: {error}"


def _find_job_folder_and_names(path: str) -> dict[str, Any]:
    """Return the folder in which the jobs of a submission work, and the names of the jobs."""
    with _suppress_log_file():
        from dpdispatcher.entrypoints.submit import load_submission_from_json
    submission = load_submission_from_json(path, allow_ref=True)
    submission.generate_jobs()
    jobs = [job.job_hash for job in submission.belonging_jobs]
    return {"folder": submission.machine.context.remote_root, "jobs": jobs}


if __name__ == "__main__":
    sys.exit(main())
