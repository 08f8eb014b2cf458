#!/bin/sh
# @modelcontextprotocol/server-memory 2026.8.31: of five memories that a client creates at the same time, one stays,
# while all five calls are answered with the memory that they created.
#
# Expected: an assistant that calls create_entities five times in one turn (clients send such calls together) finds five.
# Seen:     each call reads the whole file, adds its own and writes the whole file again, without waiting for the others,
#           so the last one wins. No call says that anything was lost. Known upstream, and not in the newest release yet.
#
# Needs node, npm and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @modelcontextprotocol/server-memory@2026.8.31 >/dev/null
cat >run.mjs <<'NODE'
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const home = "node_modules/@modelcontextprotocol/server-memory";
const names = ["saw", "plane", "adze", "awl", "rasp"];

async function remembered(together) {
  const env = { ...process.env, MEMORY_FILE_PATH: `${process.cwd()}/${together ? "together" : "turns"}.jsonl` };
  const client = new Client({ name: "carpenter", version: "1" });
  await client.connect(new StdioClientTransport({ command: "node", args: [`${home}/dist/index.js`], env, stderr: "ignore" }));
  const create = (name) =>
    client.callTool({
      name: "create_entities",
      arguments: { entities: [{ name, entityType: "tool", observations: [`The ${name} hangs by the door.`] }] },
    });
  const answers = [];
  if (together) answers.push(...(await Promise.all(names.map(create))));
  else for (const name of names) answers.push(await create(name));
  const graph = await client.callTool({ name: "read_graph", arguments: {} });
  await client.close();
  const created = answers.filter((one) => !one.isError).flatMap((one) => one.structuredContent.entities);
  return [created.length, graph.structuredContent.entities.length];
}

console.log(`server-memory ${JSON.parse(readFileSync(`${home}/package.json`)).version}`);
const turns = await remembered(false);
const together = await remembered(true);
console.log(`one after the other: ${turns[0]} told as created, ${turns[1]} in the graph`);
console.log(`at the same time: ${together[0]} told as created, ${together[1]} in the graph`);
process.exit(turns[1] === 5 && together[0] === 5 && together[1] < 5 ? 0 : 1);
NODE
node run.mjs
