"""The environment of an attempt's jobs: of its caller, the same however and by whom it is started.

A tmux server gives a new session its own environment, perhaps of weeks ago, and whoever starts a
monitor again has another one than who started the attempt. So an attempt's environment is kept in
its folder, for its owner alone, since it may hold secrets; its wrapper takes it from there before
anything else, and so do the checks of its results. What is named as a secret is never written: its
name alone is kept, and its value is that of the call that starts the monitor.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256

from eventstore.regular import read_regular
from lifecycle.payload import models as p
from reconciler.attempt.paths import AttemptPaths
from service.root.disk import replaced

#: What a shell says of itself, and what of wfctl is said to one call; no job has it of us.
_OF_THE_CALL = re.compile(r"PWD|OLDPWD|SHLVL|_|TMUX|TMUX_PANE|WFCTL_(?!PATIENCE$).*")
#: What belongs to a login or a terminal: an older one is of no use, so that of the call counts.
_OF_THE_LOGIN = re.compile(
    r"SSH_.*|XDG_SESSION_.*|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS|KRB5CCNAME|DISPLAY|XAUTHORITY"
    r"|TERM|TERM_PROGRAM.*|WINDOWID|COLUMNS|LINES|TMUX_TMPDIR|WFCTL_PATIENCE"
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


def of(attempt: AttemptPaths | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of what is run for an attempt, by a call that has ``environ``.

    It is the one that was kept; where none was, or no attempt is known, that of the call.
    """
    own = {name: value for name, value in environ.items() if not _OF_THE_CALL.fullmatch(name)}
    kept = None if attempt is None else _kept(attempt)
    if kept is None:
        return own
    now = {name: value for name, value in own.items() if not _is_lasting(name)}
    return {**{name: value for name, value in kept.items() if _is_lasting(name)}, **now}


def keep(attempt: AttemptPaths, environ: Mapping[str, str]) -> None:
    """Put the attempt's environment where its wrapper takes it up."""
    held = "".join(map(_entry, of(attempt, environ).items()))
    with replaced(attempt.environment_record, 0o600) as file:
        file.write(os.fsencode(held))


def told(attempt: AttemptPaths) -> p.JobEnvironment:
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
