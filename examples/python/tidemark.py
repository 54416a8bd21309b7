"""A small client of `tidemark serve`, with nothing but the standard library.

    client = tidemark.connect()                      # $TIDEMARK_STORE, $TIDEMARK_TOKEN
    session = client.open("harbour", agent="pilot")  # made at first, the same one ever after
    session.append([{"role": "user", "content": "When is high water?"}])

An append returns when its entries are durable. It is sent under an
idempotency key, so a call whose answer was lost is sent again and is not done
twice. Calls that cannot be repeated safely are never repeated.
"""

import contextlib
import hashlib
import http.client
import json
import os
import random
import ssl
import threading
import time
import urllib.parse
import uuid

# How many entries one request may hold, and how many a page is asked for.
MOST_ENTRIES = 1000
PAGE = 100

# A quiet stream says something every 15 seconds; one that says nothing for
# longer than this is dead.
STREAM_SILENCE = 45.0

# A lease ends 30 seconds after it was last heard of.
RENEW_EVERY = 10.0


class TidemarkError(Exception):
    """What a server refused, or why it could not be reached."""

    def __init__(self, status, problem):
        self.status = status
        self.code = problem.get("code", "")
        self.detail = problem.get("detail") or problem.get("title") or f"status {status}"
        self.hint = problem.get("hint", "")
        self.errors = problem.get("errors", [])
        said = "; ".join(f"{e.get('where', '')}: {e['what']}" for e in self.errors)
        super().__init__(f"{self.detail} ({said})" if said else self.detail)


class NotFound(TidemarkError):
    """There is no such thing, or it is somebody else's."""


class Held(TidemarkError):
    """Another writer has the session; the message names it."""


class Conflict(TidemarkError):
    """Somebody else was quicker, or the lease is lost. Nothing was kept."""


class Denied(TidemarkError):
    """No valid token, or one that may not do this."""


class Invalid(TidemarkError):
    """What was asked for could never work."""


class Unavailable(TidemarkError):
    """The server was away, or too busy, for longer than the client's patience."""


KINDS = {400: Invalid, 401: Denied, 403: Denied, 404: NotFound, 409: Conflict, 412: Conflict, 413: Invalid,
         415: Invalid, 422: Invalid, 423: Held, 429: Unavailable, 502: Unavailable, 503: Unavailable, 504: Unavailable}


def connect():
    """A client of the server that the tidemark command would use."""
    token = os.environ.get("TIDEMARK_TOKEN", "")
    if not token and os.environ.get("TIDEMARK_TOKEN_FILE"):
        with open(os.environ["TIDEMARK_TOKEN_FILE"], encoding="utf-8") as f:
            token = f.read().strip()
    return Client(os.environ["TIDEMARK_STORE"], token)


class Client:
    """One server, on behalf of whoever the token is for. Threads may share it.

    patience is for how many seconds a call that is safe to repeat is repeated
    while the server is away.
    """

    def __init__(self, url, token, patience=30.0):
        at = urllib.parse.urlsplit(url)
        if at.scheme not in ("http", "https") or not at.hostname:
            raise ValueError(f"{url!r} is not the address of a server")
        self._at, self._token, self._patience = at, token, patience

    def session(self, id):
        """The session of an id. Whether there is one is seen when it is used."""
        return Session(self, id)

    def open(self, name, agent, entries=()):
        """The session that this agent knows under a name; it is made if there
        is none, with these entries, which have to be the same every time.

        The name makes the id, so two processes that open it at the same time
        get the same session.
        """
        key = "open." + hashlib.sha256(f"{agent}\0{name}".encode()).hexdigest()
        made = self.call("POST", "/sessions", {"title": name, "agent": agent, "entries": list(entries)}, key=key)
        return Session(self, made["id"])

    def create(self, **about):
        """A new session: title, agent, model, project, mode, tags, entries."""
        return Session(self, self.call("POST", "/sessions", about, key=str(uuid.uuid4()))["id"])

    def sessions(self, **query):
        """Every session, the one that changed last first: agent, project, search, status, since."""
        return self.pages("/sessions", query)

    def search(self, words, **query):
        """What was found, as a list of hits."""
        return self.call("GET", "/search", query={"q": words, **query})["items"]

    def pages(self, path, query):
        """Every item of a list, page after page."""
        query = {"limit": PAGE, **query}
        while True:
            page = self.call("GET", path, query=query)
            yield from page["items"]
            if not page.get("next"):
                return
            query = {**{k: v for k, v in query.items() if k not in ("from", "to", "at", "all", "worker")}, "cursor": page["next"]}

    def call(self, method, path, body=None, query=None, headers=None, key=None, repeat=None):
        """One call of the API; path is below /api/v1. It returns the JSON that
        was answered.

        A call is repeated while the server is away when that cannot do
        anything twice: what reads, replaces or removes, and what has an
        idempotency key. repeat says otherwise.
        """
        if repeat is None:
            repeat = key is not None or method in ("GET", "PUT", "DELETE")
        headers = {**(headers or {}), **({"Idempotency-Key": key} if key else {})}
        until, pause = time.monotonic() + self._patience, 0.05
        while True:
            try:
                return self._once(method, path, body, query, headers)
            except (Unavailable, OSError, http.client.HTTPException) as err:
                wait = max(pause * (1 + random.random()), getattr(err, "retry_after", 0))
                if not repeat or time.monotonic() + wait > until:
                    if isinstance(err, TidemarkError):
                        raise
                    raise Unavailable(0, {"code": "unavailable", "detail": f"{self._at.netloc}: {err or type(err).__name__}"}) from err
            time.sleep(wait)
            pause = min(2 * pause, 2.0)

    def _once(self, method, path, body, query, headers):
        with self._answer(method, path, body, query, headers, timeout=60.0) as answer:
            text = answer.read()
            out = json.loads(text) if text else {}
            if isinstance(out, dict) and answer.headers.get("ETag"):
                out["etag"] = answer.headers["ETag"]
            return out

    @contextlib.contextmanager
    def _answer(self, method, path, body, query, headers, timeout):
        # http.client follows no redirect and asks no proxy, so the token goes
        # to the host that was named and to no other.
        if self._at.scheme == "https":
            c = http.client.HTTPSConnection(self._at.netloc, timeout=timeout, context=ssl.create_default_context())
        else:
            c = http.client.HTTPConnection(self._at.netloc, timeout=timeout)
        query = {k: ("true" if v is True else v) for k, v in (query or {}).items() if v is not None and v is not False}
        where = self._at.path.rstrip("/") + "/api/v1" + path + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = {"Authorization": "Bearer " + self._token, **headers}
        if body is not None:
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        with contextlib.closing(c):
            c.request(method, where, body=body, headers=headers)
            answer = c.getresponse()
            if answer.status >= 300:
                raise problem_of(answer)
            yield answer


def problem_of(answer):
    try:
        problem = json.loads(answer.read())
        if not isinstance(problem, dict):
            problem = {}
    except ValueError:
        problem = {}  # a page of somebody on the way
    err = KINDS.get(answer.status, TidemarkError)(answer.status, problem)
    with contextlib.suppress(ValueError):
        err.retry_after = float(answer.headers.get("Retry-After", 0))
    return err


class Session:
    """One session of a server."""

    def __init__(self, client, id):
        self.client, self.id = client, id
        self._path = "/sessions/" + urllib.parse.quote(id, safe="")
        self._lease = None

    @property
    def leased(self):
        """Whether a with block of lease is under way."""
        return self._lease is not None

    def info(self):
        """What is said about the session, with its etag."""
        return self.client.call("GET", self._path)

    def change(self, etag=None, **what):
        """Change title, tags, pinned or hold; with an etag only if nobody did
        since: Conflict."""
        return self.client.call("PATCH", self._path, what, headers={"If-Match": etag} if etag else {})

    def delete(self, purge=False):
        """Move the session to the trash, or destroy it."""
        with contextlib.suppress(NotFound):  # an earlier try did it
            self.client.call("DELETE", self._path, query={"purge": purge})

    def append(self, entries, key=None):
        """Append entries, all of them or none, and return their seqs when they
        are durable. Held: another writer has the session. Conflict: the lease
        of this one is lost."""
        body = {"entries": list(entries)}
        if self._lease:
            body["lease"] = self._lease.token
        return self.client.call("POST", self._path + "/entries", body, key=key or str(uuid.uuid4()))["seqs"]

    def branch(self, seq):
        """Let the next entry follow an earlier one. Nothing is taken away."""
        return self.append([{"kind": "branch", "parent": seq}])[0]

    def entries(self, **query):
        """The branch from its beginning; at, from_, to, or all=True for the whole log."""
        if "from_" in query:
            query["from"] = query.pop("from_")
        return self.client.pages(self._path + "/entries", query)

    def tail(self, n):
        """The newest entries of the branch, oldest first."""
        return list(reversed([e for e, _ in zip(self.backwards(min(n, PAGE)), range(n))]))

    def backwards(self, page=PAGE):
        """The branch from its end, an entry at a time."""
        query = {"tail": page}
        while True:
            items = self.client.call("GET", self._path + "/entries", query=query)["items"]
            yield from reversed(items)
            if len(items) < page or not items[0].get("parent"):
                return
            query = {"before": items[0]["seq"], "limit": page}

    def follow(self, after=0):
        """Every entry behind a seq, now and as they are written, each once,
        however often the connection breaks. It ends when the session is
        removed. Conflict: the log went back, after a failover that lost its
        end; read it again."""
        until, pause = None, 0.05
        while True:
            try:
                for event, data in self._stream(after):
                    until, pause = None, 0.05
                    if event == "gone":
                        return
                    if event == "reset":
                        raise Conflict(409, {"code": "conflict", "detail": "the log went back"})
                    if event == "message":
                        yield data
                        after = data["seq"]
                    elif event == "problem":
                        raise KINDS.get(data.get("status"), TidemarkError)(data.get("status", 0), data)
            except (Unavailable, OSError, http.client.HTTPException) as err:
                until = until or time.monotonic() + self.client._patience
                if time.monotonic() > until:
                    raise Unavailable(0, {"code": "unavailable", "detail": str(err)}) from err
            time.sleep(pause * (1 + random.random()))
            pause = min(2 * pause, 2.0)

    def _stream(self, after):
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self.client._answer("GET", self._path + "/entries/stream", None, None, headers, STREAM_SILENCE) as answer:
            event, data = "message", []
            for line in iter(answer.readline, b""):
                line = line.decode().rstrip("\r\n")
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if field == "event":
                    event = value
                elif field == "data":
                    data.append(value)
                elif not line:
                    if data:
                        yield event, json.loads("\n".join(data))
                    event, data = "message", []

    @contextlib.contextmanager
    def lease(self, holder):
        """Be the only one who appends, for the length of a with block. Held:
        somebody else is, and the message says who."""
        # Not repeated: had the first try been heard, the second would find
        # the session held by the first.
        lease = Lease(self, self.client.call("POST", self._path + "/lease", {"holder": holder}, repeat=False)["token"])
        self._lease = lease
        try:
            yield lease
        finally:
            self._lease = None
            lease.end()


class Lease:
    """The right to append. It is renewed in the background until it ends."""

    def __init__(self, session, token):
        self._session, self.token, self._done = session, token, threading.Event()
        self.asked_by = None  # who wants the session
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()

    def _renew(self):
        while not self._done.wait(RENEW_EVERY):
            try:
                self.asked_by = self._session.client.call("PUT", self._session._path + "/lease", {"token": self.token}).get("asked_by")
            except Unavailable:
                continue
            except TidemarkError:
                return  # it is lost: the next append says so

    def end(self):
        self._done.set()
        with contextlib.suppress(TidemarkError):  # lost or not, it is not ours any more
            self._session.client.call("DELETE", self._session._path + "/lease", headers={"Lease-Token": self.token})
