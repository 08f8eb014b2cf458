"""The guides of the documentation that a person at the page may want, as they are installed with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from markupsafe import Markup

import pgengram
from pgengram.ui.pages import markup

FOLDERS: Final = ("how-to", "explanation", "reference")
OTHERS: Final = frozenset({"how-forgetting-works", "glossary"})  # beside those of how-to
PACKAGE: Final = Path(pgengram.__file__).parent
LINK: Final = re.compile(
    r'<a rel="noreferrer noopener" target="_blank" href="(?!https?:)([^"#]*)[^"]*">(.*?)</a>', re.DOTALL
)


def _guide_paths() -> dict[str, Path]:
    """Return the guides by name: inside the installed package, or beside `src` in a checkout."""
    home = next((one for one in (PACKAGE / "docs", PACKAGE.parents[1] / "docs") if one.is_dir()), None)
    files = [] if home is None else [path for folder in FOLDERS for path in sorted((home / folder).glob("*.md"))]
    return {path.stem: path for path in files if path.parent.name == "how-to" or path.stem in OTHERS}


_FILES: Final = _guide_paths()


def _guide_title(path: Path) -> str:
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ")


TITLES: Final = {name: _guide_title(path) for name, path in _FILES.items()}


def text(name: str) -> Markup:
    """Return a guide as HTML; links to other guides lead there, those to other pages of the documentation are text."""

    def lead(link: re.Match[str]) -> str:
        there = Path(link[1]).stem
        return f'<a href="/help/{there}">{link[2]}</a>' if there in TITLES else link[2]

    return Markup(LINK.sub(lead, markup.markdown(_FILES[name].read_text("utf-8"))))  # noqa: S704
