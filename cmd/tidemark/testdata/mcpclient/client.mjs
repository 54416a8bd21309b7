// A client that is not ours: the official TypeScript SDK of the Model Context
// Protocol talks to a server and prints what it is told, one line of JSON a
// step.
//
//   node client.mjs stdio COMMAND ARGS…
//   node client.mjs http URL TOKEN
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The SDK is looked for where the test says, not beside this file.
const require = createRequire(join(process.env.MCP_NODE_MODULES, "none.js"));
const load = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)).href);
const { Client } = await load("client/index.js");

const [how, ...args] = process.argv.slice(2);
let transport;
if (how === "stdio") {
  const { StdioClientTransport } = await load("client/stdio.js");
  transport = new StdioClientTransport({ command: args[0], args: args.slice(1), env: process.env, stderr: "inherit" });
} else {
  const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
  transport = new StreamableHTTPClientTransport(new URL(args[0]), { requestInit: { headers: { Authorization: "Bearer " + args[1] } } });
}

const say = (step, value) => console.log(JSON.stringify({ step, value }));
const client = new Client({ name: "foreign", version: "1" });
await client.connect(transport);
say("server", client.getServerVersion().name);
say("tools", (await client.listTools()).tools.map((t) => t.name).sort());
const call = (name, args) => client.callTool({ name, arguments: args });
const hits = (await call("search_sessions", { query: "lighthouse" })).structuredContent.hits;
say("hits", hits.length);
say("read", (await call("read_session", { session: hits[0].ref })).content[0].text);
say("missing", (await call("read_session", { session: "no such session" })).isError);
say("refused", await call("write_memory", { text: "x" }).then((r) => !!r.isError, (e) => e.message));
say("resources", (await client.listResources()).resources.length);
say("page", (await client.readResource({ uri: "tidemark://session/last" })).contents[0].text.split("\n")[0]);
say("prompt", (await client.getPrompt({ name: "resume_session", arguments: { session: "last" } })).messages.length);
await client.close();
