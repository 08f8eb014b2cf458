"""Relevance fades with time and without a write, exactly, and no stored column freezes it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import exp, log
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from helpers import Database, Served, call, database_of, examples, read, remember
from pgengram.fields import KINDS, TYPES

RATES_OF_KINDS = {
    "person": 0.001, "decision": 0.001, "goal": 0.002, "preference": 0.002, "process": 0.002, "fact": 0.003, "insight": 0.003,
    "learning": 0.003, "project": 0.003, "connection": 0.003, "pattern": 0.005, "general": 0.005, "error": 0.01, "observation": 0.05,
}  # fmt: skip
RATES_OF_TYPES = {"strategic": 0.001, "procedural": 0.002, "semantic": 0.003, "episodic": 0.01}
RATES = sorted({0.0, *RATES_OF_KINDS.values()})
USE = 0.1  # what one use adds

SET = """UPDATE memory_activation SET importance = %(importance)s, rate_per_day = %(rate)s, started_at = %(started_at)s,
  reinforcement = NULL"""
LIVE = "SELECT pgengram_relevance(relevance_anchor, rate_per_day, %(at)s) AS live FROM memory_activation"


@pytest.fixture(scope="module")
def line(postgres: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that sees one memory, whose importance, rate and start a test may choose; nothing is kept."""
    with database_of(postgres, template) as database, psycopg.connect(database.url) as connection:
        connection.execute("INSERT INTO namespaces (name) VALUES ('default')")
        connection.execute("SELECT set_config('pgengram.namespace_id', id::text, false) FROM namespaces")
        connection.execute(
            """WITH made AS (
                 INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
                 SELECT id, gen_random_uuid(), 'semantic', 'x', '', now() FROM namespaces RETURNING *)
               INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
               SELECT namespace_id, id, 0.5, 0.003, now() FROM made"""
        )
        yield connection
        connection.rollback()


def live(line: psycopg.Connection[Any], at: datetime) -> float:
    row = line.execute(LIVE, {"at": at}).fetchone()
    assert row is not None
    return float(row[0])


def begun(line: psycopg.Connection[Any], importance: float, rate: float, started_at: datetime) -> None:
    line.execute(SET, {"importance": importance, "rate": rate, "started_at": started_at})


MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
IMPORTANCES = st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 1e-300, 0.1, 0.5, 1.0])


@pytest.mark.shows(15)
@effort(max_examples=examples(100))
@given(importance=IMPORTANCES, rate=st.sampled_from(RATES), started_at=MOMENTS, days=st.floats(0, 36_500))
def test_relevance_is_importance_times_e_to_the_minus_rate_times_days(
    line: psycopg.Connection[Any], importance: float, rate: float, started_at: datetime, days: float
) -> None:
    at = started_at + timedelta(days=days)
    passed = (at - started_at) / timedelta(days=1)

    begun(line, importance, rate, started_at)

    assert live(line, at) == pytest.approx(importance * exp(-rate * passed), abs=1e-9)


@effort(max_examples=100)
@given(
    importance=IMPORTANCES,
    rate=st.sampled_from(RATES),
    started_at=MOMENTS,
    days=st.floats(0, 20_000),
    more=st.floats(0, 20_000),
)
def test_relevance_never_rises_by_itself(
    line: psycopg.Connection[Any], importance: float, rate: float, started_at: datetime, days: float, more: float
) -> None:
    begun(line, importance, rate, started_at)
    earlier, later = started_at + timedelta(days=days), started_at + timedelta(days=days + more)

    assert live(line, later) <= live(line, earlier) + 1e-12


@pytest.mark.shows(15)
def test_the_same_row_is_less_relevant_ten_days_later_without_a_write(line: psycopg.Connection[Any]) -> None:
    now = datetime.now(UTC)
    begun(line, 0.8, 0.05, now)
    written = line.execute("SELECT *, xmin::text, ctid::text FROM memory_activation").fetchall()

    today, then = live(line, now), live(line, now + timedelta(days=10))

    assert today == pytest.approx(0.8, abs=1e-9)
    assert then == pytest.approx(0.8 * exp(-0.5), abs=1e-9)
    assert line.execute("SELECT *, xmin::text, ctid::text FROM memory_activation").fetchall() == written


def test_the_stored_line_is_the_same_whenever_it_is_written(line: psycopg.Connection[Any]) -> None:
    """A column that holds a value of now would come out differently when the row is written again."""
    started_at = datetime.now(UTC) - timedelta(days=400)
    begun(line, 0.8, 0.01, started_at)
    first = line.execute("SELECT relevance_anchor FROM memory_activation").fetchone()

    line.execute("SELECT pg_sleep(0)")
    line.execute("UPDATE memory_activation SET access_count = access_count + 1")

    assert line.execute("SELECT relevance_anchor FROM memory_activation").fetchone() == first
    assert first is not None
    origin = datetime(2024, 10, 4, tzinfo=UTC)  # 20,000 days since 1970
    assert first[0] == pytest.approx(log(0.8) + 0.01 * ((started_at - origin) / timedelta(days=1)), abs=1e-9)


def test_no_generated_column_depends_on_anything_but_its_row(line: psycopg.Connection[Any]) -> None:
    """Functions declared immutable that are not would freeze, and change with every dump and restore."""
    generated = line.execute(
        """SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid
           AND d.adnum = a.attnum WHERE a.attgenerated <> '' AND a.attrelid::regclass::text LIKE 'memor%'"""
    ).fetchall()

    assert generated
    for (expression,) in generated:
        assert "pgengram" not in expression
        assert "now()" not in expression
        assert "CURRENT" not in expression.upper()


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("importance", [0.0, 5e-324, 0.5, 1.0])
def test_a_memory_of_twenty_thousand_days_does_not_underflow(
    line: psycopg.Connection[Any], importance: float, rate: float
) -> None:
    started_at = datetime.now(UTC) - timedelta(days=20_000)
    begun(line, importance, rate, started_at)

    for days in (0, 20_000, 200_000):
        value = live(line, started_at + timedelta(days=days))
        assert 0 <= value <= importance + 1e-12
        assert value == pytest.approx(importance * exp(-rate * days), abs=1e-9)


def test_an_order_by_the_stored_line_is_the_order_by_live_relevance_at_any_time(line: psycopg.Connection[Any]) -> None:
    """Within one rate, so that an index can hold it."""
    moments = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days) for days in (0, 30, 3_000)]
    order = "SELECT array_agg(n ORDER BY {} DESC, n) FROM (SELECT n, ln(n / 100.0) + 0.003 * mod(n * 37, 50) AS a FROM generate_series(1, 100) AS n) AS t"  # fmt: skip
    by_line = line.execute(order.format("a")).fetchone()

    for at in moments:
        assert line.execute(order.format("pgengram_relevance(a - 5, 0.003, %s)"), [at]).fetchone() == by_line


@pytest.mark.parametrize(("kind", "rate"), RATES_OF_KINDS.items())
async def test_each_kind_fades_at_its_own_rate(served: Served, kind: str, rate: float) -> None:
    answer = await call(served.client, "create_memory", content="Of a kind.", kind=kind)

    assert served.db.value("SELECT rate_per_day FROM memory_activation") == rate
    assert answer["memory"]["half_life_days"] == round(log(2) / rate, 1)


@pytest.mark.parametrize(("type_", "rate"), RATES_OF_TYPES.items())
async def test_without_a_kind_the_type_says_how_fast_a_memory_fades(served: Served, type_: str, rate: float) -> None:
    answer = await call(served.client, "create_memory", content="Of a type.", type=type_)

    assert served.db.value("SELECT rate_per_day FROM memory_activation") == rate
    assert answer["memory"]["half_life_days"] == round(log(2) / rate, 1)


def test_the_table_of_rates_is_complete() -> None:
    assert RATES_OF_KINDS.keys() == set(KINDS)
    assert RATES_OF_TYPES.keys() == set(TYPES)


@pytest.mark.shows(15)
async def test_a_pinned_memory_does_not_fade(served: Served) -> None:
    id_ = await remember(served.client, "Never fades.", kind="observation", importance=0.7, pinned=True)
    aged(served.db, days=1_000)

    memory = await read(served.client, id_)

    assert memory["half_life_days"] is None
    assert memory["relevance"] == pytest.approx(0.7 + USE, abs=1e-6)


def aged(db: Database, *, days: float) -> None:
    """Move every memory into the past, with all that happened to it."""
    db.rows(
        """UPDATE memory_activation
           SET started_at = (started_at AT TIME ZONE 'UTC' - make_interval(secs => %(days)s * 86400)) AT TIME ZONE 'UTC',
             reinforcement = reinforcement - rate_per_day * %(days)s""",
        {"days": days},
    )


def now_live(db: Database) -> float:
    return float(db.value("SELECT pgengram_relevance(relevance_anchor, rate_per_day, now()) FROM memory_activation"))


@pytest.mark.parametrize("importance", [0, 0.3, 0.5])
@pytest.mark.parametrize("days", [0, 10, 1_000, 20_000])
async def test_reading_adds_a_tenth_to_what_is_left(served: Served, importance: float, days: float) -> None:
    id_ = await remember(served.client, "Used.", type="episodic", importance=importance)
    aged(served.db, days=days)
    before = now_live(served.db)

    memory = await read(served.client, id_)

    assert before == pytest.approx(importance * exp(-0.01 * days), abs=1e-6)
    assert memory["relevance"] == pytest.approx(before + USE, abs=1e-6)
    assert memory["importance"] == importance


async def test_what_use_has_added_fades_like_the_rest(served: Served) -> None:
    id_ = await remember(served.client, "Used.", type="episodic", importance=0.4)
    await read(served.client, id_)
    aged(served.db, days=50)

    assert now_live(served.db) == pytest.approx((0.4 + USE) * exp(-0.5), abs=1e-6)


@pytest.mark.shows(16)
async def test_relevance_is_at_most_one_and_importance_stays_after_thirty_readings(served: Served) -> None:
    id_ = await remember(served.client, "Used a lot.", importance=0.4)

    for _ in range(30):
        memory = await read(served.client, id_)

    assert memory["importance"] == 0.4
    assert memory["relevance"] == 1
    assert memory["access_count"] == 30


CHANGES: dict[str, tuple[dict[str, Any], float, float]] = {
    "importance": ({"importance": 0.9}, 0.9, 0.01),
    "importance to zero": ({"importance": 0}, 0.0, 0.01),
    "kind": ({"kind": "observation"}, 0.4, 0.05),
    "pinned": ({"pinned": True}, 0.4, 0.0),
    "all three": ({"importance": 0.2, "kind": "person", "pinned": True}, 0.2, 0.0),
}


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize(("change", "importance", "rate"), CHANGES.values(), ids=CHANGES.keys())
async def test_a_change_of_importance_kind_or_pin_moves_the_line(
    served: Served, change: dict[str, Any], importance: float, rate: float, used: bool
) -> None:
    id_ = await remember(served.client, "Changed.", type="episodic", importance=0.4)
    if used:
        await read(served.client, id_)
    aged(served.db, days=20)
    earned = USE * exp(-0.2) if used else 0.0  # at the rate it had until now

    await call(served.client, "update_memory", id=id_, **change)

    after = importance * exp(-rate * 20) + earned + USE  # changing is a use, too
    assert now_live(served.db) == pytest.approx(after, abs=1e-6)
    aged(served.db, days=10)
    assert now_live(served.db) == pytest.approx(after * exp(-rate * 10), abs=1e-6)


async def test_importance_zero_is_kept_and_can_be_raised(served: Served) -> None:
    id_ = await remember(served.client, "Of no weight.", importance=0)
    assert now_live(served.db) == 0

    await call(served.client, "update_memory", id=id_, importance=0.6)

    assert (await read(served.client, id_))["importance"] == 0.6
    assert now_live(served.db) == pytest.approx(0.6 + 2 * USE, abs=1e-6)
