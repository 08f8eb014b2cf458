"""Renew `src/pgengram/text/secrets/gitleaks.toml`, the shapes of keys that gitleaks publishes, from one of its versions.

    git clone https://github.com/gitleaks/gitleaks && git -C gitleaks show v8.30.1:config/gitleaks.toml > gitleaks.toml
    python packaging/secret_rules.py gitleaks.toml

To take a newer version, change VERSION and SHA256, run it, look at the difference, and run `pytest tests/tools/test_secrets.py
tests/hostile/test_secrets_at_large.py`. It takes the rules of keys that are known by a beginning of their own. Rules that
hold any value next to a vendor's name for a key are left out: in notes, such values are mostly commits, ids and hashes.
Expressions are rewritten from Go's RE2 to Python's `re`; one that cannot be is named, and ends the program.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

VERSION: Final = "v8.30.1"
SHA256: Final = "e163e53b9e7e8a8511e77271e2b323ed057759542a6d988258afe3a1fa329caf"
TARGET: Final = Path(__file__).parents[1] / "src" / "pgengram" / "text" / "secrets" / "gitleaks.toml"
NEXT_TO_A_NAME: Final = re.compile(r"^(?:\(\?i\))?\[\\w\.-\]\{0,50\}\?")  # how those rules begin
END: Final = re.compile(r"\(\?:\[\\x60'\"\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)$")  # how most rules end
LEFT_OUT: Final = {
    "curl-auth-header": "pgengram.toml and the authorization header have it, without its backtracking",
    "curl-auth-user": "pgengram.toml has it",
    "facebook-access-token": "two numbers and a word",
    "flutterwave-public-key": "public",
    "jwt": "pgengram.toml has it, with the header that makes it one",
    "kubernetes-secret-yaml": "any base64 in a manifest",
    "private-key": "pgengram.toml has it, also without its end",
    "sidekiq-sensitive-url": "a password in an address is found in any",
    "sourcegraph-access-token": "any commit",
}
HEAD: Final = """\
# Shapes of keys, from the configuration of gitleaks {version} (https://github.com/gitleaks/gitleaks, config/gitleaks.toml,
# SHA-256 {sha256}),
# rewritten for Python's `re` by packaging/secret_rules.py. Don't edit; our own are in pgengram.toml.
#
# MIT License. Copyright (c) 2019 Zachary Rice
#
# Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
# files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
# modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
# Software is furnished to do so, subject to the following conditions: The above copyright notice and this permission notice
# shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY
# OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR
# PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
# LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR
# THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def for_python(shape: str) -> str:
    """Return an expression of RE2 as one of Python's, which ends where a word ends instead of at certain characters."""
    shape = END.sub(r"(?![\\w-])", shape)
    shape = shape.replace("[[:alnum:]]", "[A-Za-z0-9]").replace("(?:[^\\w-]|\\z)", "(?![\\w-])").replace("\\z", "\\Z")
    return scoped(shape)


def scoped(shape: str) -> str:
    """Return an expression with each `(?i)` around what it is about: RE2 lets it stand anywhere and last to the end of its
    group.
    """
    place = shape.find("(?i)")
    if place < 0:
        return shape
    end = end_of_group(shape, place + 4)
    return scoped(f"{shape[:place]}(?i:{shape[place + 4 : end]}){shape[end:]}")


def end_of_group(shape: str, start: int) -> int:
    """Return where the group that holds `start` ends."""
    depth, place, in_class = 0, start, False
    while place < len(shape):
        letter = shape[place]
        if letter == "\\":
            place += 1
        elif in_class or letter == "[":
            in_class = letter != "]"
        elif letter == "(":
            depth += 1
        elif letter == ")":
            if not depth:
                return place
            depth -= 1
        place += 1
    return place


def taken(rule: dict[str, Any]) -> bool:
    """Whether a rule is of keys that are known by a beginning of their own."""
    shape = rule.get("regex", "")
    return bool(shape) and "path" not in rule and not NEXT_TO_A_NAME.match(shape) and rule["id"] not in LEFT_OUT


def written(rule: dict[str, Any]) -> str:
    """Return a rule as it stands in the file."""
    shape = for_python(rule["regex"])
    if re.compile(shape).groups > 1:  # the first is the secret
        shape = re.sub(r"\((?=\?P<\w+>)\?P<\w+>", "(?:", shape)
    lines = [
        "[[rules]]",
        f'id = "{rule["id"]}"',
        f"regex = '''{shape}'''",
        f"keywords = {json.dumps(rule['keywords'])}",
    ]
    if "entropy" in rule:
        lines.append(f"entropy = {rule['entropy']}")
    allowed = [one for group in rule.get("allowlists", []) for one in group.get("regexes", [])]
    if allowed:
        lines += [
            "[[rules.allowlists]]",
            "regexes = [" + ", ".join(f"'''{for_python(one)}'''" for one in allowed) + "]",
        ]
    return "\n".join(lines)


def main(path: str) -> None:
    """Read gitleaks' configuration and write ours."""
    given = Path(path).read_bytes()
    if (found := hashlib.sha256(given).hexdigest()) != SHA256:
        sys.exit(f"{path} is not that of {VERSION}: its SHA-256 is {found}")
    rules = [rule for rule in tomllib.loads(given.decode())["rules"] if taken(rule)]
    text = "\n\n".join([HEAD.format(version=VERSION, sha256=SHA256).rstrip(), *map(written, rules)]) + "\n"
    for rule in tomllib.loads(text)["rules"]:
        re.compile(rule["regex"])
    TARGET.write_text(text, "utf-8")
    print(f"{len(rules)} rules")


if __name__ == "__main__":
    main(sys.argv[1])
