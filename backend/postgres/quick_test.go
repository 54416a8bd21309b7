package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func TestOnlyLinesThatGoOnTakeTheQuickWay(t *testing.T) {
	log := key("session", string(session))
	more := []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 2, "user", "{}")}}}
	for name, c := range map[string]struct {
		batch tidemark.Batch
		quick bool
	}{
		"lines":                {tidemark.Batch{Appends: more}, true},
		"lines under a lease":  {tidemark.Batch{Appends: more, Require: []tidemark.Precondition{{Key: key("lease", log.ID), Version: 3}}}, true},
		"the first line":       {tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 1, "user", "{}")}}}}, false},
		"what must be missing": {tidemark.Batch{Appends: more, Require: []tidemark.Precondition{{Key: log}}}, false},
		"a put":                {tidemark.Batch{Appends: more, Puts: []tidemark.Record{record(log, 2, "{}")}}, false},
		"a drop":               {tidemark.Batch{Appends: more, Drops: []tidemark.Key{key("past", "a")}}, false},
		"adopted":              {tidemark.Batch{Appends: more, Adopt: true}, false},
		"no lines":             {tidemark.Batch{Require: []tidemark.Precondition{{Key: log, Version: 1}}}, false},
	} {
		if got := newQuick([]*pending{{batch: &c.batch}}, new(fences)) != nil; got != c.quick {
			t.Errorf("%s: quick is %v", name, got)
		}
	}
}

// What is looked up, written with others or not alone takes a list.
func TestALineAloneOfALogThatKnowsItsLeaseTakesNoList(t *testing.T) {
	log := key("session", string(session))
	lease := tidemark.Precondition{Key: key("lease", log.ID), Version: 3}
	known := new(fences)
	known.settle([]*growing{{Append: &tidemark.Append{Log: log}, under: fence{lease: 3}, checked: true}}, true)
	one := func(log tidemark.Key, seqs ...int64) *pending {
		a := tidemark.Append{Log: log}
		for _, seq := range seqs {
			a.Lines = append(a.Lines, line(log, seq, "user", "{}"))
		}
		return &pending{batch: &tidemark.Batch{Appends: []tidemark.Append{a}, Require: []tidemark.Precondition{lease}}}
	}
	did := one(log, 2)
	did.acts = []act{{line: &tidemark.Line{Seq: 1}}}
	for name, c := range map[string]struct {
		group []*pending
		known *fences
		want  string
	}{
		"alone":            {[]*pending{one(log, 2)}, known, sqlAppendOne},
		"with its act":     {[]*pending{did}, known, sqlAppendOne},
		"not known":        {[]*pending{one(log, 2)}, new(fences), sqlAppend},
		"two lines":        {[]*pending{one(log, 2, 3)}, known, sqlAppend},
		"of a worker":      {[]*pending{one(key("worker", log.ID+".w"), 2)}, known, sqlAppend},
		"with another's":   {[]*pending{one(log, 2), one(key("notes", log.ID), 2)}, known, sqlAppend},
		"under no lease":   {[]*pending{{batch: &tidemark.Batch{Appends: one(log, 2).batch.Appends}}}, new(fences), sqlAppendOne},
		"an older lease":   {[]*pending{{batch: &tidemark.Batch{Appends: one(log, 2).batch.Appends, Require: []tidemark.Precondition{{Key: lease.Key, Version: 2}}}}}, known, sqlAppend},
		"a record as well": {[]*pending{{batch: &tidemark.Batch{Appends: one(log, 2).batch.Appends, Require: []tidemark.Precondition{lease, {Key: log, Version: 1}}}}}, known, sqlAppend},
	} {
		sql, args := newQuick(c.group, c.known).statement()
		if want := strings.Count(sql, "$"); sql != c.want || len(args) != want {
			t.Errorf("%s: %d parameters of %s", name, len(args), sql)
		}
	}
}

// The record of a log moves in listings when the log grows.
func TestLinesOfTheQuickWayMoveTheirSession(t *testing.T) {
	b := connected(t, ready(t, Migration{}).Server, nil).For(ada)
	one, two := key("session", "one"), key("session", "two")
	for i, k := range []tidemark.Key{one, two} {
		keep(t, b, tidemark.Batch{At: at.Add(time.Duration(i) * time.Minute), Puts: []tidemark.Record{record(k, 1, "{}")},
			Appends: []tidemark.Append{{Log: k, Lines: []tidemark.Line{line(k, 1, "user", "{}")}}}})
	}
	for seq := int64(2); seq <= 5; seq++ {
		k := []tidemark.Key{one, two}[seq%2]
		l := line(k, (seq+2)/2, "user", "{}")
		keep(t, b, tidemark.Batch{At: at.Add(time.Duration(seq) * time.Minute), Appends: []tidemark.Append{{Log: k, Lines: []tidemark.Line{l}}}})
		if got := listed(t, b, tidemark.Query{Kind: "session"}); len(got) != 2 || got[0].Key != k || got[0].Head.Length != l.Seq {
			t.Errorf("after line %d of %s the newest is %+v", l.Seq, k, got)
		}
	}
	for err := range b.Check(t.Context()) {
		t.Error(err)
	}
}
