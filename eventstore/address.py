"""The address of a log: a path, or the URL of a database on a server."""

from urllib.parse import parse_qsl, quote, urlencode

#: What a URL of PostgreSQL begins with; the first is the one that is written down.
SERVERS = ("postgresql+psycopg://", "postgresql://", "postgres://")
_SECRETS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)


def is_server(address: str) -> bool:
    """Whether the address is a URL of PostgreSQL."""
    return address.startswith(SERVERS)


def conninfo(address: str) -> str:
    """The URL as libpq takes it."""
    return f"postgresql://{_rest(address)}"


def public(address: str) -> str:
    """The URL without its password: all that is ever shown or kept of it."""
    login, at, host, query = _parts(address)
    shown = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _SECRETS]
    after = f"?{urlencode(shown, safe='/', quote_via=quote)}" if shown else ""
    return f"{SERVERS[0]}{login.partition(':')[0]}{at}{host}{after}"


def without_login(address: str, login: str) -> str:
    """The URL without its user where that is ``login``: the server takes whoever is logged in."""
    found, at, host, query = _parts(address)
    if not at or found.partition(":")[0] != login:
        return address
    return f"{SERVERS[0]}{host}{'?' if query else ''}{query}"


def has_password(address: str) -> bool:
    """Whether a URL of PostgreSQL holds a password."""
    login, _, _, query = _parts(address)
    return bool(login.partition(":")[2]) or any(name in _SECRETS for name, _ in parse_qsl(query))


def _parts(address: str) -> tuple[str, str, str, str]:
    """Login, @, place and query; as libpq reads it, a `?` may stand in the login."""
    rest = _rest(address)
    begin = rest.partition("/")[0].find("@") + 1
    place, _, query = rest[begin:].partition("?")
    return *(rest[:begin] + place).rpartition("@"), query


def _rest(address: str) -> str:
    return address.partition("://")[2]
