from __future__ import annotations

from collections.abc import Iterator

import pytest

import helpers

AT_THE_SERVER = ("test_backup", "test_restoring_the_erased")


@pytest.fixture(scope="module", autouse=True)
def _at_the_server_itself(request: pytest.FixtureRequest) -> Iterator[None]:
    """A backup goes past a pooler: through one it is refused, which is tested beside the pooler."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ in AT_THE_SERVER:
            patch.setattr(helpers, "POOLER", "")
        yield
