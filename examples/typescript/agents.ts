// A session of the OpenAI Agents SDK on a Tidemark server.
//
//     const session = new TidemarkSession('customer-17', connect())
//     await run(agent, 'When is high water?', { session })
//
// Each item is an entry, as it came, and as a message that people can read,
// search and export. What is popped or cleared leaves the branch, not the log:
// `tidemark tree` shows it.

import { type Client, type Entry, mostEntries, type NewEntry, type Session } from './tidemark.ts'

export const agent = 'openai-agents'

/** The first entry of every session. It is there so that an empty history is a place in the log, too: clearing goes back to it. */
export const opened: NewEntry = { kind: 'opened' }

export class TidemarkSession<Item extends object = any> {
  readonly sessionId: string
  #client: Client
  #kept: Promise<Session> | undefined

  constructor(sessionId: string, client: Client) {
    this.sessionId = sessionId
    this.#client = client
  }

  /** Be the only one who writes to this session: Held names whoever else is. */
  async hold<T>(holder: string, work: () => Promise<T>): Promise<T> {
    return (await this.#open()).lease(holder, work)
  }

  async getSessionId(): Promise<string> {
    return this.sessionId
  }

  async getItems(limit = Infinity): Promise<Item[]> {
    const found: Item[] = []
    if (limit <= 0) return found
    for await (const { item } of this.#items()) {
      if (found.push(item) >= limit) break
    }
    return found.reverse()
  }

  async addItems(items: Item[]): Promise<void> {
    for (let i = 0; i < items.length; i += mostEntries) {
      await (await this.#open()).append(items.slice(i, i + mostEntries).map(entryOf))
    }
  }

  async popItem(): Promise<Item | undefined> {
    const session = await this.#open()
    const pop = async () => {
      for await (const { item, entry } of this.#items()) {
        await session.branch(entry.parent!)
        return item
      }
      return undefined
    }
    // Between the look and the change nobody else may write.
    return session.leased ? pop() : session.lease('an agent that takes back its last item', pop)
  }

  async clearSession(): Promise<void> {
    await (await this.#open()).branch(1)
  }

  #open(): Promise<Session> {
    if (!this.#kept) {
      this.#kept = this.#client.open(this.sessionId, agent, [opened])
      this.#kept.catch(() => (this.#kept = undefined))
    }
    return this.#kept
  }

  /** The items with their entries, newest first. */
  async *#items(): AsyncGenerator<{ item: Item; entry: Entry }> {
    for await (const entry of (await this.#open()).backwards()) {
      if (entry.extra?.item) yield { item: entry.extra.item, entry }
    }
  }
}

/** An item as an entry: itself, and what of it people want to read. */
function entryOf(item: any): NewEntry {
  const extra = { item }
  if (['user', 'assistant', 'system', 'developer'].includes(item.role)) {
    return { role: item.role === 'developer' ? 'system' : item.role, blocks: [{ type: 'text', text: textOf(item.content) }], extra }
  }
  switch (item.type) {
    case 'function_call':
      return { role: 'assistant', blocks: [{ type: 'tool_use', id: item.callId, name: item.name, input: argumentsOf(item.arguments) }], extra }
    case 'function_call_result':
      return { role: 'tool', blocks: [{ type: 'tool_result', tool_use_id: item.callId, text: textOf(item.output) }], extra }
  }
  return { kind: 'item', extra }
}

function textOf(content: any): string {
  if (typeof content === 'string') return content
  return [content].flat().map((part) => part?.text ?? '').join('\n')
}

function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return { arguments: text }
  }
}
