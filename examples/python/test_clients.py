"""Runs the client and both adapters against a real server, which is killed on
the way.

    TIDEMARK=path/to/tidemark python3 test_clients.py
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tidemark
from agents_session import AGENT, OPENED, TidemarkSession
from langgraph_saver import TidemarkSaver


class Server:
    """`tidemark serve` with a store that goes with it."""

    def __init__(self):
        self._home = tempfile.TemporaryDirectory()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self._port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self):
        home = self._home.name
        env = {"PATH": os.environ["PATH"], "HOME": home, "XDG_DATA_HOME": home + "/data", "XDG_CONFIG_HOME": home + "/config"}
        self._process = subprocess.Popen([os.environ.get("TIDEMARK", "tidemark"), "serve", "--addr", f"127.0.0.1:{self._port}"],
                                         env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        said = []
        for line in self._process.stderr:
            said.append(line)
            if line.startswith("Serving"):
                break
        else:
            raise RuntimeError("it does not serve: " + "".join(said))
        threading.Thread(target=self._listen, args=[self._process.stderr], daemon=True).start()
        with open(home + "/data/tidemark/server.token", encoding="utf-8") as f:
            self._token = f.read().strip()

    def _listen(self, stderr):
        """Read what it says, so that it never waits for us."""
        with stderr:
            stderr.read()

    def client(self, **options):
        return tidemark.Client(self.url, self._token, **options)

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self):
        self._process.terminate()
        self._process.wait()
        self._home.cleanup()


def setUpModule():
    global server
    server = Server()


def tearDownModule():
    server.stop()


def texts(session):
    return [e["blocks"][0]["text"] for e in session.entries() if "blocks" in e]


class TheClient(unittest.TestCase):
    def test_what_is_opened_twice_is_one_session(self):
        name = str(uuid.uuid4())
        a, b = server.client().open(name, agent="test"), server.client().open(name, agent="test")
        self.assertEqual(a.id, b.id)
        self.assertNotEqual(a.id, server.client().open(name, agent="another").id)

    def test_an_append_that_is_sent_again_is_kept_once(self):
        s = server.client().create(title="twice")
        entry = [{"role": "user", "content": "once"}]
        self.assertEqual(s.append(entry, key="same-" + s.id), s.append(entry, key="same-" + s.id))
        self.assertEqual(texts(s), ["once"])
        with self.assertRaises(tidemark.Invalid):
            s.append([{"role": "user", "content": "other"}], key="same-" + s.id)

    def test_the_second_writer_is_told_who_the_first_is(self):
        s = server.client().create(title="held")
        other = server.client().session(s.id)
        with s.lease("the harbour master"):
            s.append([{"role": "user", "content": "mine"}])
            with self.assertRaises(tidemark.Held) as caught:
                other.append([{"role": "user", "content": "theirs"}])
            self.assertIn("the harbour master", str(caught.exception))
            with self.assertRaises(tidemark.Held) as caught, other.lease("somebody else"):
                pass
            self.assertIn("the harbour master", str(caught.exception))
        other.append([{"role": "user", "content": "theirs"}])
        self.assertEqual(texts(s), ["mine", "theirs"])

    def test_a_lost_lease_is_a_conflict(self):
        s = server.client().create(title="lost")
        with s.lease("first"):
            server.client().call("DELETE", f"/sessions/{s.id}/lease", query={"force": True})
            with server.client().session(s.id).lease("second"), self.assertRaises(tidemark.Conflict):
                s.append([{"role": "user", "content": "late"}])
        self.assertEqual(texts(s), [])

    def test_a_change_of_what_changed_since_is_a_conflict(self):
        s = server.client().create(title="a")
        etag = s.info()["etag"]
        s.change(etag=etag, title="b")
        with self.assertRaises(tidemark.Conflict):
            s.change(etag=etag, title="c")
        self.assertEqual(s.info()["title"], "b")

    def test_errors_say_what_is_wrong(self):
        client = server.client()
        with self.assertRaises(tidemark.NotFound):
            client.session(str(uuid.uuid4())).info()
        with self.assertRaises(tidemark.Denied):
            tidemark.Client(server.url, "guessed").create()
        with self.assertRaises(tidemark.Invalid):
            client.create().append([{"role": "nobody", "content": ""}])
        with self.assertRaises(tidemark.Unavailable):
            tidemark.Client("http://127.0.0.1:1", "", patience=0.2).create()

    def test_long_sessions_are_read_from_both_ends(self):
        s = server.client().create(title="long")
        s.append([{"role": "user", "content": str(n)} for n in range(250)])
        self.assertEqual(texts(s), [str(n) for n in range(250)])
        self.assertEqual([e["seq"] for e in s.backwards()], list(range(250, 0, -1)))
        self.assertEqual([e["seq"] for e in s.tail(120)], list(range(131, 251)))

    def test_nothing_is_lost_or_doubled_when_the_server_is_killed(self):
        client = server.client()
        s = client.create(title="killed")
        said, followed, done = [], [], threading.Event()

        def talk():
            for n in range(200):
                s.append([{"role": "user", "content": str(n)}])
                said.append(n)
            done.set()

        def follow():
            for e in client.session(s.id).follow():
                followed.append(e["blocks"][0]["text"])
                if len(followed) == 200:
                    return

        threads = [threading.Thread(target=talk), threading.Thread(target=follow)]
        for t in threads:
            t.start()
        for stop_at in (40, 80, 120):
            while len(said) < stop_at:
                done.wait(0.002)
            server.kill()
            server.start()
        for t in threads:
            t.join()
        want = [str(n) for n in range(200)]
        self.assertEqual(texts(s), want)
        self.assertEqual(followed, want)


def config(thread, ns="", id=None):
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **({"checkpoint_id": id} if id else {})}}


def checkpoint(id, **values):
    return {"v": 4, "id": id, "ts": "2026-01-01T00:00:00Z", "channel_values": values, "channel_versions": {}, "versions_seen": {}}


class TheSaver(unittest.TestCase):
    def setUp(self):
        self.thread = str(uuid.uuid4())
        self.saver = TidemarkSaver(server.client())

    def put(self, id, parent=None, ns="", **values):
        return self.saver.put(config(self.thread, ns, parent), checkpoint(id, **values), {"step": int(id), "source": "loop"}, {})

    def test_the_newest_checkpoint_comes_back_with_its_parent_and_writes(self):
        self.assertIsNone(self.saver.get_tuple(config(self.thread)))
        first = self.put("1", n=1)
        second = self.put("2", parent="1", n=2)
        self.saver.put_writes(second, [("n", 3), ("log", ["x"])], "task-1")
        self.saver.put_writes(second, [("n", 4)], "task-2")
        got = TidemarkSaver(server.client()).get_tuple(config(self.thread))
        self.assertEqual(got.config, second)
        self.assertEqual(got.checkpoint["channel_values"], {"n": 2})
        self.assertEqual(got.metadata, {"step": 2, "source": "loop"})
        self.assertEqual(got.parent_config, first)
        self.assertEqual(got.pending_writes, [("task-1", "n", 3), ("task-1", "log", ["x"]), ("task-2", "n", 4)])
        self.assertEqual(self.saver.get_tuple(first).checkpoint["channel_values"], {"n": 1})
        self.assertEqual(self.saver.get_tuple(first).pending_writes, [])
        self.assertIsNone(self.saver.get_tuple(config(self.thread, id="9")))

    def test_what_is_put_again_is_there_once(self):
        for _ in range(2):
            where = self.put("1", n=1)
            self.saver.put_writes(where, [("n", 2)], "task")
        self.assertEqual(len(list(self.saver.list(config(self.thread)))), 1)
        self.assertEqual(self.saver.get_tuple(where).pending_writes, [("task", "n", 2)])

    def test_writes_may_come_before_their_checkpoint(self):
        self.put("1")
        self.saver.put_writes(config(self.thread, id="2"), [("__interrupt__", "asked")], "task")
        self.saver.put_writes(config(self.thread, id="1"), [("n", 1)], "task")
        self.put("2", parent="1")
        self.saver.put_writes(config(self.thread, id="2"), [("n", 2)], "other")
        self.put("3", parent="2")
        self.assertEqual([t.pending_writes for t in TidemarkSaver(server.client()).list(config(self.thread))],
                         [[], [("task", "__interrupt__", "asked"), ("other", "n", 2)], [("task", "n", 1)]])

    def test_only_special_channels_are_replaced(self):
        where = self.put("1")
        self.saver.put_writes(where, [("n", 1), ("__interrupt__", "a")], "task")
        self.saver.put_writes(where, [("n", 2), ("__interrupt__", "b")], "task")
        self.assertEqual(sorted(self.saver.get_tuple(where).pending_writes), [("task", "__interrupt__", "b"), ("task", "n", 1)])

    def test_namespaces_of_one_thread_are_kept_apart(self):
        self.put("1", n="outer")
        self.put("2", ns="inner", n="inner")
        self.assertEqual(self.saver.get_tuple(config(self.thread)).checkpoint["channel_values"], {"n": "outer"})
        self.assertEqual(self.saver.get_tuple(config(self.thread, "inner")).checkpoint["channel_values"], {"n": "inner"})
        self.assertEqual(len(list(self.saver.list({"configurable": {"thread_id": self.thread}}))), 2)

    def test_lists_are_cut_and_filtered(self):
        for n in range(1, 31):
            self.put(f"{n:02}", parent=f"{n - 1:02}" if n > 1 else None)
        ids = lambda **o: [t.config["configurable"]["checkpoint_id"] for t in self.saver.list(config(self.thread), **o)]
        self.assertEqual(ids(), [f"{n:02}" for n in range(30, 0, -1)])
        self.assertEqual(ids(limit=2), ["30", "29"])
        self.assertEqual(ids(before=config(self.thread, id="04")), ["03", "02", "01"])
        self.assertEqual(ids(filter={"step": 7}), ["07"])
        everywhere = {t.config["configurable"]["thread_id"] for t in self.saver.list(None)}
        self.assertIn(self.thread, everywhere)

    def test_a_deleted_thread_is_gone_and_can_begin_again(self):
        other = TidemarkSaver(server.client())
        self.put("1")
        self.assertIsNotNone(other.get_tuple(config(self.thread)))
        self.saver.delete_thread(self.thread)
        self.assertIsNone(self.saver.get_tuple(config(self.thread)))
        other.put(config(self.thread), checkpoint("2"), {}, {})
        self.assertEqual([t.checkpoint["id"] for t in self.saver.list(config(self.thread))], ["2"])

    def test_two_runs_of_one_thread_are_told_apart(self):
        other = TidemarkSaver(server.client())
        with self.saver.hold(self.thread, "worker one"):
            self.put("1")
            with self.assertRaises(tidemark.Held) as caught:
                other.put(config(self.thread), checkpoint("2"), {}, {})
            self.assertIn("worker one", str(caught.exception))

    def test_async_calls_do_the_same(self):
        async def run():
            where = await self.saver.aput(config(self.thread), checkpoint("1", n=1), {}, {})
            await self.saver.aput_writes(where, [("n", 2)], "task")
            return await self.saver.aget_tuple(where), [t async for t in self.saver.alist(config(self.thread), limit=5)]

        got, listed = asyncio.run(run())
        self.assertEqual([got], listed)
        self.assertEqual(got.pending_writes, [("task", "n", 2)])


ITEMS = [
    {"role": "user", "content": "When is high water?"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "tides", "arguments": '{"at": "Ålesund"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "14:10"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "At 14:10."}]},
]


class TheAgentsSession(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.name = str(uuid.uuid4())
        self.session = TidemarkSession(self.name, server.client())

    async def test_items_come_back_as_they_were(self):
        self.assertEqual(await self.session.get_items(), [])
        await self.session.add_items(ITEMS)
        again = TidemarkSession(self.name, server.client())
        self.assertEqual(await again.get_items(), ITEMS)
        self.assertEqual(await again.get_items(2), ITEMS[-2:])
        self.assertEqual(await again.get_items(0), [])

    async def test_people_can_read_them(self):
        await self.session.add_items(ITEMS)
        kept = list(server.client().open(self.name, agent=AGENT, entries=[OPENED]).entries())
        self.assertEqual([e.get("role", e["kind"]) for e in kept], ["opened", "user", "item", "assistant", "tool", "assistant"])
        self.assertEqual(kept[3]["blocks"][0]["input"], {"at": "Ålesund"})
        self.assertEqual(kept[5]["blocks"][0]["text"], "At 14:10.")

    async def test_what_is_popped_is_off_the_branch_and_in_the_log(self):
        self.assertIsNone(await self.session.pop_item())
        await self.session.add_items(ITEMS[:2])
        self.assertEqual(await self.session.pop_item(), ITEMS[1])
        self.assertEqual(await self.session.pop_item(), ITEMS[0])
        self.assertIsNone(await self.session.pop_item())
        await self.session.add_items(ITEMS[4:])
        self.assertEqual(await self.session.get_items(), ITEMS[4:])
        log = server.client().open(self.name, agent=AGENT, entries=[OPENED]).entries(all=True)
        self.assertEqual([e["extra"]["item"] for e in log if "item" in e.get("extra", {})], ITEMS[:2] + ITEMS[4:])

    async def test_a_cleared_session_is_empty_and_goes_on(self):
        await self.session.add_items(ITEMS)
        await self.session.clear_session()
        self.assertEqual(await self.session.get_items(), [])
        await self.session.add_items(ITEMS[:1])
        self.assertEqual(await self.session.get_items(), ITEMS[:1])

    async def test_the_second_writer_is_told_who_the_first_is(self):
        other = TidemarkSession(self.name, server.client())
        with self.session.hold("agent one"):
            await self.session.add_items(ITEMS)
            self.assertEqual(await self.session.pop_item(), ITEMS[-1])
            for change in (other.add_items(ITEMS), other.pop_item(), other.clear_session()):
                with self.assertRaises(tidemark.Held) as caught:
                    await change
                self.assertIn("agent one", str(caught.exception))

    async def test_nothing_is_lost_or_doubled_when_the_server_is_killed(self):
        async def talk():
            for n in range(60):
                await self.session.add_items([{"role": "user", "content": str(n)}])

        async def kill():
            for stop_at in (10, 30):
                while len(await TidemarkSession(self.name, server.client()).get_items()) < stop_at:
                    pass
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)

        await asyncio.gather(talk(), kill())
        self.assertEqual([i["content"] for i in await self.session.get_items()], [str(n) for n in range(60)])


if __name__ == "__main__":
    unittest.main()
