"""Where an attempt's jobs run, and the environment that they run in."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.private import read_regular
from lifecycle.payload import models as p
from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import DamagedAttempt, UnusableSubmission
from service.root.disk import replaced, seen_from

#: Batch types that can be passed through; those without a scheduler that is asked by name too.
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
    """Where an attempt's jobs run, without anything that lets one in.

    ``scratch`` is the folder below which its scratch copies are made, on that machine.
    """

    batch_type: str
    context_type: str
    scratch: str

    @property
    def is_far(self) -> bool:
        """Whether the files of the jobs lie on another machine."""
        return self.context_type == "SSHContext"

    @property
    def has_scheduler(self) -> bool:
        """Whether jobs wait in a queue."""
        return self.batch_type.lower() != _SHELL

    @property
    def has_slurm(self) -> bool:
        """Whether the scheduler is one that can be asked."""
        return self.batch_type.lower() == _SLURM

    def to_text(self) -> str:
        """Return the description as it is kept in the attempt's folder."""
        return json.dumps(asdict(self), indent=2) + "\n"


def checked(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return batch type and context type of a machine; raises UnusableSubmission."""
    context = _CONTEXTS.get(str(given.get("context_type")).lower())
    if context is None:
        raise UnusableSubmission(
            "machine.context_type",
            "LocalContext or SSHContext",
            given.get("context_type"),
            "A lazy context would skip what an earlier attempt finished; others keep no files.",
        )
    batch = given.get("batch_type")
    if str(batch).lower() not in _BATCH_TYPES:
        known = "Shell, Slurm, PBS, Torque, LSF or SGE"
        remedy = "Name one of these, each task a job of its own in place of a job array."
        raise UnusableSubmission("machine.batch_type", known, batch, remedy)
    return str(batch), context


def of(attempt: AttemptPaths) -> ExecutionHost:
    """Return the machine of a prepared attempt; a local shell if nothing is written down.

    Raises DamagedAttempt where what is written down cannot be read, and no copy is left.
    """
    known = (_machine(text) for text in genuine.machine_text(attempt))
    where = next((one for one in known if one is not None), None)
    given = (genuine.submission_of(attempt) or {}).get("machine") if where is None else None
    if isinstance(given, dict) and "remote_root" in given and "batch_type" in given:
        # It is as the attempt's submission names it, unless that refers to a file.
        where = ExecutionHost(*checked(given), str(given["remote_root"]))
    if where is None:
        if os.path.lexists(attempt.machine_record):
            raise DamagedAttempt(attempt.stage, attempt.machine_record, "it names no machine")
        return ExecutionHost("Shell", "LocalContext", str(attempt.work))
    own = attempt.work.relative_to(attempt.root)
    if not where.is_far and where.scratch.endswith(f"/{own}"):
        # It moves with the root.
        return replace(where, scratch=str(attempt.work))
    return where


def _machine(text: str) -> ExecutionHost | None:
    try:
        found = ExecutionHost(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return found if all(isinstance(value, str) for value in asdict(found).values()) else None


def reference(machine: Mapping[str, Any], folder: Path) -> Path | None:
    """Return the file that a machine is taken from, seen from ``folder``; None without one."""
    return seen_from(folder, str(machine["$ref"])) if "$ref" in machine else None


#: What a shell says of itself, and what of wfctl is said to one call; no job has it of us.
_OF_THE_CALL = re.compile(r"PWD|OLDPWD|SHLVL|_|TMUX|TMUX_PANE|WFCTL_(?!PATIENCE$).*")
#: What belongs to a login or a terminal: an older one is of no use, so that of the call counts.
_OF_THE_LOGIN = re.compile(
    r"SSH_.*|XDG_SESSION_.*|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS|KRB5CCNAME|DISPLAY|XAUTHORITY"
    r"|TERM|TERM_PROGRAM.*|WINDOWID|COLUMNS|LINES|TMUX_TMPDIR|WFCTL_PATIENCE"
)
#: Variables that Slurm, or a launcher of MPI, sets for a job. No default of a user has such a name.
_OF_A_SLURM_JOB = re.compile(
    r"SLURMD_.*|PMI2?_.*|PMIX_.*|SLURM_(JOBID|NODEID|LOCALID|PROCID|STEPID|NPROCS|NNODES|NODELIST"
    r"|GTIDS|TASK_PID|TASKS_PER_NODE|CLUSTER_NAME|EXPORT_ENV|DISTRIBUTION|OVERCOMMIT|PRIO_PROCESS"
    r"|RESTART_COUNT|THREADS_PER_CORE|UMASK|LAUNCH_NODE_IPADDR|NODE_ALIASES|TOPOLOGY_.*|(ARRAY|CPU"
    r"|CPUS|GPU|GPUS|HET|JOB|MEM|NTASKS|PACK|SHARDS|SRUN|STEP|SUBMIT|TRES)_.*)",
)
_SECRET = re.compile(
    r"(.*_)?(PASS|PASSWORD|PASSWD|PASSPHRASE|SECRETS?|TOKENS?|CREDENTIALS?|(API|ACCESS|PRIVATE)?_?KEY)(_.*)?",
    re.IGNORECASE,
)
#: What holds no secret and decides how a program runs.
_READABLE = re.compile(
    r"PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHON[A-Z0-9]+|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV"
    r"|LOADEDMODULES|(OMP|MKL|OPENBLAS)_[A-Z_]+|CUDA_VISIBLE_DEVICES|LANG|LC_[A-Z]+|TZ|TMPDIR"
)
#: For the wrapper: become the command that follows, in the environment that the file holds.
TAKE_UP = (
    "import os, sys; held = open(sys.argv[1], 'rb').read().split(b'\\0')[:-1]; "
    "own = {one: os.environb[one] for one in held if one in os.environb}; "
    "kept = dict(one.split(b'=', 1) for one in held if b'=' in one); "
    "os.execve(sys.argv[2], sys.argv[2:], own | kept)"
)
#: For a session of tmux, whose server has another environment: become the command that follows, in
#: the environment that the caller holds open.
BECOME = (
    "import os, sys\n"
    "try: held = open(sys.argv[1], 'rb').read().split(b'\\0')[:-1]\n"
    "except OSError: held = []\n"
    "own = {n: v for n, v in os.environb.items() if not held or n.startswith(b'TMUX')}\n"
    "given = dict(one.split(b'=', 1) for one in held)\n"
    "os.execvpe(sys.argv[2], sys.argv[2:], given | own)"
)


@contextmanager
def held(environ: Mapping[str, str]) -> Iterator[str]:
    """Hold an environment open in memory; yield the path by which a login's processes read it."""
    descriptor = os.memfd_create("environment")
    try:
        for name, value in environ.items():
            os.write(descriptor, os.fsencode(f"{name}={value}\0"))
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def environment_of(attempt: AttemptPaths | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of what is run for an attempt, by a call that has ``environ``.

    It is the one that was kept; where none was, or no attempt is known, that of the call.
    """
    own = {name: value for name, value in environ.items() if not _OF_THE_CALL.fullmatch(name)}
    if "SLURM_JOB_ID" in own and attempt is not None and of(attempt).has_slurm:
        # The job that this call runs in is another one than the job that it submits.
        own = {name: value for name, value in own.items() if not _OF_A_SLURM_JOB.fullmatch(name)}
    kept = None if attempt is None else _kept(attempt)
    if kept is None:
        return own
    lasting = {name: value for name, value in kept.items() if _is_lasting(name)}
    return lasting | {name: value for name, value in own.items() if not _is_lasting(name)}


def keep(attempt: AttemptPaths, environ: Mapping[str, str]) -> None:
    """Put the attempt's environment where its wrapper takes it up."""
    held = "".join(map(_entry, environment_of(attempt, environ).items()))
    with replaced(attempt.environment_record, 0o600) as file:
        file.write(os.fsencode(held))


def environment_told(attempt: AttemptPaths) -> p.JobEnvironment:
    """Return what the log may hold of the environment that was kept."""
    held = _kept(attempt) or {}
    lasting = {n: held[n] for n in sorted(held) if not _OF_THE_LOGIN.fullmatch(n)}
    whole = "".join(map(_entry, lasting.items()))
    python = shutil.which("python3", path=lasting.get("PATH", os.defpath))
    return p.JobEnvironment(
        names=[_text(name) for name in lasting],
        sha256=sha256(os.fsencode(whole)).hexdigest(),
        values={_text(n): _text(lasting[n]) for n in lasting if _READABLE.fullmatch(n)},
        python3=None if python is None else _text(python),
    )


def _kept(attempt: AttemptPaths) -> dict[str, str] | None:
    try:
        held = os.fsdecode(read_regular(attempt.environment_record))
    except (FileNotFoundError, PermissionError):
        return None  # of an older wfctl; of another login, whose home is not ours
    pairs = (one.partition("=") for one in held.split("\0")[:-1])
    return {name: value for name, _, value in pairs}


def _is_lasting(name: str) -> bool:
    return not (_OF_THE_LOGIN.fullmatch(name) or _SECRET.fullmatch(name))


def _entry(variable: tuple[str, str]) -> str:
    name, value = variable
    return f"{name}\0" if _SECRET.fullmatch(name) else f"{name}={value}\0"


def _text(value: str) -> str:
    return os.fsencode(value).decode(errors="replace")
