"""A server that runs for months keeps nothing of those whom it no longer serves."""

from __future__ import annotations

import gc
import weakref

from pgengram.mcp.http.namespaces import MAX_SORTS, NamespaceServer
from pgengram.service.core import Core
from pgengram.settings import Settings


def test_a_namespace_that_is_served_no_longer_is_let_go_of() -> None:
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:1/none", embedder="none:")
    served = NamespaceServer(settings, Core(settings))
    one = served.server(writes=True, toolsets=frozenset())
    assert served.server(writes=True, toolsets=frozenset()) is one
    first, namespace = weakref.ref(one), weakref.ref(served)
    for number in range(MAX_SORTS):
        served.server(writes=False, toolsets=frozenset({f"no such {number}"}))
    del one
    gc.collect()
    assert first() is None, "of sorts of grants only the latest are kept"
    del served
    gc.collect()
    assert namespace() is None
