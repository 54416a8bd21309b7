// LangGraph checkpoints on a Tidemark server.
//
//     const saver = new TidemarkSaver(connect(), new MemorySaver().serde)
//     const graph = builder.compile({ checkpointer: saver })
//     await saver.hold('thread-1', 'my worker', () =>   // one writer, if two could run the same thread
//       graph.invoke(input, { configurable: { thread_id: 'thread-1' } }))
//
// A thread is a session. Each checkpoint, and the pending writes of each task,
// are an entry of it, under a key made of their ids: what is put twice is there
// once. The class has the shape of LangGraph's BaseCheckpointSaver and imports
// nothing of it.

import { createHash } from 'node:crypto'
import { type Client, type Entry, NotFound, type NewEntry, type Session } from './tidemark.ts'

/** How LangGraph turns values into bytes. */
export interface Serializer {
  dumpsTyped(value: any): Promise<[string, Uint8Array]>
  loadsTyped(type: string, data: Uint8Array | string): Promise<any>
}

/** Values that are JSON, for programs without LangGraph. */
export const json: Serializer = {
  dumpsTyped: async (value) => ['json', new TextEncoder().encode(JSON.stringify(value))],
  loadsTyped: async (_, data) => JSON.parse(typeof data === 'string' ? data : new TextDecoder().decode(data)),
}

interface Config { configurable?: Record<string, any> }
interface Tuple { config: Config; checkpoint: any; metadata?: any; parentConfig?: Config; pendingWrites?: [string, string, unknown][] }
interface History { writes: [string, string, unknown][]; seed?: unknown }
interface Packed { type: string; text?: string; base64?: string }
interface Kept { thread: string; ns: string; id: string; parent?: string; writesFrom?: number; checkpoint: Packed; metadata: Packed }
interface KeptWrites { thread: string; ns: string; id: string; task: string; writes: { at: number; channel: string; value: Packed }[] }

const agent = 'langgraph'
const kindCheckpoint = 'graph_checkpoint'
const kindWrites = 'graph_writes'

/** Checkpoints may be large, and the newest is mostly the one that is wanted. */
const page = 10

/** Writes to these channels replace what the task wrote there before; all others are kept as they were first written. */
const special: Record<string, number> = { __error__: -1, __scheduled__: -2, __interrupt__: -3, __resume__: -4 }

export class TidemarkSaver {
  serde: Serializer
  #client: Client
  #threads = new Map<string, Promise<Session>>()
  #queues = new Map<string, Promise<unknown>>()
  /** Where the first writes of checkpoints are that were not put yet. */
  #early = new Map<string, number>()

  constructor(client: Client, serde: Serializer = json) {
    this.#client = client
    this.serde = serde
  }

  /** Be the only one who writes to a thread: Held names whoever else is. */
  async hold<T>(thread: string, holder: string, work: () => Promise<T>): Promise<T> {
    return (await this.#thread(thread)).lease(holder, work)
  }

  async get(config: Config): Promise<any> {
    return (await this.getTuple(config))?.checkpoint
  }

  async getTuple(config: Config): Promise<Tuple | undefined> {
    const { thread, ns = '', id } = placeOf(config)
    if (thread === undefined) return undefined
    await this.#queues.get(thread)
    for await (const found of this.#read(await this.#thread(thread), ns, id)) return found
    return undefined
  }

  async *list(config: Config, options: { limit?: number; before?: Config; filter?: Record<string, any> } = {}): AsyncGenerator<Tuple> {
    const { thread, ns, id } = placeOf(config)
    const before = options.before && placeOf(options.before).id
    let left = options.limit ?? Infinity
    for await (const session of this.#sessions(thread)) {
      for await (const found of this.#read(session, ns, id)) {
        if (before && placeOf(found.config).id! >= before) continue
        if (Object.entries(options.filter ?? {}).some(([k, v]) => found.metadata?.[k] !== v)) continue
        if (left-- <= 0) return
        yield found
      }
    }
  }

  async put(config: Config, checkpoint: any, metadata: any, _newVersions?: unknown): Promise<Config> {
    const { thread, ns = '', id: parent } = placeOf(config)
    if (thread === undefined) throw new Error('a checkpoint needs a thread_id in its configurable')
    await this.#append(thread, async () => {
      const extra: Kept = { thread, ns, id: checkpoint.id, parent, checkpoint: await this.#pack(checkpoint), metadata: await this.#pack(metadata) }
      return { kind: kindCheckpoint, key: keyOf(ns, checkpoint.id), extra }
    })
    return configOf(thread, ns, checkpoint.id)
  }

  async putWrites(config: Config, writes: [string, unknown][], task: string): Promise<void> {
    const { thread, ns = '', id } = placeOf(config)
    if (thread === undefined || id === undefined) throw new Error('writes need a thread_id and a checkpoint_id in their configurable')
    await this.#append(thread, async () => {
      const packed = await Promise.all(writes.map(async ([channel, value], i) => ({ at: special[channel] ?? i, channel, value: await this.#pack(value) })))
      const extra: KeptWrites = { thread, ns, id, task, writes: packed }
      // What a task wrote to special channels may change, so its values are part of the key.
      return { kind: kindWrites, key: keyOf(ns, id, task, JSON.stringify(packed)), extra }
    })
  }

  async deleteThread(thread: string): Promise<void> {
    await this.#queues.get(thread)
    await (await this.#thread(thread)).delete({ purge: true })
    this.#threads.delete(thread)
  }

  /**
   * What was written to channels on the way to a checkpoint, oldest first, since
   * the nearest one before it that holds their value, and that value.
   */
  async getDeltaChannelHistory({ config, channels }: { config: Config; channels: string[] }): Promise<Record<string, History>> {
    const histories: Record<string, History> = Object.fromEntries(channels.map((channel) => [channel, { writes: [] }]))
    const left = new Set(channels)
    const { thread, ns = '' } = placeOf(config)
    let next = (await this.getTuple(config))?.parentConfig
    if (thread === undefined || !next) return histories
    // A parent is put before its children, so one walk backwards meets them all.
    for await (const found of this.#read(await this.#thread(thread), ns, undefined)) {
      if (!next || left.size === 0) break
      if (placeOf(found.config).id !== placeOf(next).id) continue
      for (const channel of left) {
        const writes = (found.pendingWrites ?? []).filter((w) => w[1] === channel).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0))
        histories[channel]!.writes.unshift(...writes)
        if (!Object.hasOwn(found.checkpoint.channel_values, channel)) continue
        histories[channel]!.seed = found.checkpoint.channel_values[channel]
        left.delete(channel)
      }
      next = found.parentConfig
    }
    return histories
  }

  getNextVersion(current: number | undefined): number {
    return (current ?? 0) + 1
  }

  /** LangGraph puts a saver into objects that it prints. */
  toJSON(): string {
    return '[TidemarkSaver]'
  }

  #thread(thread: string): Promise<Session> {
    let session = this.#threads.get(thread)
    if (!session) {
      session = this.#client.open(thread, agent)
      session.catch(() => this.#threads.delete(thread))
      this.#threads.set(thread, session)
    }
    return session
  }

  async *#sessions(thread: string | undefined): AsyncGenerator<Session> {
    if (thread !== undefined) {
      await this.#queues.get(thread)
      yield await this.#thread(thread)
      return
    }
    await Promise.all(this.#queues.values())
    for await (const s of this.#client.sessions({ agent })) yield this.#client.session(s.id)
  }

  /** Append, one entry of a thread after the other. */
  #append(thread: string, make: () => Promise<NewEntry & { extra: Kept | KeptWrites }>): Promise<void> {
    const done = (this.#queues.get(thread) ?? Promise.resolve()).then(async () => {
      const entry = await make()
      // LangGraph does not wait for a checkpoint before it puts the writes that
      // belong to it, so they may come first. The checkpoint says so.
      const place = JSON.stringify([thread, entry.extra.ns, entry.extra.id])
      const early = this.#early.get(place)
      if (entry.kind === kindCheckpoint && early !== undefined) {
        entry.extra = { ...(entry.extra as Kept), writesFrom: early }
        this.#early.delete(place)
      }
      const seq = await this.#send(thread, entry)
      if (entry.kind === kindWrites && early === undefined) this.#early.set(place, seq)
    })
    const settled = done.catch(() => {}).then(() => {
      if (this.#queues.get(thread) === settled) this.#queues.delete(thread)
    })
    this.#queues.set(thread, settled)
    return done
  }

  async #send(thread: string, entry: NewEntry): Promise<number> {
    try {
      return (await (await this.#thread(thread)).append([entry]))[0]!
    } catch (err) {
      if (!(err instanceof NotFound)) throw err
      this.#threads.delete(thread) // somebody deleted it; it begins again
      return (await (await this.#thread(thread)).append([entry]))[0]!
    }
  }

  /**
   * The checkpoints of a session, newest first, of one namespace or of all, one
   * checkpoint or all of them. Mostly writes come behind their checkpoint, so a
   * walk backwards has them when it finds it.
   */
  async *#read(session: Session, ns: string | undefined, id: string | undefined): AsyncGenerator<Tuple> {
    const writes = new Map<string, KeptWrites[]>()
    for await (const e of entriesOf(session)) {
      const place = JSON.stringify([e.extra?.ns, e.extra?.id])
      if (e.kind === kindWrites) writes.set(place, [e.extra, ...(writes.get(place) ?? [])])
      if (e.kind !== kindCheckpoint || (ns !== undefined && e.extra.ns !== ns)) continue
      const kept: Kept = e.extra
      const pending = writes.get(place) ?? []
      writes.delete(place)
      if (id && kept.id !== id) continue
      const early: KeptWrites[] = []
      if (kept.writesFrom) {
        for await (const w of session.entries({ from: kept.writesFrom, to: e.seq })) {
          if (w.kind === kindWrites && w.extra.ns === kept.ns && w.extra.id === kept.id) early.push(w.extra)
        }
      }
      yield await this.#tuple(kept, [...early, ...pending])
      if (id) return
    }
  }

  async #tuple(kept: Kept, pending: KeptWrites[]): Promise<Tuple> {
    const slots = new Map<string, [string, string, unknown]>()
    for (const { task, writes } of pending) {
      for (const { at, channel, value } of writes) {
        const slot = JSON.stringify([task, at])
        if (at < 0 || !slots.has(slot)) slots.set(slot, [task, channel, await this.#unpack(value)])
      }
    }
    return {
      config: configOf(kept.thread, kept.ns, kept.id),
      checkpoint: await this.#unpack(kept.checkpoint),
      metadata: await this.#unpack(kept.metadata),
      ...(kept.parent ? { parentConfig: configOf(kept.thread, kept.ns, kept.parent) } : {}),
      pendingWrites: [...slots.values()],
    }
  }

  async #pack(value: unknown): Promise<Packed> {
    const [type, data] = await this.serde.dumpsTyped(value)
    return type === 'json' ? { type, text: new TextDecoder().decode(data) } : { type, base64: Buffer.from(data).toString('base64') }
  }

  #unpack(kept: Packed): Promise<any> {
    return this.serde.loadsTyped(kept.type, kept.text ?? new Uint8Array(Buffer.from(kept.base64 ?? '', 'base64')))
  }
}

/** A session from its end; one that somebody deleted has nothing. */
async function* entriesOf(session: Session): AsyncGenerator<Entry> {
  try {
    yield* session.backwards(page)
  } catch (err) {
    if (!(err instanceof NotFound)) throw err
  }
}

function placeOf(config: Config): { thread?: string; ns?: string; id?: string } {
  const { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } = config.configurable ?? {}
  return { thread, ns, id: id || undefined }
}

function configOf(thread_id: string, checkpoint_ns: string, checkpoint_id: string): Config {
  return { configurable: { thread_id, checkpoint_ns, checkpoint_id } }
}

function keyOf(...parts: string[]): string {
  return 'graph.' + createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}
