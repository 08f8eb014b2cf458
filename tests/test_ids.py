"""Ids sort by the time they were made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from pgengram.ids import uuid7


def test_an_id_is_a_uuid_of_version_7() -> None:
    assert (uuid7().version, uuid7().variant) == (7, "specified in RFC 4122")


def test_an_id_tells_when_it_was_made() -> None:
    made = datetime.fromtimestamp((uuid7().int >> 80) / 1_000, UTC)

    assert abs(datetime.now(UTC) - made) < timedelta(minutes=1)


def test_ids_made_one_after_another_are_in_order() -> None:
    ids = [uuid7() for _ in range(20_000)]

    assert ids == sorted(set(ids))


def test_threads_never_make_the_same_id() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = [id_ for made in pool.map(lambda _: [uuid7() for _ in range(2_000)], range(8)) for id_ in made]

    assert len(set(ids)) == 16_000
