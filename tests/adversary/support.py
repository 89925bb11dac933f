"""Write to the database as an attacker with direct access to it."""

from __future__ import annotations

from tests.amendments.support import Place
from tests.amendments.test_signature import folded


def forged_fold(place: Place) -> None:
    """Insert a cached state with another definition and another consent policy."""
    from lifecycle.fold.evolve import REDUCER
    from service.reading import stream_log

    forged = folded(place)
    forged.stages["stage-1"].parameters = {"command": "true", "n": 99}
    forged.consent = "trust"
    row = (forged.head, stream_log.to_bytes(forged))
    with place.database() as database:
        database.execute("DELETE FROM folds")
        database.execute(
            "INSERT INTO folds VALUES (?, ?, ?, ?, ?)",
            (f"workflow-{forged.id}", stream_log.NAME, REDUCER, *row),
        )
