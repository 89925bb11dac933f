"""The machine on which an attempt's jobs run, and the environment of these jobs."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import file_digest, sha256
from pathlib import Path
from pwd import getpwuid
from typing import Any

from eventstore.regular_files import read_regular
from lifecycle.payload import models as p
from lifecycle.words.commands import find_programs
from lifecycle.words.scheduler_queries import DEFAULT_QUERY_INTERVAL
from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import DamagedAttempt, UnusableSubmission
from service.root.atomic_files import open_replacement
from service.root.folder_entries import is_file
from service.root.paths_within_root import join_normalized_path

#: Batch types that a machine in a submission may name. wfctl passes the type to DPDispatcher
#: unchanged.
_SHELL, _SLURM = "shell", "slurm"
_BATCH_TYPES = frozenset({_SHELL, _SLURM, "pbs", "torque", "lsf", "sge"})
_CONTEXTS = {
    "localcontext": "LocalContext",
    "local": "LocalContext",
    "sshcontext": "SSHContext",
    "ssh": "SSHContext",
}


@dataclass(frozen=True, slots=True)
class ExecutionHost:
    """The machine on which an attempt's jobs run, without credentials.

    ``scratch`` is the folder on that machine in which the scratch copies are created.
    ``query_interval`` is the minimum number of seconds between two queries of its scheduler.
    """

    batch_type: str
    context_type: str
    scratch: str
    query_interval: int = DEFAULT_QUERY_INTERVAL

    @property
    def is_far(self) -> bool:
        """Return whether the files of the jobs are on another machine."""
        return self.context_type == "SSHContext"

    @property
    def has_scheduler(self) -> bool:
        """Return whether a scheduler, such as Slurm, runs the jobs of this machine."""
        return self.batch_type.lower() != _SHELL

    @property
    def has_slurm(self) -> bool:
        """Return whether the scheduler is Slurm.

        Slurm is the only scheduler that wfctl queries itself.
        """
        return self.batch_type.lower() == _SLURM

    def to_text(self) -> str:
        """Return this description of the machine as JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"


def extract_machine_types(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the batch type and the context type of the machine in a submission.

    Raises UnusableSubmission if wfctl does not support one of them.
    """
    context = _CONTEXTS.get(str(given.get("context_type")).lower())
    if context is None:
        raise UnusableSubmission(
            "machine.context_type",
            "LocalContext or SSHContext",
            given.get("context_type"),
            "wfctl does not support other contexts, because a lazy context would skip jobs that "
            "an earlier attempt finished.",
        )
    batch = given.get("batch_type")
    if str(batch).lower() not in _BATCH_TYPES:
        known = "Shell, Slurm, PBS, Torque, LSF or SGE"
        remedy = (
            "Name one of these types. wfctl runs each task as a separate job, so job arrays are "
            "not supported."
        )
        raise UnusableSubmission("machine.batch_type", known, batch, remedy)
    return str(batch), context


def load_execution_host(attempt: AttemptPaths) -> ExecutionHost:
    """Return the machine on which the jobs of a prepared attempt run.

    If no machine is recorded, returns this machine with a plain shell. Raises DamagedAttempt if the
    record cannot be read and no copy of it exists.
    """
    known = (_parse_machine(text) for text in genuine.iterate_machine_records(attempt))
    where = next((one for one in known if one is not None), None)
    given = (
        (genuine.read_attempt_submission(attempt) or {}).get("machine") if where is None else None
    )
    if isinstance(given, dict) and "remote_root" in given and "batch_type" in given:
        # If the machine was not recorded, the submission describes it, unless it only refers to a
        # file.
        where = ExecutionHost(*extract_machine_types(given), str(given["remote_root"]))
    if where is None:
        if os.path.lexists(attempt.machine_record):
            raise DamagedAttempt(
                attempt.stage, attempt.machine_record, "the file does not name a machine"
            )
        return ExecutionHost("Shell", "LocalContext", str(attempt.work))
    own = attempt.work.relative_to(attempt.root)
    if not where.is_far and where.scratch.endswith(f"/{own}"):
        # The scratch folder is in the workflow root. If the root was moved, the recorded path is
        # outdated.
        return replace(where, scratch=str(attempt.work))
    return where


def find_submission_digest(attempt: AttemptPaths) -> str:
    """Return the digest of the submission of an attempt that neither log nor folder describes.

    It is found by the copy of the attempt's machine next to the log, which names the scratch folder
    of the attempt. Returns an empty string if no such copy exists.
    """
    own = (f"/{attempt.work.relative_to(attempt.root)}", f"/{attempt.tag}")
    for digest, text in genuine.iterate_machine_copies(attempt.root):
        where = _parse_machine(text)
        if where is not None and where.scratch.endswith(own):
            return digest
    return ""


def _parse_machine(text: str) -> ExecutionHost | None:
    try:
        found = ExecutionHost(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    *names, interval = asdict(found).values()
    is_valid = all(isinstance(name, str) for name in names) and type(interval) is int
    return found if is_valid else None


def find_scratch_folder_obstacle(scratch: str, attempt: AttemptPaths) -> str | None:
    """Return the reason why the folder of an attempt cannot be created, or None.

    ``scratch`` is the path of that folder on this machine. A full disk is not a reason, because
    space may become free. The script `probe.sh` applies the same rule on other machines.
    """
    at = next(one for one in (Path(scratch), *Path(scratch).parents) if os.path.lexists(one))
    if at.is_dir() and os.access(at, os.W_OK | os.X_OK):
        return None
    user = f"user {os.geteuid()}"
    with suppress(KeyError):
        user = getpwuid(os.geteuid()).pw_name
    why = f"{user} may not write to {at}" if at.is_dir() else f"{at} is not a folder"
    return (
        f"the folder {scratch.removesuffix(f'/{attempt.tag}')} (remote_root) cannot be used: {why}"
    )


def find_machine_file(machine: Mapping[str, Any], folder: Path) -> Path | None:
    """Return the path of the file to which the description of a machine refers.

    A relative path is resolved against ``folder``. Returns None if the description refers to no
    file.
    """
    return join_normalized_path(folder, str(machine["$ref"])) if "$ref" in machine else None


#: Variables of the shell itself and of wfctl. They belong to one wfctl call and are not passed to a
#: job.
_OF_THE_CALL = re.compile(r"PWD|OLDPWD|SHLVL|_|TMUX|TMUX_PANE|WFCTL_(?!PATIENCE$).*")
#: Variables of a user session or a terminal. Recorded values may be outdated, so the jobs get the
#: values of the current wfctl call.
_OF_THE_LOGIN = re.compile(
    r"SSH_.*|XDG_SESSION_.*|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS|KRB5CCNAME|DISPLAY|XAUTHORITY"
    r"|TERM|TERM_PROGRAM.*|WINDOWID|COLUMNS|LINES|TMUX_TMPDIR|WFCTL_PATIENCE"
)
#: Variables that Slurm or an MPI launcher sets for a job. Users do not set variables with these
#: names as defaults.
_OF_A_SLURM_JOB = re.compile(
    r"SLURMD_.*|PMI2?_.*|PMIX_.*|SLURM_(JOBID|NODEID|LOCALID|PROCID|STEPID|NPROCS|NNODES|NODELIST"
    r"|GTIDS|TASK_PID|TASKS_PER_NODE|CLUSTER_NAME|EXPORT_ENV|DISTRIBUTION|OVERCOMMIT|PRIO_PROCESS"
    r"|RESTART_COUNT|THREADS_PER_CORE|UMASK|LAUNCH_NODE_IPADDR|NODE_ALIASES|TOPOLOGY_.*|(ARRAY|CPU"
    r"|CPUS|GPU|GPUS|HET|JOB|MEM|NTASKS|PACK|SHARDS|SRUN|STEP|SUBMIT|TRES)_.*)",
)
#: Variables of terminals, desktops, editors, agents and test runs. They influence no result.
_OF_THE_DESK = re.compile(
    r"XDG_.*|GNOME_.*|KDE_.*|DESKTOP_.*|SESSION_MANAGER|VTE_.*|KONSOLE_.*|ITERM_.*|WT_.*|COLORTERM"
    r"|LS_COLORS|GPG_.*|HIST.*|INVOCATION_ID|JOURNAL_STREAM|MAIL|PS1|PROMPT.*|EDITOR|VISUAL|PAGER"
    r"|LESS.*|SUDO_.*|VSCODE_.*|CLAUDE.*|AI_AGENT|CODEX_.*|CURSOR_.*|GEMINI_CLI|TMPDIR"
    r"|PYTEST_CURRENT_TEST|PYTEST_XDIST_.*|SLURM_.*|PBS_.*|LSB_.*|KITTY_.*|WEZTERM_.*|ALACRITTY_.*"
    r"|GHOSTTY_.*|TERMINATOR_.*|TILIX_.*|ZELLIJ.*|STY|WINDOW|(TERM|SHELL)_SESSION_ID|(INSIDE_)?EMACS.*"
    r"|NVIM.*|JPY_.*|JUPYTER_.*"
)
#: Maximum number of programs per attempt whose digests are recorded.
_PROGRAMS = 30
#: Maximum size in bytes of a program. No digest of a larger program is recorded.
_PROGRAM_BYTES = 256 * 10**6
#: Number of hexadecimal digits in the digest of an environment variable.
_DIGITS = 12
#: Names of variables that may hold a password, because they contain one of these words.
#: The pattern excludes AUTHOR, TOKENIZERS, KEYBOARD and similar words.
#: PWD and OLDPWD are never recorded.
_SECRET = re.compile(
    r".*(PASS|PHRASE|PWD|COOKIE|CRED|SECRET|JWT|WEBHOOK|CONN(ECTION)?_?STR|AUTH(?!OR(?!I))"
    r"|TOKEN(?!IZ)|KEY(?!BOARD|MAP)).*|(?!I_MPI_)(.*_)?(PAT|SAS|PEM|OTP|PIN|DSN)(_.*)?",
    re.IGNORECASE,
)
#: Values that may contain a password.
#: Examples are a proxy address, a connection string, a signed URL, a header and a private key.
_WITH_PASSWORD = re.compile(
    r"[a-z][a-z0-9+.-]*://[^/@\s]+@|bearer\s|-----BEGIN|private_key"
    r"|(account|access)key=|[?&;\s](sig|signature|token|password|pwd|secret|access_token)=",
    re.IGNORECASE,
)
#: Environment variables that contain no secret and influence how a program runs.
_READABLE = re.compile(
    r"PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHON[A-Z0-9]+|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV"
    r"|LOADEDMODULES|(OMP|MKL|OPENBLAS)_[A-Z_]+|CUDA_VISIBLE_DEVICES|LANG|LC_[A-Z]+|TZ|TMPDIR"
)
#: Code for a Python process: run a command in the environment that a file contains. The first
#: argument is the path of the file, and the command follows.
TAKE_UP = (
    "import os, sys; held = open(sys.argv[1], 'rb').read().split(b'\\0')[:-1]; "
    "own = {one: os.environb[one] for one in held if one in os.environb}; "
    "kept = dict(one.split(b'=', 1) for one in held if b'=' in one); "
    "os.execve(sys.argv[2], sys.argv[2:], own | kept)"
)
#: Code for a Python process in a tmux session: run a command in the environment of the caller. This
#: is necessary because the tmux server has its own environment.
BECOME = (
    "import os, sys\n"
    "try: held = open(sys.argv[1], 'rb').read().split(b'\\0')[:-1]\n"
    "except OSError: held = []\n"
    "own = {n: v for n, v in os.environb.items() if not held or n.startswith(b'TMUX')}\n"
    "given = dict(one.split(b'=', 1) for one in held)\n"
    "os.execvpe(sys.argv[2], sys.argv[2:], given | own)"
)


@contextmanager
def open_environment_memory_file(environ: Mapping[str, str]) -> Iterator[str]:
    """Keep environment variables in memory, and yield a path for reading them.

    Other processes of this user can read the path while the `with` block runs. No secret is written
    to a disk.
    """
    descriptor = os.memfd_create("environment")
    try:
        for name, value in environ.items():
            os.write(descriptor, os.fsencode(f"{name}={value}\0"))
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def build_job_environment(
    attempt: AttemptPaths | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment for the processes of an attempt.

    This is the recorded environment of the attempt, completed with variables of ``environ``, the
    environment of the current wfctl call. If no attempt or no recorded environment is known, the
    result is ``environ`` without the variables that belong to the call itself.
    """
    own = {name: value for name, value in environ.items() if not _OF_THE_CALL.fullmatch(name)}
    if "SLURM_JOB_ID" in own and attempt is not None and load_execution_host(attempt).has_slurm:
        # This call may run inside a Slurm job. The variables of that job must not reach the job
        # that this call submits.
        own = {name: value for name, value in own.items() if not _OF_A_SLURM_JOB.fullmatch(name)}
    kept = None if attempt is None else _read_kept_environment(attempt)
    if kept is None:
        return own
    lasting = {n: value for n, value in kept.items() if value is not None and _is_lasting(n)}
    hidden = {name for name, value in kept.items() if value is None}
    others = {n: value for n, value in own.items() if n in hidden or not _is_lasting(n)}
    return lasting | others


def write_environment(attempt: AttemptPaths, environ: Mapping[str, str]) -> None:
    """Write the environment of an attempt's jobs into the file that its script reads."""
    held = "".join(map(_format_entry, build_job_environment(attempt, environ).items()))
    with open_replacement(attempt.environment_record, 0o600) as file:
        file.write(os.fsencode(held))


def select_loggable_environment(attempt: AttemptPaths) -> p.JobEnvironment:
    """Return the part of an attempt's recorded environment that may be written to the log.

    This part contains no secrets.
    """
    held = _read_kept_environment(attempt) or {}
    lasting = {n: held[n] for n in sorted(held) if not _OF_THE_LOGIN.fullmatch(n)}
    whole = "".join(map(_format_entry, lasting.items()))
    python = shutil.which("python3", path=lasting.get("PATH") or os.defpath)
    return p.JobEnvironment(
        names=[_escape_text(name) for name in lasting],
        sha256=sha256(os.fsencode(whole)).hexdigest(),
        values={
            _escape_text(n): _escape_text(v or "")
            for n, v in lasting.items()
            if _READABLE.fullmatch(n)
        },
        python3=None if python is None else _escape_text(python),
    )


def digests_of_variables(attempt: AttemptPaths, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return a keyed digest of each environment variable, and the id of the key.

    A digest shows whether a variable changed without showing its value. The key prevents a reader
    from finding a short value by trying many values. Returns an empty dict if this user may not
    read the key.
    """
    try:
        key = _get_or_create_digest_key(attempt.root)
    except PermissionError:
        return {}
    given = build_job_environment(attempt, environ)
    names = sorted(name for name in given if not _is_session_variable(name))
    return {
        "variables": {
            _escape_text(name): _compute_keyed_digest(key, f"{name}={given[name]}")
            for name in names
        },
        "variables_key": _compute_keyed_digest(key, ""),
    }


def find_programs_of(
    attempt: AttemptPaths, commands: Iterable[object], environ: Mapping[str, str]
) -> list[p.FileDigest]:
    """Return path, size and digest of each program that the given commands start.

    Programs are searched on the PATH of the jobs, as a shell does. Omits files that are not
    regular, that are larger than `_PROGRAM_BYTES`, or that cannot be read.
    """
    path = build_job_environment(attempt, environ).get("PATH", os.defpath)
    names = [name for one in commands if isinstance(one, str) for name in find_programs(one)]
    names = [name for name in dict.fromkeys(names) if "/" not in name or name.startswith("/")]
    places = (shutil.which(name, path=path) for name in names[:_PROGRAMS])
    found = (_digest_of_program(place) for place in dict.fromkeys(filter(None, places)))
    return [one for one in found if one is not None]


def _digest_of_program(place: str) -> p.FileDigest | None:
    with suppress(OSError):
        if is_file(Path(place)) and Path(place).stat().st_size <= _PROGRAM_BYTES:
            with Path(place).open("rb") as stream:
                digest = file_digest(stream, "sha256").hexdigest()
            size = Path(place).stat().st_size
            return p.FileDigest(path=_escape_text(place), size=size, sha256=digest)
    return None


def _is_session_variable(name: str) -> bool:
    """Return whether an environment variable depends on the session, job or terminal.

    Such a variable is omitted from the digests, because a change in it does not matter.
    """
    matches = [kind.fullmatch(name) for kind in (_OF_THE_LOGIN, _OF_A_SLURM_JOB, _OF_THE_DESK)]
    return any(matches)


def _compute_keyed_digest(key: bytes, text: str) -> str:
    return hmac.digest(key, os.fsencode(text), "sha256").hex()[:_DIGITS]


def _get_or_create_digest_key(root: Path) -> bytes:
    """Return the secret key for digests of environment variables in a workflow root.

    Writes a random key if none exists. Only the owner of the root can read the key.
    """
    place = root / ".wfctl" / "environment.key"
    if not place.exists():
        with open_replacement(place, 0o600) as file:
            file.write(secrets.token_bytes(32))
    return read_regular(place)


def _read_kept_environment(attempt: AttemptPaths) -> dict[str, str | None] | None:
    """Return an attempt's recorded environment, or None if it cannot be read.

    The value of a secret variable is None, because secrets are recorded by name only.
    """
    try:
        held = os.fsdecode(read_regular(attempt.environment_record))
    except (FileNotFoundError, PermissionError):
        return None  # recorded by an older wfctl, or by another user with another home
    pairs = [one.partition("=") for one in held.split("\0")[:-1]]
    return {name: value if is_set else None for name, is_set, value in pairs}


def _is_lasting(name: str) -> bool:
    return not (_OF_THE_LOGIN.fullmatch(name) or _SECRET.fullmatch(name))


def _format_entry(variable: tuple[str, str | None]) -> str:
    name, value = variable
    is_secret = value is None or _SECRET.fullmatch(name) or _WITH_PASSWORD.search(value)
    return f"{name}\0" if is_secret else f"{name}={value}\0"


def _escape_text(value: str) -> str:
    return os.fsencode(value).decode(errors="replace")
