#!/bin/sh
# add-mcp 2.4.0: adding a server to Codex erases all comments of its config.toml.
#
# Expected: a line is added and all others stay, as with the JSON files (of those the documentation names the one client
#           whose comments are dropped, and it is not Codex).
# Seen:     config.toml is parsed and written anew. Comments are gone: notes on why a setting is so, and settings that
#           their owner switched off with a "#" and may want back. No copy is kept, and nothing is said.
#
# Needs node, npm and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund add-mcp@2.4.0 >/dev/null
export HOME="$folder/home" XDG_CONFIG_HOME="$folder/home/.config"
mkdir -p work/.codex home
cd work
cat >.codex/config.toml <<'TOML'
# Noah: the small model forgets the pitch, keep the large one.
model = "gpt-5"
# model_reasoning_effort = "high"

[mcp_servers.ark]
command = "ark-server" # the one on the shelf
TOML
cat >opencode.jsonc <<'JSON'
{
  // Noah: the ark comes first.
  "mcp": {"ark": {"type": "local", "command": ["ark-server"], "enabled": true}}
}
JSON
add="node ../node_modules/add-mcp/dist/index.js"
echo "add-mcp $($add --version | tail -1)"
$add "npx barn-server" -n barn -a codex -a opencode -y >printed.txt 2>&1
grep -q "mcp_servers.barn" .codex/config.toml
grep -q '"barn"' opencode.jsonc
told=0; grep -qi "comment" printed.txt && told=1
codex=$(grep -c "#" .codex/config.toml || true)
opencode=$(grep -c "//" opencode.jsonc || true)
echo "comments left in Codex's file: $codex of 3; in OpenCode's: $opencode of 1; told: $told"
[ "$codex $opencode $told" = "0 1 0" ]
