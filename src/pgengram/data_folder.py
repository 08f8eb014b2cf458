"""The folder in which a user's store lies. Hooks start with this module, so it imports next to nothing."""

from __future__ import annotations

import os
import sys

NAME = "pgengram"


def default_data_folder() -> str:
    """Return the per-user data folder; for root a folder that PostgreSQL's own user can reach."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(os.path.expanduser("~"), "AppData", "Local")
    elif os.geteuid() == 0:
        base = "/var/lib"
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME", "").strip() or os.path.expanduser("~/.local/share")
    return os.path.join(base, NAME)
