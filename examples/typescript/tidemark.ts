// A small client of `tidemark serve`, with nothing but fetch.
//
//     const client = connect()                                   // $TIDEMARK_STORE, $TIDEMARK_TOKEN
//     const session = await client.open('harbour', 'pilot')      // made at first, the same one ever after
//     await session.append([{ role: 'user', content: 'When is high water?' }])
//
// An append resolves when its entries are durable. It is sent under an
// idempotency key, so a call whose answer was lost is sent again and is not
// done twice. Calls that cannot be repeated safely are never repeated.

import { createHash, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** How many entries one request may hold. */
export const mostEntries = 1000

/** How many entries or sessions a page is asked for. */
const pageSize = 100

/** A quiet stream says something every 15 seconds; one that says nothing for longer than this is dead. */
const streamSilence = 45_000

/** How long one call may take. */
const callTime = 60_000

/** A lease ends 30 seconds after it was last heard of. */
const renewEvery = 10_000

export interface Block { type: string; text?: string; id?: string; name?: string; input?: unknown; tool_use_id?: string }

/** An entry to append. One without a kind is a message and has a role. */
export interface NewEntry { kind?: string; role?: string; content?: string; blocks?: Block[]; key?: string; parent?: number; extra?: unknown }

/** An entry as it is kept. */
export interface Entry { seq: number; parent?: number; at: string; kind: string; role?: string; blocks?: Block[]; key?: string; extra?: any }

export interface SessionInfo { id: string; title?: string; agent?: string; entries: number; state: string; etag?: string }

/** What is asked for behind the ? of an address. */
type Query = Record<string, string | number | boolean | undefined>

interface Problem { code?: string; title?: string; detail?: string; hint?: string; status?: number; errors?: { where?: string; what: string }[] }

/** What a server refused, or why it could not be reached. */
export class TidemarkError extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string
  /** After how many milliseconds it is worth trying again. */
  retryAfter = 0

  constructor(status: number, problem: Problem, options?: ErrorOptions) {
    const said = (problem.errors ?? []).map((e) => `${e.where ?? ''}: ${e.what}`).join('; ')
    const detail = problem.detail ?? problem.title ?? `status ${status}`
    super(said ? `${detail} (${said})` : detail, options)
    this.name = new.target.name
    this.status = status
    this.code = problem.code ?? ''
    this.hint = problem.hint ?? ''
  }
}

/** There is no such thing, or it is somebody else's. */
export class NotFound extends TidemarkError {}
/** Another writer has the session; the message names it. */
export class Held extends TidemarkError {}
/** Somebody else was quicker, or the lease is lost. Nothing was kept. */
export class Conflict extends TidemarkError {}
/** No valid token, or one that may not do this. */
export class Denied extends TidemarkError {}
/** What was asked for could never work. */
export class Invalid extends TidemarkError {}
/** The server was away, or too busy, for longer than the client's patience. */
export class Unavailable extends TidemarkError {}

const kinds: Record<number, typeof TidemarkError> = {
  400: Invalid, 401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 412: Conflict, 413: Invalid,
  415: Invalid, 422: Invalid, 423: Held, 429: Unavailable, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}

const errorOf = (status: number, problem: Problem) => new (kinds[status] ?? TidemarkError)(status, problem)

/** A client of the server that the tidemark command would use. */
export function connect(): Client {
  const { TIDEMARK_STORE: url, TIDEMARK_TOKEN: token, TIDEMARK_TOKEN_FILE: file } = process.env
  if (!url) throw new Error('TIDEMARK_STORE does not name a server')
  return new Client(url, token || (file ? readFileSync(file, 'utf8').trim() : ''))
}

interface Call { body?: unknown; query?: Query; headers?: Record<string, string>; key?: string; repeat?: boolean }

/** One server, on behalf of whoever the token is for. */
export class Client {
  readonly url: string
  /** For how many milliseconds a call that is safe to repeat is repeated while the server is away. */
  readonly patience: number
  readonly #token: string

  constructor(url: string, token: string, options: { patience?: number } = {}) {
    this.url = url.replace(/\/+$/, '')
    this.#token = token
    this.patience = options.patience ?? 30_000
  }

  /** The session of an id. Whether there is one is seen when it is used. */
  session(id: string): Session {
    return new Session(this, id)
  }

  /**
   * The session that an agent knows under a name; it is made if there is none,
   * with these entries, which have to be the same every time. The name makes
   * the id, so two processes that open it at the same time get the same session.
   */
  async open(name: string, agent: string, entries: NewEntry[] = []): Promise<Session> {
    const key = 'open.' + createHash('sha256').update(`${agent}\0${name}`).digest('hex')
    const made = await this.call<SessionInfo>('POST', '/sessions', { body: { title: name, agent, entries }, key })
    return new Session(this, made.id)
  }

  /** A new session: title, agent, model, project, mode, tags, entries. */
  async create(about: Record<string, unknown> = {}): Promise<Session> {
    const made = await this.call<SessionInfo>('POST', '/sessions', { body: about, key: randomUUID() })
    return new Session(this, made.id)
  }

  /** Every session, the one that changed last first: agent, project, search, status, since. */
  sessions(query: Query = {}): AsyncGenerator<SessionInfo> {
    return this.pages<SessionInfo>('/sessions', query)
  }

  /** Every item of a list, page after page. */
  async *pages<T>(path: string, query: Query): AsyncGenerator<T> {
    let ask: Query = { limit: pageSize, ...query }
    for (;;) {
      const page = await this.call<{ items: T[]; next?: string }>('GET', path, { query: ask })
      yield* page.items
      if (!page.next) return
      const { from, to, at, all, worker, ...rest } = ask // the cursor knows them
      ask = { ...rest, cursor: page.next }
    }
  }

  /**
   * One call of the API; path is below /api/v1. A call is repeated while the
   * server is away when that cannot do anything twice: what reads, replaces or
   * removes, and what has an idempotency key. repeat says otherwise.
   */
  async call<T>(method: string, path: string, c: Call = {}): Promise<T> {
    const repeat = c.repeat ?? (c.key !== undefined || ['GET', 'PUT', 'DELETE'].includes(method))
    const until = Date.now() + this.patience
    for (let pause = 50; ; pause = Math.min(2 * pause, 2000)) {
      try {
        const answer = await this.answer(method, path, c, AbortSignal.timeout(callTime))
        const text = await answer.text()
        const out = text ? JSON.parse(text) : {}
        const etag = answer.headers.get('etag')
        return etag ? { ...out, etag } : out
      } catch (cause) {
        const err = asError(cause)
        const wait = Math.max(pause * (1 + Math.random()), err.retryAfter)
        if (!(err instanceof Unavailable) || !repeat || Date.now() + wait > until) throw err
        await sleep(wait)
      }
    }
  }

  /** The answer to one request that is sent once. Whatever is no success is thrown. */
  async answer(method: string, path: string, c: Call, signal: AbortSignal): Promise<Response> {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries(c.query ?? {})) {
      if (value !== undefined && value !== false) query.set(name, String(value))
    }
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#token}`, ...c.headers }
    if (c.key) headers['Idempotency-Key'] = c.key
    if (c.body !== undefined) headers['Content-Type'] = 'application/json'
    const answer = await fetch(`${this.url}/api/v1${path}${query.size ? '?' + query : ''}`, {
      // The token goes to the host that was named and to no other.
      method, headers, signal, redirect: 'error', body: c.body === undefined ? undefined : JSON.stringify(c.body),
    })
    if (answer.ok) return answer
    const problem = (await answer.json().catch(() => ({}))) as Problem // a page of somebody on the way
    const err = errorOf(answer.status, problem)
    err.retryAfter = 1000 * Number(answer.headers.get('retry-after') ?? 0) || 0
    throw err
  }
}

/** What broke on the way to the server and back, as an error of this client. */
function asError(cause: unknown): TidemarkError {
  if (cause instanceof TidemarkError) return cause
  const inner = cause instanceof Error ? (cause.cause instanceof Error ? cause.cause : cause) : new Error(String(cause))
  return new Unavailable(0, { code: 'unavailable', detail: inner.message }, { cause })
}

/** One session of a server. */
export class Session {
  readonly client: Client
  readonly id: string
  readonly #path: string
  #lease: Lease | undefined

  constructor(client: Client, id: string) {
    this.client = client
    this.id = id
    this.#path = `/sessions/${encodeURIComponent(id)}`
  }

  /** Whether a lease is under way. */
  get leased(): boolean {
    return this.#lease !== undefined
  }

  /** What is said about the session, with its etag. */
  info(): Promise<SessionInfo> {
    return this.client.call('GET', this.#path)
  }

  /** Change title, tags, pinned or hold; with an etag only if nobody did since: Conflict. */
  change(what: Record<string, unknown>, etag?: string): Promise<SessionInfo> {
    return this.client.call('PATCH', this.#path, { body: what, headers: etag ? { 'If-Match': etag } : {} })
  }

  /** Move the session to the trash, or destroy it. */
  async delete(options: { purge?: boolean } = {}): Promise<void> {
    await this.client.call('DELETE', this.#path, { query: options }).catch((err) => {
      if (!(err instanceof NotFound)) throw err // an earlier try did it
    })
  }

  /**
   * Append entries, all of them or none; their seqs, when they are durable.
   * Held: another writer has the session. Conflict: the lease of this one is lost.
   */
  async append(entries: NewEntry[], key: string = randomUUID()): Promise<number[]> {
    const body = { entries, lease: this.#lease?.token }
    return (await this.client.call<{ seqs: number[] }>('POST', `${this.#path}/entries`, { body, key })).seqs
  }

  /** Let the next entry follow an earlier one. Nothing is taken away. */
  async branch(seq: number): Promise<void> {
    await this.append([{ kind: 'branch', parent: seq }])
  }

  /** The branch from its beginning: from, to, at; or all for the whole log. */
  entries(query: Query = {}): AsyncGenerator<Entry> {
    return this.client.pages<Entry>(`${this.#path}/entries`, query)
  }

  /** The branch from its end, an entry at a time. */
  async *backwards(page = pageSize): AsyncGenerator<Entry> {
    let query: Query = { tail: page }
    for (;;) {
      const { items } = await this.client.call<{ items: Entry[] }>('GET', `${this.#path}/entries`, { query })
      yield* [...items].reverse()
      if (items.length < page || !items[0]?.parent) return
      query = { before: items[0].seq, limit: page }
    }
  }

  /**
   * Every entry behind a seq, now and as they are written, each once, however
   * often the connection breaks. It ends when the session is removed.
   * Conflict: the log went back, after a failover that lost its end.
   */
  async *follow(after = 0): AsyncGenerator<Entry> {
    let until = 0
    for (let pause = 50; ; pause = Math.min(2 * pause, 2000)) {
      try {
        for await (const { event, data } of this.#stream(after)) {
          until = 0
          pause = 50
          if (event === 'gone') return
          if (event === 'problem') throw errorOf(data.status, data)
          if (event === 'reset') throw errorOf(409, { code: 'conflict', detail: 'the log went back' })
          if (event !== 'message') continue
          yield data
          after = data.seq
        }
      } catch (cause) {
        const err = asError(cause)
        until ||= Date.now() + this.client.patience
        if (!(err instanceof Unavailable) || Date.now() > until) throw err
      }
      await sleep(pause * (1 + Math.random()))
    }
  }

  async *#stream(after: number): AsyncGenerator<{ event: string; data: any }> {
    const stop = new AbortController()
    const silent = () => stop.abort(new Error('the stream fell silent'))
    let timer = setTimeout(silent, streamSilence)
    try {
      const headers = { Accept: 'text/event-stream', 'Last-Event-ID': String(after) }
      const answer = await this.client.answer('GET', `${this.#path}/entries/stream`, { headers }, stop.signal)
      const text = new TextDecoder()
      let rest = ''
      for await (const chunk of answer.body as any as AsyncIterable<Uint8Array>) {
        clearTimeout(timer)
        timer = setTimeout(silent, streamSilence)
        const events = (rest + text.decode(chunk, { stream: true })).split('\n\n')
        rest = events.pop() ?? ''
        for (const one of events) {
          const lines = one.split('\n')
          const all = (field: string) => lines.filter((l) => l.startsWith(field + ': ')).map((l) => l.slice(field.length + 2))
          const data = all('data').join('\n')
          if (data) yield { event: all('event')[0] ?? 'message', data: JSON.parse(data) }
        }
      }
    } finally {
      clearTimeout(timer)
      stop.abort()
    }
  }

  /**
   * Be the only one who appends while work is under way. Held: somebody else
   * is, and the message says who.
   */
  async lease<T>(holder: string, work: (lease: Lease) => Promise<T>): Promise<T> {
    // Not repeated: had the first try been heard, the second would find the
    // session held by the first.
    const { token } = await this.client.call<{ token: string }>('POST', `${this.#path}/lease`, { body: { holder }, repeat: false })
    const lease: Lease = { token, askedBy: undefined }
    this.#lease = lease
    const renewer = setInterval(() => this.#renew(lease), renewEvery)
    try {
      return await work(lease)
    } finally {
      clearInterval(renewer)
      this.#lease = undefined
      // Lost or not, it is not ours any more.
      await this.client.call('DELETE', `${this.#path}/lease`, { headers: { 'Lease-Token': token } }).catch(() => {})
    }
  }

  async #renew(lease: Lease): Promise<void> {
    const renewed = this.client.call<{ asked_by?: string }>('PUT', `${this.#path}/lease`, { body: { token: lease.token } })
    lease.askedBy = await renewed.then((r) => r.asked_by, () => undefined) // where it is lost the next append says so
  }
}

/** The right to append. It is renewed until it ends. */
export interface Lease { token: string; askedBy: string | undefined }
