"""What is written down of a server is nobody's own."""

from __future__ import annotations

import os
import pwd

import pytest

from service.root.root import Config, config_text, kept

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
def test_a_login_of_whoever_calls_is_not_kept(url: str) -> None:
    """git keeps the configuration, and the next login connects as itself."""
    assert kept(url) == URLS[url]
    assert f'database_url = "{URLS[url]}"' in config_text(Config("w", url))


def test_whom_to_tell_is_kept_with_the_rest() -> None:
    """A configuration that is written anew loses nothing."""
    assert 'notify = "curl -d @- \\"x\\""' in config_text(Config("w", notify='curl -d @- "x"'))
