"""What an agent was asked last in a root, so that it is never asked the same twice."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256

from eventstore.private import make_own_folder
from service.root.disk import content_of, write_whole
from service.root.known_roots import folder


def asked_before(root: str, question: str) -> bool:
    """Keep the question of a root; return whether it was the last one there already.

    Where nothing can be kept it counts as asked before: better no question than one without end.
    """
    path = folder().with_name("asked") / sha256(root.encode()).hexdigest()[:32]
    mark = sha256(question.encode()).hexdigest().encode()
    if content_of(path) == mark:
        return True
    with suppress(OSError):
        make_own_folder(path.parent)
        write_whole(path, mark)
        return False
    return True
