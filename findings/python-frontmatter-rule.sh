#!/bin/sh
# python-frontmatter 1.3.0: what stands between two rules at the head of a note is gone after reading it.
#
# Expected: a note may begin with a rule (three dashes). What follows is no mapping, so it is no front matter, and the
#           text comes back as it was: the documentation promises the original text where none is found.
# Seen:     if a second rule follows, all that is between the two (a sentence, a list) is neither in the metadata nor in
#           the content, without an error. Writing the note back erases it.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check python-frontmatter==1.3.0
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import frontmatter

sentence = "---\nBuy tar before Friday.\n---\nThe beams are paid."
listed = "---\n- tar\n- rope\n---\nThe beams are paid."
stars = sentence.replace("---", "***")

lost = 0
print(f"python-frontmatter {version('python-frontmatter')}")
for name, note in (("a sentence", sentence), ("a list", listed), ("a sentence between stars", stars)):
    post = frontmatter.loads(note)
    written = frontmatter.dumps(post)
    gone = "tar" not in written and not post.metadata
    lost += gone
    print(f"{name}: metadata {post.metadata}, content {post.content!r}, lost when written back: {gone}")
raise SystemExit(0 if lost == 2 and "tar" in frontmatter.dumps(frontmatter.loads(stars)) else 1)
PYTHON
