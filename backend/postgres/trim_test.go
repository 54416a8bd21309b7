package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// commits commits a batch and returns the error.
func commits(t *testing.T, b *Backend, batch tidemark.Batch) error {
	t.Helper()
	batch.ID, batch.At = tidemark.NewBatchID(), at
	_, err := b.Commit(t.Context(), batch)
	return err
}

// Whoever goes on with a log whose older lines are elsewhere is refused on every way
// that a line can take: alone, in lists, with those of other users, and by a statement
// of a program that knows nothing of trims.
func TestNobodyGoesOnWithATrimmedLog(t *testing.T) {
	made := ready(t, Migration{})
	db := connected(t, made.Server, nil)
	all := several(t, db, 3)
	one := all[0]
	if err := commits(t, one.b, tidemark.Batch{Trims: []tidemark.Trim{{Log: one.log, Length: 3, Upto: 2}}}); err != nil {
		t.Fatal(err)
	}
	var trimmed *tidemark.TrimmedError
	lease := tidemark.Precondition{Key: one.lease, Version: 1}
	alone := under(one.log, 4, lease)
	listed := under(one.log, 4, lease)
	listed.Appends[0].Lines = append(listed.Appends[0].Lines, line(one.log, 5, "user", "{}"))
	for name, b := range map[string]tidemark.Batch{"alone": alone, "in a list": listed, "without a lease": {Appends: alone.Appends}} {
		if err := commits(t, one.b, b); !errors.As(err, &trimmed) || trimmed.Upto != 2 || trimmed.Log != one.log {
			t.Errorf("a line %s = %v", name, err)
		}
	}
	// Those of others who wrote at the same moment are kept.
	var group []*pending
	for _, g := range all {
		db.fences.settle([]*growing{{Append: &tidemark.Append{Log: g.log}, who: g.b.who, under: fence{lease: 1}, checked: true}}, true)
		group = append(group, g.next(4, 1))
	}
	together(t, all, group)
	if !errors.As(group[0].err, &trimmed) || group[1].err != nil || group[2].err != nil {
		t.Errorf("in a group = %v, %v, %v", group[0].err, group[1].err, group[2].err)
	}
	who := one.b.who
	c, err := pgx.Connect(t.Context(), made.Super)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	_, err = c.Exec(t.Context(), `update tidemark.log set length = 4 where tenant = $1 and owner = $2 and kind = 'session' and id = $3`, who.tenant, who.user, one.log.ID)
	if codeOf(err) != codeTrimmed || !strings.Contains(err.Error(), "brought back") {
		t.Errorf("an older program = %v", err)
	}
	if n := one.length(t); n != 3 {
		t.Errorf("the log has %d lines", n)
	}
}

// What says where lines are is shared as the session is, and never leaves the tenant.
func TestWhereLinesAreIsToldToWhoeverMayReadThem(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	owner, mate, stranger := db.For(person("ada", crew)), db.For(person("bob", crew)), db.For(person("eve", other))
	foreign := db.For(tidemark.Principal{Tenant: tidemark.IDOf("tenant", "rival"), User: person("ada").User, Workspaces: []string{crew}})
	log, where := key("session", string(session)), key("cold", string(session)+".session")
	talk(t, owner, log.ID)
	keep(t, owner, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 2, "user", "{}"), line(log, 3, "user", "{}")}}}})
	packed := packedLines(session)
	keep(t, owner, tidemark.Batch{Puts: []tidemark.Record{record(where, 1, `{"segments":[]}`)}, Trims: []tidemark.Trim{{Log: log, Length: 3, Upto: 2}},
		Appends: []tidemark.Append{{Log: packed, Lines: []tidemark.Line{line(packed, 1, "piece", "what was packed")}}}})
	keep(t, owner, tidemark.Batch{Puts: []tidemark.Record{record(key("cold", "place"), 1, `{"id":"secret"}`)}})
	finds := func(b *Backend) bool {
		t.Helper()
		_, err := b.Get(t.Context(), where)
		var told error
		for _, err := range b.Lines(t.Context(), log) {
			told = err
		}
		var trimmed *tidemark.TrimmedError
		if is := errors.As(told, &trimmed); is != (err == nil) || hasLine(t, b, packed) != is {
			t.Errorf("the record: %v, the lines: %v, packed ones: %v", err, told, hasLine(t, b, packed))
		}
		for _, span := range [][]tidemark.Span{{{From: 1, To: 1}, {From: 3, To: 3}}, {{From: 2, Backwards: true}}} {
			for _, err := range b.Lines(t.Context(), log, span...) {
				if !errors.As(err, &trimmed) || trimmed.Span != 0 || trimmed.First != span[0].From {
					t.Errorf("%+v: %v", span, err)
				}
			}
		}
		return err == nil
	}
	if !finds(owner) || finds(mate) || finds(stranger) || finds(foreign) {
		t.Error("what is private is found by others")
	}
	if err := owner.Share(t.Context(), session, tidemark.Scope{With: tidemark.InWorkspace, Workspace: crew}); err != nil {
		t.Fatal(err)
	}
	if !finds(owner) || !finds(mate) || finds(stranger) || finds(foreign) {
		t.Error("what is shared with a workspace is found by others, or not there")
	}
	if _, err := mate.Get(t.Context(), key("cold", "place")); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("the name of the owner's place: %v", err)
	}
	if err := owner.Share(t.Context(), session, tidemark.Scope{With: tidemark.Private}); err != nil {
		t.Fatal(err)
	}
	if !finds(owner) || finds(mate) || finds(foreign) {
		t.Error("what is private again is found by others")
	}
	for err := range owner.Check(t.Context()) {
		t.Error(err)
	}
}

// packedLines names a log of lines of a session that were packed.
func packedLines(session tidemark.SessionID) tidemark.Key {
	return key(kindCold, string(session)+".session.0123456789abcdef0123456789abcdef")
}

// hasLine reports whether a log can be read, and has a line.
func hasLine(t *testing.T, b *Backend, log tidemark.Key) (there bool) {
	t.Helper()
	for _, err := range b.Lines(t.Context(), log) {
		if there = true; err != nil {
			t.Fatal(err)
		}
	}
	return there
}
