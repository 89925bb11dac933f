"""URLs of databases on a server, with and without their passwords."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

#: Prefixes of a PostgreSQL URL. wfctl stores URLs with the first prefix.
SERVERS = ("postgresql+psycopg://", "postgresql://", "postgres://")
_SECRETS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)


def is_postgres_url(address: str) -> bool:
    """Return whether the address is a URL of PostgreSQL."""
    return address.startswith(SERVERS)


def libpq_url(address: str) -> str:
    """Return the database URL in the form that libpq, the PostgreSQL client library, accepts."""
    return f"postgresql://{_strip_scheme(address)}"


def url_without_password(address: str) -> str:
    """Return the database URL without passwords and other secrets, for printing and storing."""
    login, at, host, query = _split_url(address)
    shown = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _SECRETS]
    after = f"?{urlencode(shown, safe='/', quote_via=quote)}" if shown else ""
    return f"{SERVERS[0]}{login.partition(':')[0]}{at}{host}{after}"


def remove_default_url_user(address: str, login: str) -> str:
    """Return the database URL without its user name, if this is the server's default ``login``.

    Return a URL with any other user name unchanged.
    """
    found, at, host, query = _split_url(address)
    if not at or found.partition(":")[0] != login:
        return address
    return f"{SERVERS[0]}{host}{'?' if query else ''}{query}"


def has_password(address: str) -> bool:
    """Return whether a PostgreSQL URL contains a password or another secret."""
    login, _, _, query = _split_url(address)
    return bool(login.partition(":")[2]) or any(name in _SECRETS for name, _ in parse_qsl(query))


def _split_url(address: str) -> tuple[str, str, str, str]:
    """Split a database URL into its user part, the @ sign, the host part and the query.

    As in libpq, the user part may contain a `?`.
    """
    rest = _strip_scheme(address)
    begin = rest.partition("/")[0].find("@") + 1
    place, _, query = rest[begin:].partition("?")
    return *(rest[:begin] + place).rpartition("@"), query


def _strip_scheme(address: str) -> str:
    return address.partition("://")[2]
