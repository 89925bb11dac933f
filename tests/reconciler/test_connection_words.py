"""What is told of a machine that cannot be reached: where it is looked for, and no secret."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from reconciler.far import connection

SETTINGS = {
    "hostname": "login.hpc.example",
    "username": "ada",
    "key_filename": "/home/ada/.ssh/id_hpc",
    "passphrase": "correct horse battery",
    "proxy_command": "sshpass -p opensesame ssh gate.example",
}


def test_the_path_of_a_key_is_told_and_every_secret_is_masked(tmp_path: Path) -> None:
    """A log is passed on as the monitor does it."""
    submission = tmp_path / "submission.json"
    submission.write_text(json.dumps({"machine": {"remote_profile": SETTINGS}}))
    told = subprocess.run(
        [sys.executable, str(connection.__file__), str(submission)],
        input="".join(f"{name}: {value}\n" for name, value in SETTINGS.items()),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told == [
        "hostname: login.hpc.example",
        "username: ada",
        "key_filename: /home/ada/.ssh/id_hpc",
        "passphrase: ***",
        "proxy_command: ***",
    ]
