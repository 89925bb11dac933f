"""A workflow root: the folder that holds ``.wfctl/``, found as git finds ``.git``."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from service.errors import InvalidOption, NoRoot

MARKER = ".wfctl"
#: The journals a log on SQLite may have; without a choice the file system decides.
JOURNALS = ("wal", "truncate")
_SQLITE = "sqlite:///"


class RootIs(StrEnum):
    """What happened to a root that is not where it was."""

    MOVED = "moved"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Root:
    """The paths of one workflow root.

    ``url`` names the log where it is kept elsewhere; ``journal`` is ``wal`` or ``truncate`` where
    it is not to be chosen by the file system.
    """

    path: Path
    url: str | None = None
    journal: str | None = None

    @property
    def folder(self) -> Path:
        """``.wfctl/``."""
        return self.path / MARKER

    @property
    def database(self) -> Path:
        """The log's file; a relative one in a URL is taken from the root.

        Raises `InvalidOption` for a URL of another kind.
        """
        if self.url is None:
            return self.folder / "events.db"
        if not self.url.startswith(_SQLITE) or self.url == _SQLITE:
            raise InvalidOption(
                f"expected a database URL {_SQLITE}PATH, found one of the kind "
                f"{self.url.partition(':')[0]!r}; this version keeps its log on SQLite only",
                kind=self.url.partition(":")[0],
            )
        return self.path / self.url.removeprefix(_SQLITE)

    @property
    def config_file(self) -> Path:
        """``config.toml``: workflow id, database URL, policies."""
        return self.folder / "config.toml"

    @property
    def sync_file(self) -> Path:
        """``sync.json``: the last version and digest of each file written."""
        return self.folder / "sync.json"

    @property
    def lock(self) -> Path:
        """The lock under which the root's files are written."""
        return self.folder / "lock"

    @property
    def drift(self) -> Path:
        """Where foreign versions of files are kept."""
        return self.folder / "drift"


@dataclass(frozen=True, slots=True)
class Config:
    """What ``config.toml`` holds."""

    workflow: str
    database_url: str | None = None
    journal: str | None = None

    @property
    def stream(self) -> str:
        """The stream of the staged workflow."""
        return f"workflow-{self.workflow}"


def find_root(start: Path) -> Root:
    """Return the nearest root at or above ``start``; raises `NoRoot`."""
    here = start.resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER / "config.toml").is_file():
            return Root(folder)
    raise NoRoot(here)


def read_config(root: Root) -> Config:
    """Return the root's configuration; raises `InvalidOption` naming what is wrong in it."""
    try:
        values: dict[str, Any] = tomllib.loads(root.config_file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{root.config_file}: not valid TOML: {error}") from error
    workflow, url = values.get("workflow"), values.get("database_url")
    journal = values.get("journal")
    if not isinstance(workflow, str) or not isinstance(url, str | None):
        raise InvalidOption(
            f'{root.config_file}: expected workflow = "…" and perhaps database_url = "…", both '
            f"text, found workflow = {workflow!r} and a {type(url).__name__}"
        )
    if journal not in (None, *JOURNALS):
        raise InvalidOption(
            f"{root.config_file}: expected journal = one of {', '.join(JOURNALS)}, "
            f"found {journal!r}"
        )
    return Config(workflow, url, journal)


def open_root(start: Path, url: str | None, journal: str | None = None) -> tuple[Root, Config]:
    """Return the nearest root and its configuration; what is given goes before what it says."""
    root = find_root(start)
    config = read_config(root)
    found = replace(root, url=url or config.database_url, journal=journal or config.journal)
    return found, config


def config_text(config: Config) -> str:
    """Return the text of ``config.toml``."""
    url = f"database_url = {json.dumps(config.database_url)}\n" if config.database_url else ""
    journal = f'journal = "{config.journal}"\n' if config.journal else ""
    return f'# written by wfctl init\nworkflow = "{config.workflow}"\n{url}{journal}'
