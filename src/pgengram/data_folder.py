"""The folder in which a user's store lies. Hooks start with this module, so it imports next to nothing."""

from __future__ import annotations

import os
import sys

NAME = "pgengram"
PRIVATE, PASSABLE = 0o700, 0o711


def default_data_folder() -> str:
    """Return the per-user data folder; for root a folder that PostgreSQL's own user can reach."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(os.path.expanduser("~"), "AppData", "Local")
    elif is_root():
        base = "/var/lib"
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME", "").strip() or os.path.expanduser("~/.local/share")
    return os.path.join(base, NAME)


def make_data_folder(folder: str) -> None:
    """Make a data folder if it is not there: only its user may look inside, and root's lets PostgreSQL's user pass.

    Raises:
        OSError: it cannot be made.
    """
    os.makedirs(folder, PASSABLE if is_root() else PRIVATE, exist_ok=True)


def is_root() -> bool:
    """Whether this is root, for whom PostgreSQL runs as another user."""
    return sys.platform != "win32" and os.geteuid() == 0
