from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "http"))  # servers over HTTP are started as the tests of HTTP do
