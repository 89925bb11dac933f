"""Import the PostgreSQL driver, which is installed with the extra `postgres`."""

import logging

from eventstore.errors import DriverMissing

try:
    import psycopg
    from psycopg import conninfo, pq
except ImportError as _error:
    raise DriverMissing("psycopg", str(_error)) from _error

__all__ = ["conninfo", "pq", "psycopg"]

# Silence the logger of the driver, because the driver also raises the errors that it logs. Without
# a handler, Python would print them.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
