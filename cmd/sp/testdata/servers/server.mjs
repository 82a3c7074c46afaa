// An MCP server for tests. LEDGER is the file in which its writes count, one line each.
import fs from 'node:fs'
import readline from 'node:readline'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { word } from 'dep'

const revision = 'A'
const here = path.dirname(fileURLToPath(import.meta.url))
const send = (doc) => process.stdout.write(JSON.stringify(doc) + '\n')

const tools = {
  adjust: ({ marker = '-' }) => {
    fs.appendFileSync(process.env.LEDGER, `${marker} revision=${revision}\n`)
    return `${marker} revision=${revision} ${word}`
  },
  fetch: async (args) => {
    const { call } = await import('./sallyport.mjs')
    return JSON.stringify(await call('http_request', args))
  },
}

async function answer({ method, params = {} }) {
  switch (method) {
    case 'initialize':
      return { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'test', version: revision } }
    case 'tools/list':
      return { tools: JSON.parse(fs.readFileSync(path.join(here, 'tools.json'))) }
    case 'tools/call':
      return { content: [{ type: 'text', text: await tools[params.name](params.arguments ?? {}) }] }
  }
  return {}
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const m = JSON.parse(line)
  if (m.id === undefined || m.method === undefined) return
  try {
    send({ jsonrpc: '2.0', id: m.id, result: await answer(m) })
  } catch (e) {
    send({ jsonrpc: '2.0', id: m.id, error: { code: -32603, message: String(e) } })
  }
})
