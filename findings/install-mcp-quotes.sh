#!/bin/sh
# install-mcp 1.10.2: a quoted argument with a space is torn apart, though "full commands are preserved as-is".
#
# Expected: 'npx notes-server --folder "My Notes"' is installed with the arguments --folder and My Notes, as a shell
#           would give them, or is refused.
# Seen:     the command is cut at every space, and the quotes stay as letters: --folder, "My and Notes". The client then
#           starts the server on a folder that is not there (a server that makes its folder starts with an empty memory).
#
# Needs node, npm and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund install-mcp@1.10.2 >/dev/null
export HOME="$folder/home" XDG_CONFIG_HOME="$folder/home/.config"
echo "install-mcp $(node -p 'require("./node_modules/install-mcp/package.json").version')"
arguments() {
  node node_modules/install-mcp/bin/run "$1" --name notes --client cursor --yes >printed.txt 2>&1
  node -p 'JSON.stringify(JSON.parse(require("fs").readFileSync("home/.cursor/mcp.json", "utf8")).mcpServers.notes.args)'
}
plain=$(arguments 'npx notes-server --folder MyNotes')
quoted=$(arguments 'npx notes-server --folder "My Notes"')
echo "without a space: $plain"
echo "with quotes:     $quoted"
[ "$plain" = '["notes-server","--folder","MyNotes"]' ] && [ "$quoted" = '["notes-server","--folder","\"My","Notes\""]' ]
