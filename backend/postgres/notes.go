package postgres

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// What is shared with a scope has an index that belongs to the scope. Its keeper
// learns from notes, records of the scope, which sessions it has to look at: the
// transaction that shares, unshares or drops one puts them, and the one that says so
// of an owner's own index.

// indexedKinds are the logs that a search index has. Package store has the same list.
var indexedKinds = []string{"session", "worker", "past", "notes"}

// notedSession returns the session that a note is about, nil when the key is not
// that of a note.
func notedSession(k tidemark.Key) *id {
	if k.Kind != tidemark.KindUnindexed || len(k.ID) < 36 {
		return nil
	}
	return sessionOf(tidemark.Key{Kind: kindSession, ID: k.ID[:36]})
}

// tell has a batch tell the keepers what it changes of sessions that are shared.
func (a *applying) tell(w *writing, b *tidemark.Batch) {
	if b.Adopt {
		return
	}
	gone := make(map[id][]tidemark.ChangedLines)
	for _, k := range b.Drops {
		session := sessionOf(k)
		if session != nil && a.of(k).exists && slices.Contains(indexedKinds, k.Kind) {
			gone[*session] = append(gone[*session], tidemark.ChangedLines{Log: k, From: 1})
		}
	}
	for session, lines := range gone {
		for _, scope := range a.readers(session) {
			w.notes.add(scope, a.who.user, tidemark.NoteUnindexed(tidemark.SessionID(idText(session)), lines...), b.At, b.ID)
		}
	}
	for i := range b.Puts {
		session := notedSession(b.Puts[i].Key)
		if session == nil || b.Puts[i].Group != "" {
			continue
		}
		for _, scope := range a.readers(*session) {
			note := tidemark.NoteUnindexed(tidemark.SessionID(idText(*session)))
			note.Body = b.Puts[i].Body
			note.Sum = note.Checksum()
			w.notes.add(scope, a.who.user, note, b.At, b.ID)
		}
	}
}

const sqlPlain = `select exists (select from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind = $3 and r.id = $4)`

// readers returns the scopes whose index has a session: the one that it is shared
// with, and the tenant for what is the tenant's own.
func (a *applying) readers(session id) (scopes []id) {
	if a.who.user == a.who.tenant && a.plain {
		scopes = append(scopes, a.who.tenant)
	}
	if scope, ok := a.shares[session]; ok && scope != a.who.user {
		scopes = append(scopes, scope)
	}
	return scopes
}

// notesOut are notes on their way to the database.
type notesOut struct {
	scopes               []id
	ids, owners, batches []string
	ats, touched         []time.Time
	sums                 []int64
	bodies               [][]byte
}

func (o *notesOut) add(scope, owner id, note tidemark.Record, at time.Time, batch string) {
	o.scopes, o.ids, o.owners, o.batches = append(o.scopes, scope), append(o.ids, note.ID), append(o.owners, idText(owner)), append(o.batches, batch)
	o.ats, o.touched = append(o.ats, at), append(o.touched, windowEnd(at))
	o.sums, o.bodies = append(o.sums, int64(note.Sum)), append(o.bodies, note.Body)
}

var sqlNotes = fmt.Sprintf(`insert into tidemark.record (tenant, owner, kind, id, version, "group", state, updated, touched, batch, sum, body)
  select $1, u.owner, '%s', u.id, 1, u."group", '', u.at, u.touched, u.batch, u.sum, u.body
  from unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::bigint[], $9::bytea[])
    u(owner, id, "group", at, touched, batch, sum, body)`, tidemark.KindUnindexed)

func (o *notesOut) flush(batch *pgx.Batch, tenant id) {
	if len(o.ids) > 0 {
		batch.Queue(sqlNotes, tenant, o.scopes, o.ids, o.owners, o.ats, o.touched, o.batches, o.sums, o.bodies)
	}
	*o = notesOut{}
}
