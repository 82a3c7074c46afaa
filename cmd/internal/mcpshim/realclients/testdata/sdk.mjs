// sdk.mjs v1|legacy|auto COMMAND ARG…: a client of the TypeScript SDK (v1, or v2 in one of its modes) over one stdio
// server. A line of JSON on stdin is a wish, a line on stdout an answer to it or a notification:
//   {"id":1,"op":"list"}  {"id":2,"op":"call","name":…,"args":…,"timeout":ms,"progress":true}  {"id":3,"op":"abort","call":2}
// SDK_MODULES is the node_modules folder. Exits when stdin ends.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const [mode, command, ...args] = process.argv.slice(2);
const require = createRequire(join(process.env.SDK_MODULES, 'x.js'));
const load = name => import(pathToFileURL(require.resolve(name)).href);
const say = m => process.stdout.write(JSON.stringify(m) + '\n');

const listChanged = { tools: { autoRefresh: false, onChanged: () => say({ listChanged: true }) } };
const { SALLYPORT_HOME, HOME, PATH } = process.env;
const server = { command, args, env: { SALLYPORT_HOME, HOME, PATH } };
let client, transport;
if (mode === 'v1') {
  const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
  client = new Client({ name: 'sdk-v1', version: '1' }, { listChanged });
  transport = new StdioClientTransport(server);
} else {
  const { Client } = await load('@modelcontextprotocol/client');
  const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
  client = new Client({ name: 'sdk-v2', version: '1' }, { listChanged, versionNegotiation: { mode } });
  transport = new StdioClientTransport(server);
}
client.onclose = () => say({ closed: true });
await client.connect(transport);
say({
  connected: true, pid: transport.pid, era: client.getProtocolEra?.() ?? 'legacy',
  listChangedDeclared: client.getServerCapabilities()?.tools?.listChanged === true,
});

const flying = new Map();
async function serve(w) {
  try {
    if (w.op === 'list') return say({ id: w.id, ok: true, result: await client.listTools() });
    if (w.op === 'abort') return flying.get(w.call)?.abort('enough');
    const abort = new AbortController();
    flying.set(w.id, abort);
    const options = { signal: abort.signal };
    if (w.timeout) options.timeout = w.timeout;
    if (w.progress) options.onprogress = p => say({ id: w.id, progress: p.progress });
    const params = { name: w.name, arguments: w.args };
    const result = await (mode === 'v1' ? client.callTool(params, undefined, options) : client.callTool(params, options));
    say({ id: w.id, ok: true, result });
  } catch (e) {
    say({ id: w.id, ok: false, error: String(e?.message ?? e), code: e?.code });
  }
}
for await (const line of createInterface({ input: process.stdin })) serve(JSON.parse(line));
await client.close();
process.exit(0);
