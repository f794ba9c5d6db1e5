// The MCP SDK for TypeScript, over HTTP and over a process of its own.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, ...command] = process.argv.slice(2);
const transports = {
  http: new StreamableHTTPClientTransport(new URL(url)),
  stdio: new StdioClientTransport({ command: command[0], args: command.slice(1), env: process.env }),
};
const outcome = {};
for (const [name, transport] of Object.entries(transports)) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  const { tools } = await client.listTools();
  const progress = [];
  const asked = await client.callTool(
    { name: "ask", arguments: { question: "Is Python's sort stable?", context: "CPython 3." } },
    undefined,
    { onprogress: (one) => progress.push(one.message) },
  );
  const wrong = await client.callTool({ name: "ask", arguments: { question: "" } });
  outcome[name] = {
    tools: tools.map((tool) => tool.name).sort(),
    answer: asked.structuredContent,
    n_progress: progress.length,
    error: wrong.isError ? wrong.content[0].text : "",
  };
  await client.close();
}
console.log(JSON.stringify(outcome));
