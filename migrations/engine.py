"""What a migration must be able to do with a database, whatever engine keeps it."""

from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection


class Engine(Protocol):
    """One database."""

    @property
    def place(self) -> str:
        """Its path or URL, without a password."""
        ...

    def exists(self) -> bool:
        """Whether there is anything to read."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """One transaction, in turn with other migrations."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that changes nothing and makes nobody wait."""
        ...

    def require_ours(self, connection: Connection) -> None:
        """Raises NotOurs for a database with tables of somebody else's."""
        ...
