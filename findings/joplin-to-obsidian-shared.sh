#!/bin/sh
# joplin-to-obsidian 0.2.0: a picture that two notes share is taken away from the note at the top.
#
# Expected: after move-resources each note shows its pictures. A note at the top of the export already has its _resources
#           folder beside it, so its pictures can stay.
# Seen:     the note in a notebook gets a copy, and then the original is deleted, though the note at the top still points
#           to it ("already at target"). Its link is broken, and the program says nothing of it. Besides, the words in the
#           brackets of a picture (its description) are removed.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
# The package needs click, and its newest typer no longer brings it.
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check joplin-to-obsidian==0.2.0 click==8.1.8
cd "$folder"
move="$folder/venv/bin/joplin-to-obsidian"
"$move" --version
write() { # a folder as Joplin exports it ("Markdown + front matter"); the picture that the note in the notebook shows
  mkdir -p "$1/_resources" "$1/Shipyard"
  printf 'plan' >"$1/_resources/plan.png"
  printf 'decks' >"$1/_resources/decks.png"
  printf -- '---\ntitle: Ark\n---\n\n![Plan of the ark](_resources/plan.png)\n' >"$1/Ark.md"
  printf -- '---\ntitle: Decks\n---\n\n![Three decks](../_resources/%s)\n' "$2" >"$1/Shipyard/Decks.md"
}
shown() { # whether the picture that the note $2 points to is there
  link=$(grep -o '(.*png)' "$1/$2" | tr -d '()')
  if [ -f "$(dirname "$1/$2")/$link" ]; then echo 1; else echo 0; fi
}
write apart decks.png
write shared plan.png
"$move" move-resources apart >/dev/null
"$move" move-resources shared >printed.txt
told=0; grep -qiE "broken|missing|not found" printed.txt && told=1
apart="$(shown apart Ark.md) $(shown apart Shipyard/Decks.md)"
shared="$(shown shared Ark.md) $(shown shared Shipyard/Decks.md)"
described=0; grep -q "Three decks" shared/Shipyard/Decks.md && described=1
echo "two pictures: shown at the top and in the notebook: $apart"
echo "one picture:  shown at the top and in the notebook: $shared; told: $told; its description is kept: $described"
[ "$apart" = "1 1" ] && [ "$shared" = "0 1" ] && [ "$told$described" = 00 ]
