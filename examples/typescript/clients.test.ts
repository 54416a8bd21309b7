// Runs the client and both adapters against a real server, which is killed on
// the way.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { agent, opened, TidemarkSession } from './agents.ts'
import { TidemarkSaver } from './langgraph.ts'
import { Server } from './server.ts'
import { Client, Conflict, Denied, Held, Invalid, NotFound, type Session, Unavailable } from './tidemark.ts'

const server = new Server()
before(() => server.start())
after(() => server.stop())

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const one of from) found.push(one)
  return found
}

const texts = async (s: Session) => (await all(s.entries())).map((e) => e.blocks?.[0]?.text)
const numbers = (n: number) => Array.from({ length: n }, (_, i) => String(i))
const say = (content: string) => ({ role: 'user', content })

test('what is opened twice is one session', async () => {
  const name = randomUUID()
  const [a, b] = await Promise.all([server.client().open(name, 'test'), server.client().open(name, 'test')])
  assert.equal(a.id, b.id)
  assert.notEqual(a.id, (await server.client().open(name, 'another')).id)
})

test('an append that is sent again is kept once', async () => {
  const s = await server.client().create({ title: 'twice' })
  const first = await s.append([say('once')], `same-${s.id}`)
  assert.deepEqual(await s.append([say('once')], `same-${s.id}`), first)
  assert.deepEqual(await texts(s), ['once'])
  await assert.rejects(s.append([say('other')], `same-${s.id}`), Invalid)
})

test('the second writer is told who the first is', async () => {
  const s = await server.client().create({ title: 'held' })
  const other = server.client().session(s.id)
  const named = (err: unknown) => err instanceof Held && err.message.includes('the harbour master')
  await s.lease('the harbour master', async () => {
    await s.append([say('mine')])
    await assert.rejects(other.append([say('theirs')]), named)
    await assert.rejects(other.lease('somebody else', async () => {}), named)
  })
  await other.append([say('theirs')])
  assert.deepEqual(await texts(s), ['mine', 'theirs'])
})

test('a lost lease is a conflict', async () => {
  const s = await server.client().create({ title: 'lost' })
  const other = server.client().session(s.id)
  await s.lease('first', async () => {
    await server.client().call('DELETE', `/sessions/${s.id}/lease`, { query: { force: true } })
    await other.lease('second', () => assert.rejects(s.append([say('late')]), Conflict))
  })
  assert.deepEqual(await texts(s), [])
})

test('a change of what changed since is a conflict', async () => {
  const s = await server.client().create({ title: 'a' })
  const { etag } = await s.info()
  await s.change({ title: 'b' }, etag)
  await assert.rejects(s.change({ title: 'c' }, etag), Conflict)
  assert.equal((await s.info()).title, 'b')
})

test('errors say what is wrong', async () => {
  await assert.rejects(server.client().session(randomUUID()).info(), NotFound)
  await assert.rejects(new Client(server.url, 'guessed').create(), Denied)
  await assert.rejects((await server.client().create()).append([{ role: 'nobody', content: '' }]), Invalid)
  await assert.rejects(new Client('http://127.0.0.1:1', '', { patience: 200 }).create(), Unavailable)
})

test('long sessions are read from both ends', async () => {
  const s = await server.client().create({ title: 'long' })
  await s.append(numbers(250).map(say))
  assert.deepEqual(await texts(s), numbers(250))
  assert.deepEqual((await all(s.backwards())).map((e) => e.seq), numbers(250).map((n) => 250 - Number(n)))
})

test('nothing is lost or doubled when the server is killed', async () => {
  const s = await server.client().create({ title: 'killed' })
  const followed: (string | undefined)[] = []
  let said = 0
  const talk = async () => {
    for (; said < 200; said++) await s.append([say(String(said))])
  }
  const follow = async () => {
    for await (const e of server.client().session(s.id).follow()) {
      if (followed.push(e.blocks?.[0]?.text) === 200) return
    }
  }
  const kill = async () => {
    for (const at of [40, 80, 120]) {
      while (said < at) await sleep(2)
      await server.killAndRestart()
    }
  }
  await Promise.all([talk(), follow(), kill()])
  assert.deepEqual(await texts(s), numbers(200))
  assert.deepEqual(followed, numbers(200))
})

const config = (thread: string, ns = '', id?: string) => ({ configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } })
const checkpoint = (id: string, values = {}) => ({ v: 4, id, ts: '2026-01-01T00:00:00Z', channel_values: values, channel_versions: {}, versions_seen: {} })

test('a checkpoint comes back with its parent and its writes, once', async () => {
  const [thread, saver] = [randomUUID(), new TidemarkSaver(server.client())]
  assert.equal(await saver.getTuple(config(thread)), undefined)
  const first = await saver.put(config(thread), checkpoint('1', { n: 1 }), { step: 1 })
  for (let twice = 0; twice < 2; twice++) {
    const second = await saver.put(first, checkpoint('2', { n: 2 }), { step: 2 })
    await saver.putWrites(second, [['n', 3], ['__interrupt__', 'a']], 'task')
  }
  await saver.putWrites(config(thread, '', '2'), [['n', 4], ['__interrupt__', 'b']], 'task')
  const got = await new TidemarkSaver(server.client()).getTuple(config(thread))
  assert.deepEqual(got, {
    config: config(thread, '', '2'), parentConfig: first, checkpoint: checkpoint('2', { n: 2 }), metadata: { step: 2 },
    pendingWrites: [['task', 'n', 3], ['task', '__interrupt__', 'b']],
  })
  assert.equal((await all(saver.list({ configurable: { thread_id: thread } }))).length, 2)
})

test('writes may come before their checkpoint', async () => {
  const [thread, saver] = [randomUUID(), new TidemarkSaver(server.client())]
  await Promise.all([
    saver.putWrites(config(thread, '', '1'), [['__interrupt__', 'asked']], 'task'),
    saver.put(config(thread), checkpoint('1'), {}),
    saver.putWrites(config(thread, '', '1'), [['n', 2]], 'other'),
  ])
  const got = await new TidemarkSaver(server.client()).getTuple(config(thread))
  assert.deepEqual(got?.pendingWrites, [['task', '__interrupt__', 'asked'], ['other', 'n', 2]])
})

test('a deleted thread is gone and can begin again', async () => {
  const [thread, saver, other] = [randomUUID(), new TidemarkSaver(server.client()), new TidemarkSaver(server.client())]
  await saver.put(config(thread), checkpoint('1'), {})
  assert.ok(await other.getTuple(config(thread)))
  await saver.deleteThread(thread)
  assert.equal(await saver.getTuple(config(thread)), undefined)
  await other.put(config(thread), checkpoint('2'), {})
  assert.deepEqual((await all(saver.list(config(thread)))).map((t) => t.checkpoint.id), ['2'])
})

test('two runs of one thread are told apart', async () => {
  const [thread, saver, other] = [randomUUID(), new TidemarkSaver(server.client()), new TidemarkSaver(server.client())]
  await saver.hold(thread, 'worker one', async () => {
    await saver.put(config(thread), checkpoint('1'), {})
    await assert.rejects(other.put(config(thread), checkpoint('2'), {}), (err) => err instanceof Held && err.message.includes('worker one'))
  })
})

const items = [
  { type: 'message', role: 'user', content: 'When is high water?' },
  { type: 'reasoning', content: [] },
  { type: 'function_call', callId: 'c1', name: 'tides', arguments: '{"at":"Ålesund"}', status: 'completed' },
  { type: 'function_call_result', callId: 'c1', name: 'tides', status: 'completed', output: { type: 'text', text: '14:10' } },
  { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'At 14:10.' }] },
]

test('items come back as they were, and people can read them', async () => {
  const [name, client] = [randomUUID(), server.client()]
  const session = new TidemarkSession(name, client)
  assert.deepEqual(await session.getItems(), [])
  await session.addItems(items)
  assert.deepEqual(await new TidemarkSession(name, client).getItems(), items)
  assert.deepEqual(await session.getItems(2), items.slice(-2))
  assert.deepEqual(await session.getItems(0), [])
  const kept = await all((await client.open(name, agent, [opened])).entries())
  assert.deepEqual(kept.map((e) => e.role ?? e.kind), ['opened', 'user', 'item', 'assistant', 'tool', 'assistant'])
  assert.deepEqual(kept[3]?.blocks?.[0]?.input, { at: 'Ålesund' })
  assert.equal(kept[4]?.blocks?.[0]?.text, '14:10')
})

test('what is popped or cleared is off the branch and in the log', async () => {
  const [name, client] = [randomUUID(), server.client()]
  const session = new TidemarkSession(name, client)
  assert.equal(await session.popItem(), undefined)
  await session.addItems(items.slice(0, 2))
  assert.deepEqual(await session.popItem(), items[1])
  assert.deepEqual(await session.popItem(), items[0])
  assert.equal(await session.popItem(), undefined)
  await session.addItems(items.slice(2, 4))
  await session.clearSession()
  assert.deepEqual(await session.getItems(), [])
  await session.addItems(items.slice(4))
  assert.deepEqual(await session.getItems(), items.slice(4))
  const log = await all((await client.open(name, agent, [opened])).entries({ all: true }))
  assert.deepEqual(log.filter((e) => e.extra?.item).map((e) => e.extra.item), items)
})

test('the second agent of a session is told who the first is', async () => {
  const [session, other] = [0, 0].map(() => new TidemarkSession('shared', server.client())) as [TidemarkSession, TidemarkSession]
  const named = (err: unknown) => err instanceof Held && err.message.includes('agent one')
  await session.hold('agent one', async () => {
    await session.addItems(items)
    assert.deepEqual(await session.popItem(), items.at(-1))
    await assert.rejects(other.addItems(items), named)
    await assert.rejects(other.popItem(), named)
    await assert.rejects(other.clearSession(), named)
  })
})
