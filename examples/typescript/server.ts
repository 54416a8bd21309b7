// A `tidemark serve` for tests, with a store that goes with it. The binary is
// in $TIDEMARK.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client } from './tidemark.ts'

export class Server {
  readonly #home = mkdtempSync(join(tmpdir(), 'tidemark-'))
  #port = 0
  #process: ChildProcess | undefined
  token = ''

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  client(options?: { patience?: number }): Client {
    return new Client(this.url, this.token, options)
  }

  async start(): Promise<this> {
    this.#port ||= await freePort()
    const home = this.#home
    const env = { PATH: process.env.PATH, HOME: home, XDG_DATA_HOME: `${home}/data`, XDG_CONFIG_HOME: `${home}/config` }
    const command = process.env.TIDEMARK ?? 'tidemark'
    this.#process = spawn(command, ['serve', '--addr', `127.0.0.1:${this.#port}`], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    const said: string[] = []
    const lines = createInterface({ input: this.#process.stderr! })
    await new Promise<void>((resolve, reject) => {
      lines.on('line', (line) => (said.push(line), line.startsWith('Serving') && resolve()))
      lines.on('close', () => reject(new Error('it does not serve: ' + said.join('\n'))))
    })
    this.token = readFileSync(`${home}/data/tidemark/server.token`, 'utf8').trim()
    return this
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.#process!.kill(signal)
    await once(this.#process!, 'exit')
  }

  /** As a power cut would end it, and back again. */
  async killAndRestart(): Promise<void> {
    await this.end('SIGKILL')
    await this.start()
  }

  async stop(): Promise<void> {
    await this.end('SIGTERM')
    rmSync(this.#home, { recursive: true })
  }
}

async function freePort(): Promise<number> {
  const s = createServer().listen(0, '127.0.0.1')
  await once(s, 'listening')
  const { port } = s.address() as { port: number }
  s.close()
  await once(s, 'close')
  return port
}
