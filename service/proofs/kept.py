"""Where a root keeps checkpoints: in ``.wfctl/checkpoints/``, and as tags of its repository."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eventstore.regular import read_regular
from service.errors import NotFound
from service.proofs.checkpoint import Checkpoint
from service.proofs.errors import UnreadableNote
from service.proofs.note import Note, read_note
from service.root.disk import write_whole
from service.root.git import git
from service.root.root import Root

_TAGS = "wfctl-checkpoint"
_END = ".checkpoint"
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class KeptNote:
    """A note that may be a checkpoint, and where it was found."""

    place: str
    content: bytes


def keep(root: Root, checkpoint: Checkpoint, note: Note) -> tuple[Path, Note]:
    """Keep a checkpoint in the root; return its file, and the note with all signatures it has.

    Those that were kept of the same checkpoint before stay.
    """
    path = root.below(f".wfctl/checkpoints/{_name(checkpoint)}{_END}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = _with_earlier(path, note)
    write_whole(path, str(whole).encode())
    return path, whole


def _with_earlier(path: Path, note: Note) -> Note:
    try:
        earlier = read_note(_content(path))
    except UnreadableNote:
        return note
    if earlier.text != note.text:
        return note
    every = {(one.name, one.key_id): one for one in (*earlier.signatures, *note.signatures)}
    return Note(note.text, tuple(every.values()))


def kept_files(root: Root) -> Iterator[KeptNote]:
    """Yield what lies in ``.wfctl/checkpoints/``."""
    for path in sorted(root.below(".wfctl/checkpoints").glob(f"*{_END}")):
        yield KeptNote(str(path.relative_to(root.path)), _content(path))


def _content(path: Path) -> bytes:
    """Return what a file holds; nothing of what is no file, or cannot be read: it is told then."""
    try:
        return read_regular(path)
    except OSError:
        return b""


def tag(root: Root, checkpoint: Checkpoint, note: Note) -> str:
    """Keep a checkpoint as an annotated tag and return its name; raises `NotFound` without git.

    A tag that is there already stays as it is.
    """
    name = f"{_TAGS}/{_name(checkpoint)}"
    if name not in {one.place.removeprefix("tag ") for one in kept_tags(root)}:
        done = git(root.path, "tag", "-a", "--cleanup=verbatim", "-F", "-", name, text=str(note))
        if done is None or done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip() if done is not None else "no git"
            raise NotFound(
                f"{root.path} has no git repository that takes a tag: {said}", path=str(root.path)
            )
    return name


def kept_tags(root: Root) -> Iterator[KeptNote]:
    """Yield the texts of the tags that hold checkpoints, none where there is no repository."""
    form = "--format=%(refname:strip=2)%00%(contents)%00"
    done = git(root.path, "for-each-ref", form, f"refs/tags/{_TAGS}/")
    if done is None or done.returncode != 0:
        return
    parts = done.stdout.split(b"\0")
    for name, content in zip(parts[::2], parts[1::2], strict=False):
        yield KeptNote(f"tag {name.decode(errors='replace').strip()}", content)


def _name(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.size:0{_DIGITS}}-{checkpoint.root.hex()[:12]}"
