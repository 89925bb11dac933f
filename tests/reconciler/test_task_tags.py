"""DPDispatcher's tags of finished tasks, read while a worker moves the folders of its tasks."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

from reconciler.records.traces import is_tagged

TAG = f"{'a' * 40}_task_tag_finished"
JOB = "job"


def move_folders(copy: Path, aside: Path, is_over: Event) -> None:
    """Make folders of tasks in the scratch copy and move them away, again and again."""
    count = 0
    while not is_over.is_set():
        for number in range(100):
            (copy / f"tasks/T={number}").mkdir()
        for number in range(100):
            (copy / f"tasks/T={number}").rename(aside / str(count))
            count += 1


def test_a_task_folder_that_is_moved_meanwhile_stops_no_look_at_the_tags(tmp_path: Path) -> None:
    """A tag that exists is found beside the folders that come and go."""
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
