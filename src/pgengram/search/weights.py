"""The fitted numbers of the search; benchmarks/retrieval.py --fit writes them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

WEIGHTS: Final = Path(__file__).parent / "weights.json"


@cache
def _all_weights() -> dict[str, dict[str, Any]]:
    return dict(json.loads(WEIGHTS.read_text(encoding="utf-8")))


def weights(part: str) -> dict[str, Any]:
    """Return the weights of a part of the search, by the names of what they weigh: ranking, sharpness, evidence,
    speaker, succession.
    """
    return _all_weights()[part]
