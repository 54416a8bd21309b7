"""A session of the OpenAI Agents SDK on a Tidemark server.

    session = TidemarkSession("customer-17", tidemark.connect())
    await Runner.run(agent, "When is high water?", session=session)

Each item is an entry, as it came, and as a message that people can read,
search and export. What is popped or cleared leaves the branch, not the log:
`tidemark tree` shows it.
"""

import asyncio
import contextlib
import json
import threading

import tidemark

AGENT = "openai-agents"

# The first entry of every session. It is there so that an empty history is a
# place in the log, too: clearing goes back to it.
OPENED = {"kind": "opened"}


class TidemarkSession:
    session_settings = None

    def __init__(self, session_id, client):
        self.session_id, self._client = session_id, client
        self._kept, self._lock = None, threading.Lock()

    @contextlib.contextmanager
    def hold(self, holder):
        """Be the only one who writes to this session: tidemark.Held names
        whoever else is."""
        with self._open().lease(holder):
            yield

    async def get_items(self, limit=None):
        return await asyncio.to_thread(self._get, limit)

    async def add_items(self, items):
        await asyncio.to_thread(self._add, list(items))

    async def pop_item(self):
        return await asyncio.to_thread(self._pop)

    async def clear_session(self):
        await asyncio.to_thread(lambda: self._open().branch(1))

    def _open(self):
        with self._lock:
            if self._kept is None:
                self._kept = self._client.open(self.session_id, agent=AGENT, entries=[OPENED])
            return self._kept

    def _items(self):
        """The items with their entries, newest first."""
        for e in self._open().backwards():
            if "item" in e.get("extra", {}):
                yield e["extra"]["item"], e

    def _get(self, limit):
        found = [item for (item, _), _ in zip(self._items(), range(limit))] if limit is not None else [item for item, _ in self._items()]
        return found[::-1]

    def _add(self, items):
        for i in range(0, len(items), tidemark.MOST_ENTRIES):
            self._open().append([entry_of(item) for item in items[i:i + tidemark.MOST_ENTRIES]])

    def _pop(self):
        session = self._open()
        # Between the look and the change nobody else may write.
        with contextlib.nullcontext() if session.leased else session.lease("an agent that takes back its last item"):
            for item, e in self._items():
                session.branch(e["parent"])
                return item
        return None


def entry_of(item):
    """An item as an entry: itself, and what of it people want to read."""
    kind, role, entry = item.get("type"), item.get("role"), {"extra": {"item": item}}
    if role in ("user", "assistant", "system", "developer"):
        return {**entry, "role": "system" if role == "developer" else role, "blocks": [{"type": "text", "text": text_of(item.get("content"))}]}
    if kind == "function_call":
        return {**entry, "role": "assistant", "blocks": [{"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": arguments_of(item)}]}
    if kind == "function_call_output":
        return {**entry, "role": "tool", "blocks": [{"type": "tool_result", "tool_use_id": item["call_id"], "text": text_of(item.get("output"))}]}
    return {**entry, "kind": "item"}


def text_of(content):
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(p.get("text", "") if isinstance(p, dict) else str(p) for p in parts)


def arguments_of(call):
    try:
        return json.loads(call["arguments"])
    except ValueError:
        return {"arguments": call["arguments"]}
