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
_SQLITE = "sqlite:///"


class RootIs(StrEnum):
    """What happened to a root that is not where it was."""

    MOVED = "moved"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Root:
    """The paths of one workflow root. ``url`` names the log where it is kept elsewhere."""

    path: Path
    url: str | None = None

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
    if not isinstance(workflow, str) or not isinstance(url, str | None):
        raise InvalidOption(
            f'{root.config_file}: expected workflow = "…" and perhaps database_url = "…", both '
            f"text, found workflow = {workflow!r} and a {type(url).__name__}"
        )
    return Config(workflow, url)


def open_root(start: Path, url: str | None) -> tuple[Root, Config]:
    """Return the nearest root and its configuration; ``url`` goes before the configured one."""
    root = find_root(start)
    config = read_config(root)
    return replace(root, url=url or config.database_url), config


def config_text(config: Config) -> str:
    """Return the text of ``config.toml``."""
    url = f"database_url = {json.dumps(config.database_url)}\n" if config.database_url else ""
    return f'# written by wfctl init\nworkflow = "{config.workflow}"\n{url}'
