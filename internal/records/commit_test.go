package records_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// cut is a Backend whose connection breaks: what commit returns says whether
// the next batch arrives, and whether its answer does.
type cut struct {
	tidemark.Backend
	commit  func() (arrives, answered bool)
	commits int
	get     error // what Get answers after an answer was lost; nil: what is there
}

func (c *cut) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	c.commits++
	arrives, answered := c.commit()
	if !arrives {
		return tidemark.Receipt{}, tidemark.ErrUnknown
	}
	receipt, err := c.Backend.Commit(ctx, b)
	if !answered {
		return tidemark.Receipt{}, tidemark.ErrUnknown
	}
	return receipt, err
}

func (c *cut) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if c.commits > 0 && c.get != nil {
		return tidemark.Record{}, c.get
	}
	return c.Backend.Get(ctx, key)
}

// settled returns a place that is marked as plain, so that each batch is one
// commit.
func settled(t *testing.T) tidemark.Backend {
	t.Helper()
	b := memory.New()
	t.Cleanup(func() { b.Close() })
	put(t, records.New(b, records.Options{}), tidemark.Key{Kind: "thing", ID: "first"}, 0, "first")
	return b
}

func put(t *testing.T, k *records.Kernel, key tidemark.Key, version int64, body any) {
	t.Helper()
	if err := tryPut(t, k, key, version, body); err != nil {
		t.Fatal(err)
	}
}

func tryPut(t *testing.T, k *records.Kernel, key tidemark.Key, version int64, body any) error {
	t.Helper()
	r, err := records.Put(key, version, body)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{r}})
	return err
}

var aLog = tidemark.Key{Kind: "thing", ID: "log"}

func firstLine(text string) tidemark.Line {
	l := tidemark.Line{Seq: 1, Kind: "word", At: records.Keepable(time.Now()), Body: []byte(text)}
	l.Sum = l.Checksum(aLog)
	return l
}

// batches is one batch of each kind whose outcome can be looked up, and what
// stands where it wrote.
func batches(t *testing.T, k *records.Kernel) map[string]tidemark.Batch {
	t.Helper()
	old := tidemark.Key{Kind: "thing", ID: "old"}
	put(t, k, old, 0, "old")
	made, err := records.Put(tidemark.Key{Kind: "thing", ID: "made"}, 0, "made")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]tidemark.Batch{
		"append": {Appends: []tidemark.Append{{Log: aLog, Lines: []tidemark.Line{firstLine("one")}}}},
		"put":    {Puts: []tidemark.Record{made}},
		"delete": {Deletes: []tidemark.Precondition{{Key: old, Version: 1}}},
	}
}

func TestABatchWhoseAnswerIsLostIsNotSentAgain(t *testing.T) {
	for _, name := range []string{"append", "put", "delete"} {
		t.Run(name, func(t *testing.T) {
			inner := settled(t)
			b := batches(t, records.New(inner, records.Options{}))[name]
			c := &cut{Backend: inner, commit: func() (bool, bool) { return true, false }}
			if _, err := records.New(c, records.Options{}).Commit(t.Context(), b); err != nil || c.commits != 1 {
				t.Errorf("Commit = %v after %d commits, want nil after 1", err, c.commits)
			}
		})
	}
}

func TestABatchThatDidNotArriveIsSentAgain(t *testing.T) {
	for _, name := range []string{"append", "put", "delete"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := settled(t)
				b := batches(t, records.New(inner, records.Options{}))[name]
				c := &cut{Backend: inner}
				c.commit = func() (bool, bool) { return c.commits > 3, true }
				k := records.New(c, records.Options{})
				b.ID = tidemark.NewBatchID()
				if _, err := k.Commit(t.Context(), b); err != nil || c.commits != 4 {
					t.Errorf("Commit = %v after %d commits, want nil after 4", err, c.commits)
				}
				if took, err := k.Took(t.Context(), b); !took || err != nil {
					t.Errorf("Took = %v, %v", took, err)
				}
			})
		})
	}
}

// Somebody else's record at the version that a lost batch would have made is
// not taken for its own: the batch is sent again, and told of the conflict.
func TestWhatAnotherWroteIsNotTakenForALostBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := settled(t)
		key := tidemark.Key{Kind: "thing", ID: "contended"}
		c := &cut{Backend: inner}
		c.commit = func() (bool, bool) {
			if c.commits > 1 {
				return true, true
			}
			put(t, records.New(inner, records.Options{}), key, 0, "theirs")
			return false, false
		}
		if err := tryPut(t, records.New(c, records.Options{}), key, 0, "ours"); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("Commit = %v, want ErrConflict", err)
		}
		var body string
		if _, err := records.New(inner, records.Options{}).Get(t.Context(), key, &body); err != nil || body != "theirs" {
			t.Errorf("it holds %q, %v", body, err)
		}
	})
}

func TestAnOutcomeThatCannotBeLookedUpStaysUnknown(t *testing.T) {
	away := errors.New("the place is away")
	c := &cut{Backend: settled(t), commit: func() (bool, bool) { return true, false }}
	k := records.New(c, records.Options{})
	if err := k.Standing(t.Context()); err != nil { // nothing else is looked at any more
		t.Fatal(err)
	}
	c.get = away
	err := tryPut(t, k, tidemark.Key{Kind: "thing", ID: "made"}, 0, "made")
	if !errors.Is(err, tidemark.ErrUnknown) || !errors.Is(err, away) || c.commits != 1 {
		t.Errorf("Commit = %v after %d commits, want both errors after 1", err, c.commits)
	}
}

func TestAPlaceThatNeverAnswersIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cut{Backend: settled(t), commit: func() (bool, bool) { return false, false }}
		err := tryPut(t, records.New(c, records.Options{}), tidemark.Key{Kind: "thing", ID: "made"}, 0, "made")
		if !errors.Is(err, tidemark.ErrUnknown) || c.commits != records.Tries {
			t.Errorf("Commit = %v after %d commits, want ErrUnknown after %d", err, c.commits, records.Tries)
		}
	})
}

func TestWhoFollowsIsToldOfAppendsAlone(t *testing.T) {
	inner, grown := settled(t), 0
	k := records.New(inner, records.Options{Grown: func(tidemark.Batch) { grown++ }})
	put(t, k, tidemark.Key{Kind: "thing", ID: "made"}, 0, "made")
	if grown != 0 {
		t.Errorf("a record was told as %d appends", grown)
	}
	if _, err := k.Commit(t.Context(), tidemark.Batch{Appends: []tidemark.Append{{Log: aLog, Lines: []tidemark.Line{firstLine("one")}}}}); err != nil || grown != 1 {
		t.Errorf("an append was told %d times, %v", grown, err)
	}
}

func TestWhatIsAddedToABatchIsCommittedWithItOrKeepsItBack(t *testing.T) {
	inner := settled(t)
	k := records.New(inner, records.Options{})
	note, err := records.Put(tidemark.Key{Kind: "note", ID: "beside"}, 0, "beside")
	if err != nil {
		t.Fatal(err)
	}
	var ends []error
	with := k.With(func(_ context.Context, b *tidemark.Batch) (func(error), error) {
		b.Puts = append(b.Puts, note)
		return func(err error) { ends = append(ends, err) }, nil
	})
	put(t, with, tidemark.Key{Kind: "thing", ID: "made"}, 0, "made")
	if has, err := k.Has(t.Context(), note.Key); !has || err != nil || len(ends) != 1 || ends[0] != nil {
		t.Errorf("what was added is there: %v, %v; it was told %v", has, err, ends)
	}

	no := errors.New("the audit log is full")
	refusing := k.With(func(context.Context, *tidemark.Batch) (func(error), error) { return nil, no })
	refused := tidemark.Key{Kind: "thing", ID: "refused"}
	if err := tryPut(t, refusing, refused, 0, "refused"); !errors.Is(err, no) {
		t.Errorf("Commit = %v, want %v", err, no)
	}
	if has, err := k.Has(t.Context(), refused); has || err != nil {
		t.Errorf("what was kept back is there: %v, %v", has, err)
	}
}

func TestALostRaceIsRunAgainAndWaitsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, began := 0, time.Now()
		err := records.Retry(t.Context(), func() error {
			if tries++; tries <= 5 {
				return tidemark.Conflictf("somebody was quicker")
			}
			return nil
		})
		// By chance each wait is shorter than its bound: 1, 2, 4, 8 and 16 ms.
		if waited := time.Since(began); err != nil || tries != 6 || waited == 0 || waited > 32*time.Millisecond {
			t.Errorf("Retry = %v after %d tries and %v", err, tries, waited)
		}
		tries = 0
		err = records.Retry(t.Context(), func() error { tries++; return tidemark.Conflictf("somebody was quicker") })
		if !errors.Is(err, tidemark.ErrConflict) || tries != records.Tries {
			t.Errorf("a race that is always lost: %v after %d tries, want %d", err, tries, records.Tries)
		}
	})
}

func TestWhatTryingAgainDoesNotHelpIsReturnedAtOnce(t *testing.T) {
	other := errors.New("the disk is full")
	for name, given := range map[string]error{"another error": other, "a final conflict": records.Final(tidemark.Conflictf("the job has ended"))} {
		tries := 0
		err := records.Retry(t.Context(), func() error { tries++; return given })
		if tries != 1 {
			t.Errorf("%s: %d tries", name, tries)
		}
		if final, ok := records.IsFinal(given); ok && (err != final || !errors.Is(err, tidemark.ErrConflict)) {
			t.Errorf("%s: %v, want the conflict as it was before", name, err)
		} else if !ok && err != other {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNobodyWaitsLongerThanTheCallLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		err := records.Retry(ctx, func() error {
			if tries++; tries == 3 {
				cancel()
			}
			return tidemark.Conflictf("somebody was quicker")
		})
		if tries != 3 || !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("Retry = %v after %d tries, want the conflict after 3", err, tries)
		}
		if err := records.BackOff(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("BackOff = %v, want that of the context", err)
		}
		for try := range 200 {
			began := time.Now()
			if err := records.BackOffUpTo(t.Context(), try, time.Second); err != nil || time.Since(began) > time.Second {
				t.Fatalf("try %d waited %v, %v", try, time.Since(began), err)
			}
		}
	})
}

// Many who change one record lose no change.
func TestChangesOfOneRecordAreAllMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := records.New(settled(t), records.Options{})
		key := tidemark.Key{Kind: "thing", ID: "counter"}
		done := make(chan error)
		const writers, each = 8, 5
		for range writers {
			go func() {
				for range each {
					err := records.Retry(t.Context(), func() error {
						var n int
						old, err := k.Get(t.Context(), key, &n)
						if err != nil {
							return err
						}
						return tryPut(t, k, key, old.Version, n+1)
					})
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range writers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		var n int
		if r, err := k.Get(t.Context(), key, &n); err != nil || n != writers*each || r.Version != int64(n) {
			t.Errorf("%d changes were made at version %d, %v; want %d", n, r.Version, err, writers*each)
		}
	})
}
