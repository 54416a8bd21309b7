"""LangGraph checkpoints on a Tidemark server.

    saver = TidemarkSaver(tidemark.connect())
    graph = builder.compile(checkpointer=saver)
    with saver.hold("thread-1", "my worker"):   # one writer, if two could run the same thread
        graph.invoke(inputs, {"configurable": {"thread_id": "thread-1"}})

A thread is a session. Each checkpoint, and the pending writes of each task,
are an entry of it, under a key made of their ids: what is put twice is there
once. Without LangGraph installed this module runs too, with values that are
JSON.
"""

import asyncio
import base64
import contextlib
import hashlib
import json
import threading
import typing

import tidemark

try:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
except ImportError:

    class CheckpointTuple(typing.NamedTuple):
        config: dict
        checkpoint: dict
        metadata: dict
        parent_config: dict | None = None
        pending_writes: list | None = None

    class JSONSerializer:
        def dumps_typed(self, value):
            return "json", json.dumps(value).encode()

        def loads_typed(self, data):
            return json.loads(data[1])

    class BaseCheckpointSaver:
        def __init__(self, *, serde=None):
            self.serde = serde or JSONSerializer()

        def get(self, config):
            found = self.get_tuple(config)
            return found.checkpoint if found else None

        def get_next_version(self, current, channel=None):
            return 1 if current is None else current + 1


AGENT = "langgraph"
CHECKPOINT, WRITES = "graph_checkpoint", "graph_writes"

# Checkpoints may be large, and the newest is mostly the one that is wanted.
PAGE = 10

# Writes to these channels replace what the task wrote there before; all others
# are kept as they were first written.
SPECIAL = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}


class TidemarkSaver(BaseCheckpointSaver):
    def __init__(self, client, *, serde=None):
        super().__init__(serde=serde)
        self._client, self._lock = client, threading.Lock()
        self._threads = {}  # id to session, and the lock of whoever appends to it
        self._early = {}  # where the first writes of checkpoints are that were not put yet

    @contextlib.contextmanager
    def hold(self, thread_id, holder):
        """Be the only one who writes to a thread: tidemark.Held names whoever
        else is."""
        with self._thread(thread_id)[0].lease(holder):
            yield

    def get_tuple(self, config):
        thread, ns, id = place_of(config)
        return next(self._read(self._thread(thread)[0], ns, id), None)

    def list(self, config, *, filter=None, before=None, limit=None):
        thread, ns, id = place_of(config or {}, ns=None)
        sessions = [self._thread(thread)[0]] if thread else [self._client.session(s["id"]) for s in self._client.sessions(agent=AGENT)]
        earlier = before and before["configurable"].get("checkpoint_id")
        n = 0
        for session in sessions:
            for found in self._read(session, ns, id):
                if earlier and found.config["configurable"]["checkpoint_id"] >= earlier:
                    continue
                if any(found.metadata.get(k) != v for k, v in (filter or {}).items()):
                    continue
                if limit is not None and n >= limit:
                    return
                n += 1
                yield found

    def put(self, config, checkpoint, metadata, new_versions):
        thread, ns, parent = place_of(config)
        extra = {"thread": thread, "ns": ns, "id": checkpoint["id"], "parent": parent,
                 "checkpoint": self._pack(checkpoint), "metadata": self._pack(metadata)}
        self._append(thread, {"kind": CHECKPOINT, "key": key_of(ns, checkpoint["id"]), "extra": extra})
        return config_of(thread, ns, checkpoint["id"])

    def put_writes(self, config, writes, task_id, task_path=""):
        thread, ns, id = place_of(config)
        packed = [{"at": SPECIAL.get(channel, i), "channel": channel, "value": self._pack(value)} for i, (channel, value) in enumerate(writes)]
        extra = {"thread": thread, "ns": ns, "id": id, "task": task_id, "path": task_path, "writes": packed}
        # What a task wrote to special channels may change, so its values are part of the key.
        self._append(thread, {"kind": WRITES, "key": key_of(ns, id, task_id, json.dumps(packed, sort_keys=True)), "extra": extra})

    def delete_thread(self, thread_id):
        self._thread(thread_id)[0].delete(purge=True)
        with self._lock:
            self._threads.pop(thread_id, None)

    async def aget_tuple(self, config):
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config, **options):
        for found in await asyncio.to_thread(lambda: list(self.list(config, **options))):
            yield found

    async def aput(self, *args):
        return await asyncio.to_thread(self.put, *args)

    async def aput_writes(self, *args):
        return await asyncio.to_thread(self.put_writes, *args)

    async def adelete_thread(self, thread_id):
        return await asyncio.to_thread(self.delete_thread, thread_id)

    def _thread(self, thread_id):
        with self._lock:
            if thread_id not in self._threads:
                self._threads[thread_id] = self._client.open(thread_id, agent=AGENT), threading.Lock()
            return self._threads[thread_id]

    def _append(self, thread_id, entry):
        session, lock = self._thread(thread_id)
        with lock:
            # LangGraph does not wait for a checkpoint before it puts the writes
            # that belong to it, so they may come first. The checkpoint says so.
            extra = entry["extra"]
            place = thread_id, extra["ns"], extra["id"]
            if entry["kind"] == CHECKPOINT and place in self._early:
                extra["writes_from"] = self._early.pop(place)
            try:
                seq = session.append([entry])[0]
            except tidemark.NotFound:  # somebody deleted the thread; it begins again
                with self._lock:
                    self._threads.pop(thread_id, None)
                seq = self._thread(thread_id)[0].append([entry])[0]
            if entry["kind"] == WRITES:
                self._early.setdefault(place, seq)

    def _read(self, session, ns, id):
        """The checkpoints of a session, newest first, of one namespace or of
        all, one checkpoint or all of them. Mostly writes come behind their
        checkpoint, so a walk backwards has them when it finds it."""
        writes = {}
        with contextlib.suppress(tidemark.NotFound):
            for e in session.backwards(PAGE):
                extra = e.get("extra", {})
                place = extra.get("ns"), extra.get("id")
                if e["kind"] == WRITES:
                    writes.setdefault(place, []).insert(0, extra)
                if e["kind"] != CHECKPOINT or ns is not None and extra["ns"] != ns:
                    continue
                pending = writes.pop(place, [])
                if id and extra["id"] != id:
                    continue
                if "writes_from" in extra:
                    early = (w["extra"] for w in session.entries(from_=extra["writes_from"], to=e["seq"]) if w["kind"] == WRITES)
                    pending = [w for w in early if (w["ns"], w["id"]) == place] + pending
                yield self._tuple(extra, pending)
                if id:
                    return

    def _tuple(self, kept, pending):
        thread, ns, parent, slots = kept["thread"], kept["ns"], kept["parent"], {}
        for w in pending:
            for one in w["writes"]:
                slot = (w["task"], one["at"])
                if one["at"] < 0 or slot not in slots:
                    slots[slot] = (w["task"], one["channel"], self._unpack(one["value"]))
        return CheckpointTuple(config_of(thread, ns, kept["id"]), self._unpack(kept["checkpoint"]), self._unpack(kept["metadata"]),
                               config_of(thread, ns, parent) if parent else None, list(slots.values()))

    def _pack(self, value):
        kind, data = self.serde.dumps_typed(value)
        return {"type": kind, "text": data.decode()} if kind == "json" else {"type": kind, "base64": base64.b64encode(data).decode()}

    def _unpack(self, kept):
        data = kept["text"].encode() if "text" in kept else base64.b64decode(kept["base64"])
        return self.serde.loads_typed((kept["type"], data))


def place_of(config, ns=""):
    """Thread, namespace and checkpoint that a config names."""
    c = config.get("configurable", {})
    return c.get("thread_id"), c.get("checkpoint_ns", ns), c.get("checkpoint_id")


def config_of(thread, ns, id):
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def key_of(*parts):
    return "graph." + hashlib.sha256(json.dumps(parts).encode()).hexdigest()
