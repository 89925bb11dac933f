"""wfctl reads the tags of finished tasks while a worker moves the folders of the tasks."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

from reconciler.records.traces import is_tagged

TAG = f"{'a' * 40}_task_tag_finished"
JOB = "job"


def move_folders(copy: Path, aside: Path, is_over: Event) -> None:
    """Create task folders in the scratch copy, and move them away until the event is set."""
    count = 0
    while not is_over.is_set():
        for number in range(100):
            (copy / f"tasks/T={number}").mkdir()
        for number in range(100):
            (copy / f"tasks/T={number}").rename(aside / str(count))
            count += 1


def test_tags_are_read_while_a_worker_moves_task_folders(tmp_path: Path) -> None:
    """A task folder that disappears while wfctl reads the tags causes no error."""
    copy, aside, is_over = tmp_path / "copy", tmp_path / "aside", Event()
    for folder in (copy / "tasks", aside):
        folder.mkdir(parents=True)
    (copy / f".{JOB}.sub.run").write_text(TAG)
    worker = Thread(target=move_folders, args=(copy, aside, is_over))
    worker.start()
    try:
        assert not any(is_tagged(copy, JOB) for _ in range(200))
        (copy / "tasks" / TAG).touch()
        assert all(is_tagged(copy, JOB) for _ in range(20))
    finally:
        is_over.set()
        worker.join()
