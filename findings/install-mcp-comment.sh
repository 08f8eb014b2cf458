#!/bin/sh
# install-mcp 1.10.2: a settings file with a comment in it (VS Code, Zed) is replaced by the new server alone.
#
# Expected: `install-mcp … --client vscode` adds a server to the settings that are there. Settings of VS Code and Zed may
#           have comments and trailing commas, and their own first lines are often a comment.
# Seen:     the file is read as strict JSON. If that fails it goes on as if there were no file, writes one with the server
#           only, and says "Config written". All other settings and servers are gone, and no copy is kept. Known upstream:
#           a repair is merged, but not in the newest release.
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
try() { # the first line of the file; prints how many of the two old entries are left, and whether the new one is there
  mkdir -p work/.vscode
  cat >work/.vscode/settings.json <<JSON
$1
  "editor.fontSize": 18,
  "mcp": {"servers": {"notes": {"command": "notes-server"}}}
}
JSON
  (cd work && node ../node_modules/install-mcp/bin/run 'npx ark-server' --name ark --client vscode --local --yes) >printed.txt 2>&1
  grep -q "Config written" printed.txt
  node -e '
    const now = JSON.parse(require("fs").readFileSync("work/.vscode/settings.json", "utf8"));
    const servers = now.mcp?.servers ?? {};
    console.log(Number("editor.fontSize" in now) + Number("notes" in servers), Number("ark" in servers));'
}
plain=$(try '{')
commented=$(try '{ // how big I like my letters')
echo "without a comment: old entries kept, new one there: $plain"
echo "with a comment:    old entries kept, new one there: $commented"
[ "$plain" = "2 1" ] && [ "$commented" = "0 1" ]
