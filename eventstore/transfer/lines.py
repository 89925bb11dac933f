"""A stored event as one line of text that can be checked without this program."""

from eventstore.store import Raw


def exported(raw: Raw) -> str:
    """The text exactly as it was hashed, with hash and position put in before its last brace."""
    return f'{raw.text[:-1]},"hash":"{raw.hash}","position":{raw.position}}}'
