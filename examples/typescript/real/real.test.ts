// The adapters under the libraries that they are for.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Annotation, Command, interrupt, MemorySaver, START, StateGraph } from '@langchain/langgraph'
import { Agent, type Model, type ModelRequest, type ModelResponse, run, setTracingDisabled, tool, Usage } from '@openai/agents'
import { z } from 'zod'
import { TidemarkSession } from '../agents.ts'
import { TidemarkSaver } from '../langgraph.ts'
import { Server } from '../server.ts'

const server = new Server()
before(() => server.start())
after(() => server.stop())

const saver = () => new TidemarkSaver(server.client(), new MemorySaver().serde)

function startGraph(thread: string, mode: string) {
  const env = { ...process.env, TIDEMARK_STORE: server.url, TIDEMARK_TOKEN: server.token }
  const child = spawn(process.execPath, [fileURLToPath(new URL('graph.js', import.meta.url)), thread, mode], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const said: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => said.push(line))
  return { child, said }
}

test('a graph that was killed goes on, and what was done is not done again', async () => {
  const thread = randomUUID()
  const config = { configurable: { thread_id: thread } }
  const first = startGraph(thread, 'hang')
  while (!first.said.includes('slow') || !(await saver().getTuple(config))?.pendingWrites?.length) await sleep(20)
  first.child.kill('SIGKILL')
  await once(first.child, 'close')
  assert.deepEqual([...first.said].sort(), ['first', 'quick', 'slow'])
  await server.killAndRestart()

  const second = startGraph(thread, 'go')
  await once(second.child, 'close')
  assert.deepEqual(second.said.slice(0, -1), ['slow', 'last'])
  assert.deepEqual(JSON.parse(second.said.at(-1)!), { ran: ['first', 'quick', 'slow', 'last'] })
})

test('a graph that asked a person waits for the answer, with any durability', async () => {
  const State = Annotation.Root({ answer: Annotation<string> })
  const build = () => new StateGraph(State).addNode('ask', () => ({ answer: interrupt('Cast off?') as string })).addEdge(START, 'ask').compile({ checkpointer: saver() })
  for (const durability of ['sync', 'async', 'exit'] as const) {
    const config = { configurable: { thread_id: randomUUID() }, durability }
    await build().invoke({ answer: '' }, config)
    await server.killAndRestart()
    assert.equal((await build().getState(config)).tasks[0]?.interrupts[0]?.value, 'Cast off?')
    assert.deepEqual(await build().invoke(new Command({ resume: 'yes' }), config), { answer: 'yes' })
  }
})

test('a graph can be taken back to an earlier checkpoint', async () => {
  const State = Annotation.Root({ n: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }) })
  const graph = new StateGraph(State).addNode('add', () => ({ n: 10 })).addEdge(START, 'add').compile({ checkpointer: saver() })
  const config = { configurable: { thread_id: randomUUID() } }
  await graph.invoke({ n: 1 }, config)
  await graph.invoke({ n: 2 }, config)
  const history = []
  for await (const state of graph.getStateHistory(config)) history.push(state)
  assert.deepEqual(history.map((s) => s.values.n), [23, 13, 11, 11, 1, 0])
  const earlier = history.find((s) => s.values.n === 1)!
  assert.deepEqual(await graph.invoke(null, earlier.config), { n: 11 })
})

/** A model that calls a tool when it is asked something and answers with what the tool said. */
class Parrot implements Model {
  readonly asked: ModelRequest[] = []

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    this.asked.push(structuredClone({ ...request, signal: undefined, tools: [], handoffs: [] }))
    const last = (request.input as any[]).at(-1)
    const output: any[] = last.type === 'function_call_result'
      ? [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: `It is ${last.output.text}.` }] }]
      : [{ type: 'function_call', callId: randomUUID(), name: 'tide', status: 'completed', arguments: '{"place":"Harwich"}' }]
    return { usage: new Usage(), output }
  }

  async *getStreamedResponse(): AsyncGenerator<never> {
    throw new Error('it does not stream')
  }
}

test('an agent remembers what it was told before the server was killed', async () => {
  setTracingDisabled(true)
  const model = new Parrot()
  const tide = tool({ name: 'tide', description: 'the tide', parameters: z.object({ place: z.string() }), execute: async ({ place }) => `high at ${place}` })
  const agent = new Agent({ name: 'pilot', model, tools: [tide] })
  const name = randomUUID()
  const first = await run(agent, 'How is the tide?', { session: new TidemarkSession(name, server.client()) })
  assert.equal(first.finalOutput, 'It is high at Harwich.')
  await server.killAndRestart()
  const session = new TidemarkSession(name, server.client())
  assert.deepEqual((await session.getItems()).map((i) => i.role ?? i.type), ['user', 'function_call', 'function_call_result', 'assistant'])
  await run(agent, 'And now?', { session })
  const kinds = (model.asked.at(-2)!.input as any[]).map((i) => i.role ?? i.type)
  assert.deepEqual(kinds, ['user', 'function_call', 'function_call_result', 'assistant', 'user'])
  assert.equal((await session.getItems()).length, 8)
})
