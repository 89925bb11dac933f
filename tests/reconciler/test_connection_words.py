"""Messages about an unreachable machine name its settings but no secrets."""

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


def test_secrets_of_a_connection_are_masked(tmp_path: Path) -> None:
    """The message has host, user and key path; passphrase and proxy command are masked."""
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
