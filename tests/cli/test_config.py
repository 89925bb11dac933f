"""The shared configuration of a database server contains no personal user name."""

from __future__ import annotations

import os
import pwd

import pytest

from service.root.root import Config, config_text, without_secrets

ME = pwd.getpwuid(os.geteuid()).pw_name
URLS = {
    f"postgresql+psycopg://{ME}@db.example.org/wf?sslmode=require": (
        "postgresql+psycopg://db.example.org/wf?sslmode=require"
    ),
    f"postgresql+psycopg://{ME}:secret@db.example.org/wf": "postgresql+psycopg://db.example.org/wf",
    "postgresql+psycopg://some-role@db.example.org/wf": (
        "postgresql+psycopg://some-role@db.example.org/wf"
    ),
    "sqlite:///events.db": "sqlite:///events.db",
}


@pytest.mark.parametrize("url", URLS)
def test_user_name_of_the_caller_is_not_stored(url: str) -> None:
    """Git may share the configuration, and each user connects under their own name."""
    assert without_secrets(url) == URLS[url]
    assert f'database_url = "{URLS[url]}"' in config_text(Config("w", url))


def test_notify_command_is_kept_in_the_configuration() -> None:
    """Rewriting the configuration preserves the command."""
    assert 'notify = "curl -d @- \\"x\\""' in config_text(Config("w", notify='curl -d @- "x"'))
