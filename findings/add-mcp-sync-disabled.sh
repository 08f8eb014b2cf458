#!/bin/sh
# add-mcp 2.4.0: `sync` switches a server on in every other client that its owner had switched off.
#
# Expected: a server that is off ("enabled": false) in OpenCode is off in the clients that it is copied to, or is not
#           copied. The documentation says that sync aligns names and installations.
# Seen:     the switch is not part of what is copied. The server stands in the files of Codex, Cursor and VS Code as any
#           other, so the next start of each of them runs it. The plan that sync shows does not say so.
#
# Needs node, npm and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund add-mcp@2.4.0 >/dev/null
export HOME="$folder/home" XDG_CONFIG_HOME="$folder/home/.config"
mkdir -p work/.codex work/.cursor home
cd work
cat >opencode.json <<'JSON'
{"mcp": {
  "barn": {"type": "local", "command": ["barn-server", "--all"], "enabled": false},
  "ark": {"type": "local", "command": ["ark-server"], "enabled": true}
}}
JSON
echo '{"mcpServers": {}}' >.cursor/mcp.json
echo 'model = "gpt-5"' >.codex/config.toml
add="node ../node_modules/add-mcp/dist/index.js"
echo "add-mcp $($add --version | tail -1)"
$add sync -y >printed.txt 2>&1
told=0; grep -qiE "disabled|enabled|switched" printed.txt && told=1
cursor=$(node -p '
  const one = JSON.parse(require("fs").readFileSync(".cursor/mcp.json", "utf8")).mcpServers.barn;
  one === undefined ? "absent" : one.disabled === true || one.enabled === false ? "off" : "on"')
codex=absent; grep -q "mcp_servers.barn" .codex/config.toml && codex=on
sed -n '/mcp_servers.barn/,/^$/p' .codex/config.toml | grep -q "enabled = false" && codex=off
opencode=$(node -p 'JSON.parse(require("fs").readFileSync("opencode.json", "utf8")).mcp.barn.enabled')
echo "barn in OpenCode: enabled $opencode; after sync in Cursor: $cursor; in Codex: $codex; the plan tells of it: $told"
[ "$opencode $cursor $codex $told" = "false on on 0" ]
