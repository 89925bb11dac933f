"""Writes the manual page: ``python -m tests.cli.manual_page``."""

from __future__ import annotations

from tests.cli.support import HERE, call

ON_FILE = HERE / "docs" / "wfctl.1"


def page() -> str:
    """Return the page as the program prints it now."""
    answer = call("help", "--man")
    assert answer.code == 0, answer
    return answer.out


if __name__ == "__main__":
    ON_FILE.write_text(page(), "utf-8")
