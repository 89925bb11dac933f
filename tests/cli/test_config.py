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
    """The stored URL has no user name, because git may share the file with other users."""
    assert without_secrets(url) == URLS[url]
    assert f'database_url = "{URLS[url]}"' in config_text(Config("w", url))


def test_notify_command_is_kept_in_the_configuration() -> None:
    """wfctl keeps the notify command when it rewrites the configuration."""
    assert 'notify = "curl -d @- \\"x\\""' in config_text(Config("w", notify='curl -d @- "x"'))
