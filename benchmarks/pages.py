"""How long each page of `pgengram ui` takes over a large store, beside a page that shows nothing.

    python benchmarks/pages.py [--rows 100000] [--calls 60] [--json PATH]

Fills a database with invented memories (days, tags, projects, links, clusters, a trash), starts the command as a person would,
and asks for its pages one after the other, as one browser does. A page may take 150 ms in 95 of 100 cases; the map is worked
out beside the requests and has no limit before it is there. The server is an embedded PostgreSQL in a temporary folder, or a
database made for this run, and dropped after it, on the server of PGENGRAM_DATABASE_URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from synthetic import DIMENSIONS, Synthetic

from pgengram.cli.client import variables
from pgengram.inputs import NewMemory
from pgengram.manager import MemoryManager
from pgengram.postgres import start_embedded
from pgengram.settings import Settings
from pgengram.store.indexes import tend
from pgengram.toolsets.clusters import Clusters, NewCluster
from pgengram.toolsets.graph import Graph

LIMIT_MS = 150.0
BATCH = 200
FIRST_DAY = datetime(2022, 1, 3, 12, tzinfo=UTC)
DAYS = 900
TAGS = 60
PROJECTS = ("lighthouse", "harbour-works", "kestrel", "meridian")
LINKED = 3_000  # memories with links of their own, at most
TRASHED = 100
FORGOTTEN_AT_ONCE = 20
CLUSTERS = 12
CLUSTERED = 40
WARM_UP = 3  # calls whose time is not counted
Report = Callable[[int, int], None]


# ------------------------------------------------------------------------------------------------------------- filling


async def fill_up(settings: Settings, rows: int, report: Report = lambda _done, _all: None) -> None:
    """Store `rows` invented memories with given vectors, and what the pages show of them."""
    manager = MemoryManager(settings)
    await manager.open()
    try:
        ids = await _store(manager, rows, report)
        await _connect(manager, ids)
        for start in range(0, min(TRASHED, rows // 20), FORGOTTEN_AT_ONCE):
            await manager.forget_memories(ids[-1 - start : -1 - start - FORGOTTEN_AT_ONCE : -1], "no longer so")
        await manager.current_model()
        model = manager.model_key
    finally:
        await manager.close()
    if model is not None:
        await tend(settings.database_url, model, DIMENSIONS)
    with psycopg.connect(settings.database_url, autocommit=True) as login:
        login.execute("VACUUM (ANALYZE)")


async def _store(manager: MemoryManager, rows: int, report: Report) -> list[str]:
    source = Synthetic()
    made: Iterator[dict[str, Any]] = iter(source.memories(rows))
    ids: list[str] = []
    while batch := list(islice(made, BATCH)):
        for number, item in enumerate(batch, len(ids)):
            item |= {
                "dedup_policy": "insert",
                "tags": [f"tag-{number % TAGS}"] if number % 5 else [],
                "project": PROJECTS[number % 4] if number % 3 else None,
                "occurred_at": None if number % 4 == 3 else FIRST_DAY + timedelta(days=number % DAYS, seconds=number),
            }
        stored = await manager.create_memories(batch)
        ids += [one["memory_id"] for one in stored.results if one["ok"]]
        report(len(ids), rows)
    return ids


async def _connect(manager: MemoryManager, ids: list[str]) -> None:
    graph, clusters = Graph(manager), Clusters(manager)
    linked = min(LINKED, len(ids) // 10)
    for at in range(linked):
        ends = [ids[at + linked], ids[(at * 7 + 1) % linked], ids[at // 3]]
        await graph.link_memories(ids[at], [end for end in dict.fromkeys(ends) if end != ids[at]], type="supports",
                                  strength=0.4 + at % 5 / 10)  # fmt: skip
    for number in range(CLUSTERS):
        members = ids[number * CLUSTERED : (number + 1) * CLUSTERED]
        await clusters.create_memory_cluster(NewCluster(name=f"Subject {number + 1}", memory_ids=members))
