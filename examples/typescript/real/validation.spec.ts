// LangChain's own suite for checkpointers, with the saver as its subject.

import { type CheckpointSaverTestInitializer, validate } from '@langchain/langgraph-checkpoint-validation'
import { type BaseCheckpointSaver, MemorySaver } from '@langchain/langgraph-checkpoint'
import { TidemarkSaver } from '../langgraph.ts'
import { Server } from '../server.ts'

let server: Server

const initializer: CheckpointSaverTestInitializer<BaseCheckpointSaver> = {
  checkpointerName: 'Tidemark',
  beforeAll: async () => void (server = await new Server().start()),
  afterAll: () => server.stop(),
  createCheckpointer: async () => {
    for await (const { id } of server.client().sessions({ agent: 'langgraph' })) await server.client().session(id).delete({ purge: true })
    return new TidemarkSaver(server.client(), new MemorySaver().serde)
  },
}

validate(initializer)
