// A graph of LangGraph that can be killed while it runs:
//
//     node graph.js THREAD hang | go
//
// It prints the name of each node that runs, and at last its state. With hang,
// the node "slow" never ends.

import { Annotation, END, MemorySaver, START, StateGraph } from '@langchain/langgraph'
import { TidemarkSaver } from '../langgraph.ts'
import { connect } from '../tidemark.ts'

const State = Annotation.Root({
  ran: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
})

const [thread, mode] = process.argv.slice(2)

const node = (name: string) => async () => {
  console.log(name)
  if (name === 'slow' && mode === 'hang') await new Promise((never) => setInterval(never, 1 << 30).ref())
  return { ran: [name] }
}

const saver = new TidemarkSaver(connect(), new MemorySaver().serde)
const graph = new StateGraph(State)
  .addNode('first', node('first')).addNode('quick', node('quick')).addNode('slow', node('slow')).addNode('last', node('last'))
  .addEdge(START, 'first').addEdge('first', 'quick').addEdge('first', 'slow')
  .addEdge(['quick', 'slow'], 'last').addEdge('last', END)
  .compile({ checkpointer: saver })

// A run that finds a checkpoint goes on from it.
const config = { configurable: { thread_id: thread }, durability: 'sync' as const }
const begun = (await graph.getState(config)).next.length > 0
console.log(JSON.stringify(await graph.invoke(begun ? null : {}, config)))
