"""The process itself, its logs and metrics, and what differs between operating systems."""

from __future__ import annotations

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """Return what runs a module of ours in a process of its own.

    Nothing is imported from the folder that it is started in (`-P`): a server is started in that of somebody's project.
    """
    return [sys.executable, "-P", "-m", module, *arguments]
