from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from protocol_peer import Peer, toy


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Peer]:
    """A server that has not been spoken to."""
    with toy(tmp_path / "journal") as peer:
        yield peer


@pytest.fixture
def server(fresh: Peer) -> Peer:
    """A server after the handshake of 2025-11-25."""
    fresh.hello()
    return fresh


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One server after the handshake, for tests that leave no trace in it."""
    with toy(tmp_path_factory.mktemp("shared") / "journal") as peer:
        peer.hello()
        yield peer
