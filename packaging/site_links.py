"""Links of the documentation that leave its folder: on the site they lead to the repository.

mkdocs calls `on_page_markdown` for every page (mkdocs.yml names this file). The build fails where such a link leads to
no file, as it does by itself for links inside the folder.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any, Final

URLS: Final = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["urls"]
REPOSITORY: Final = f"{URLS['Repository']}/blob/main/"
LINK: Final = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return a page's text in which links out of the documentation lead to the repository.

    Raises:
        FileNotFoundError: there is no such file.
    """
    root = os.path.dirname(config["config_file_path"])
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def outside(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        if path.startswith("docs/"):
            return found[1]
        if not os.path.exists(os.path.join(root, path)):
            raise FileNotFoundError(f"{page.file.src_uri} links to {path}, which is not there")
        return REPOSITORY + path

    return LINK.sub(outside, markdown)
