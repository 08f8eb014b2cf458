"""What the hostile tests share: the programs of `benchmarks/`, whose short forms they are."""

from __future__ import annotations

import sys
from pathlib import Path

for _folder in ("benchmarks", "tests/hostile", "tests/protocol", "tests/search"):
    sys.path.append(str(Path(__file__).parents[2] / _folder))
