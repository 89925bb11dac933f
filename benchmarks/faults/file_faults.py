"""Faults of files: inputs, parameters, results or the tool's state change."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.faults.game import Game
from benchmarks.faults.game_processes import kill_all
from benchmarks.faults.process_faults import wait_for_middle
from benchmarks.faults.work import EDITED_FACTOR, FACTOR, RESULT, find_dependents, parameter_of


def edit_input(game: Game) -> None:
    """Edit an input of the middle step, after the step has read it."""
    wait_for_middle(game)
    game.changed_files.append("settings.txt")
    game.sources["settings.txt"] = "edited settings\n"
    (game.folder / "settings.txt").write_text(game.sources["settings.txt"])


def edit_parameter(game: Game) -> None:
    """Edit the parameter of the middle step in the tool's own file, after the work has ended.

    Raises RuntimeError if no file contains the parameter.
    """
    game.finish_driver()
    game.note_fault()
    name = game.work.focus
    old, new = parameter_of(name, FACTOR), parameter_of(name, EDITED_FACTOR)
    files = [path for path in game.own_files if old in path.read_text(errors="replace")]
    if not files:
        raise RuntimeError(f"expected a file of the tool with {old!r}, found none")
    for path in files:
        path.write_text(path.read_text().replace(old, new))
    game.changed_files += [path.name for path in files]
    game.factors[name] = EDITED_FACTOR


def truncate_output(game: Game) -> None:
    """Truncate the output of the middle step, after the work has ended."""
    game.finish_driver()
    game.note_fault()
    output = game.folder / game.work.focus / RESULT
    output.write_bytes(output.read_bytes()[:-8])


def clean_results(game: Game) -> None:
    """Delete the folders with the results of all steps, after the work has ended."""
    game.finish_driver()
    game.note_fault()
    for step in game.work.steps:
        shutil.rmtree(game.folder / step.name)


def lose_state(game: Game) -> None:
    """Kill everything while the middle step runs, and delete the tool's state."""
    wait_for_middle(game)
    kill_all(game.place)
    for name in game.contender.adapter.STATE:
        _remove(game.folder / name)


def restore_older_state(game: Game) -> None:
    """Copy the tool's state while the middle step runs, and restore it after the work has ended."""
    wait_for_middle(game)
    copies = game.place / "state"
    for name in game.contender.adapter.STATE:
        _copy(game.folder / name, copies / name)
    game.finish_driver()
    game.note_fault()
    for name in game.contender.adapter.STATE:
        _remove(game.folder / name)
        _copy(copies / name, game.folder / name)


def find_middle_and_dependents(game: Game) -> frozenset[str]:
    """Return the middle step and the steps after it, whose results became invalid."""
    return find_dependents(game.work.steps, game.work.focus) | {game.work.focus}


def find_all_steps(game: Game) -> frozenset[str]:
    """Return all steps, because the fault destroyed all results."""
    return frozenset(step.name for step in game.work.steps)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, if it exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    elif source.exists():
        shutil.copy2(source, target)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
