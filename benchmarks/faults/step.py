"""Compute one step of a game, and record its start and end in the truth file.

`python3 step.py NAME --factor N [--inputs FILE …] [--outputs FILE …]`; runs without other modules.
The files `truth.txt`, `settings.json` and `once/` are next to this script, outside of the folder of
the tool. `settings.json` maps names of steps to seconds, and names the step that misbehaves.
"""

import argparse
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

GAME = Path(__file__).resolve().parent


def main() -> None:
    """Run the step, or misbehave as `settings.json` requires."""
    options = _options()
    settings = json.loads((GAME / "settings.json").read_text())
    behaviour = settings["behaviours"].get(options.name, "")
    if behaviour.endswith("daemon") and not options.is_child:
        subprocess.Popen([sys.executable, *sys.argv, "--is-child"], start_new_session=True)
        time.sleep(1)
        return
    if behaviour == "kill group" and _is_first_time(options.name):
        _record("start", options.name, _digest(options))
        os.killpg(0, signal.SIGKILL)
    seconds = settings["seconds"].get(options.name, settings["default"])
    _compute(options, seconds, closes=behaviour == "closing daemon")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--factor", default="3")
    parser.add_argument("--inputs", nargs="*", type=Path, default=[])
    parser.add_argument("--outputs", nargs="*", type=Path, default=[])
    parser.add_argument("--is-child", action="store_true")
    return parser.parse_args()


def _compute(options: argparse.Namespace, seconds: float, *, closes: bool) -> None:
    """Open the outputs, record the start, sleep, write the result and record the end.

    With ``closes``, the outputs are closed while the step sleeps.
    """
    digest = _digest(options)
    for path in options.outputs:
        path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.open("w") for path in options.outputs]
    for file in files:
        file.write("computing\n")
        file.flush()
        if closes:
            file.close()
    _record("start", options.name, digest)
    time.sleep(seconds)
    if closes:
        files = [path.open("a") for path in options.outputs]
    for file in files:
        file.write(f"{options.name} {digest}\n")
        file.close()
    _record("end", options.name, digest)


def _digest(options: argparse.Namespace) -> str:
    """Return a digest of the name, the parameter and the content of the inputs."""
    content = f"{options.name} {options.factor}\n".encode()
    content += b"".join(path.read_bytes() for path in options.inputs)
    return hashlib.sha256(content).hexdigest()[:16]


def _is_first_time(name: str) -> bool:
    """Return True at the first call for a step, and False later."""
    try:
        (GAME / "once" / name).mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def _record(word: str, name: str, digest: str) -> None:
    with (GAME / "truth.txt").open("a") as truth:
        fcntl.flock(truth, fcntl.LOCK_EX)
        truth.write(f"{word} {name} {os.getpid()} {time.monotonic():.3f} {digest}\n")
        truth.flush()
        os.fsync(truth.fileno())


if __name__ == "__main__":
    main()
