package store_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/vault"
	"github.com/tidemark-sessions/tidemark/store"
)

func startJob(t *testing.T, s *store.Store, id string) *fleet.JobRun {
	t.Helper()
	r, err := fleet.Over(s).StartJob(t.Context(), id, who("daemon"), fleet.SlotLimits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// planted writes a secret into everything that is no entry.
func planted(t *testing.T, s *store.Store, secret string) (tidemark.Job, tidemark.SessionID) {
	t.Helper()
	ctx := t.Context()
	quoted, _ := json.Marshal(map[string]string{"run": "login " + secret})
	j, err := fleet.Over(s).AddJob(ctx, tidemark.Job{Agent: "coder", Trigger: tidemark.TriggerManual, Prompt: "use " + secret})
	if err != nil {
		t.Fatal(err)
	}
	r := startJob(t, s, j.ID)
	now := time.Now()
	err = errors.Join(
		r.Emit(ctx, tidemark.Event{Type: tidemark.EventAssistant, Content: "has " + secret, Timestamp: now},
			tidemark.Event{Type: tidemark.EventToolUse, ToolName: "bash", Input: quoted, Timestamp: now},
			tidemark.Event{Type: tidemark.EventToolResult, Result: quoted, Error: "no " + secret, Timestamp: now},
			tidemark.Event{Type: tidemark.EventError, Message: "bad " + secret, Stack: "at " + secret, Extra: quoted, Timestamp: now}),
		fleet.Over(s).AskReview(ctx, fleet.Review{Job: j.ID, Agent: "coder", Call: "c1", Tool: "bash", Title: secret, Input: quoted}),
		r.Note(ctx, func(j *tidemark.Job) { j.Summary = "so far " + secret }))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Finish(ctx, func(j *tidemark.Job) {
		j.Status, j.ExitReason, j.Summary, j.ErrorMessage = tidemark.JobFailed, tidemark.ExitError, "did "+secret, "not "+secret
	}, func(a *tidemark.Agent, j tidemark.Job) { a.ErrorMessage = j.ErrorMessage }, &tidemark.Job{Agent: "coder", Prompt: r.Job().Prompt})
	if err != nil {
		t.Fatal(err)
	}
	w := s.Create(tidemark.Session{}, who("test"))
	add(t, w, user("hello"))
	text := strings.Repeat("a line\n", 300_000) + "key: " + secret + "\n"
	_, fileErr := w.PutFile(ctx, "notes/env", strings.NewReader(text))
	changed := tidemark.FileChange{Path: "env-" + secret, Before: fileOf("key: " + secret), After: fileOf("key: none")}
	_, snapErr := w.KeepSnapshot(ctx, tidemark.Snapshot{Root: "/" + secret, Files: []tidemark.FileChange{changed}}, 0)
	err = errors.Join(fileErr, snapErr, w.SaveCheckpoint(ctx, store.Checkpoint{
		Loops: []store.Loop{{ID: "l", Goal: "try " + secret}}, Tasks: []store.Task{{ID: 1, Text: secret}}, Approvals: []store.Approval{{Tool: "bash", Scope: secret}},
		DynamicTools: []store.DynamicTool{{Name: "t", Description: secret, Command: "login " + secret, Schema: quoted}},
		CoreMemory:   map[string]string{"human": "knows " + secret}, Extra: quoted}))
	_, agentErr := fleet.Over(s).PutAgent(ctx, tidemark.Agent{Name: "other", ErrorMessage: secret, Extra: quoted})
	_, jobErr := fleet.Over(s).PutJob(ctx, tidemark.Job{ID: "job-2026-11-15-aaaaaa", Agent: "other", Prompt: secret, Summary: secret, Extra: quoted})
	err = errors.Join(err, agentErr, jobErr, fleet.Over(s).AppendOutput(ctx, "job-2026-11-15-aaaaaa", 0, tidemark.Event{Type: tidemark.EventAssistant, Content: secret, Timestamp: now}),
		fleet.Over(s).AppendAgentLog(ctx, "other", 0, tidemark.Event{Type: tidemark.EventSystem, Content: secret, Timestamp: now}), w.Close(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return j, w.ID()
}

func TestSecretsBesideEntriesAreMaskedBeforeTheyAreWritten(t *testing.T) {
	s, b := redacting(store.RedactMask)
	j, _ := planted(t, s, "sesame-open")
	all := kept(t, b)
	if i := strings.Index(all, "sesame-"); i >= 0 {
		t.Errorf("a secret was kept: …%s", all[max(0, i-200):min(len(all), i+50)])
	}
	if said, err := fleet.Over(s).JobPrompt(t.Context(), j); err != nil || !strings.HasPrefix(said, "use [redacted:sesame:") {
		t.Errorf("the job is told %q, %v", said, err)
	}
	healthy(t, s)
}

func TestTheVaultKeepsWhatAJobAndACheckpointNeed(t *testing.T) {
	s, b := redacting(store.RedactVault)
	j, id := planted(t, s, "sesame-open")
	ctx := t.Context()
	for k, err := range b.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r, err := b.Get(ctx, k); err == nil && k.Kind != vault.KindSecret && strings.Contains(string(r.Body), "sesame-") {
			t.Errorf("%s holds it: %s", k, r.Body)
		}
	}
	for f, err := range fleet.Over(s).Jobs(ctx, fleet.JobFilter{Agent: "coder"}) {
		said, promptErr := fleet.Over(s).JobPrompt(ctx, f)
		if err := errors.Join(err, promptErr); err != nil || said != "use sesame-open" || strings.Contains(f.Prompt, "sesame-") {
			t.Errorf("job %s is told %q, and shows %q, %v", f.ID, said, f.Prompt, err)
		}
	}
	c, err := s.Checkpoint(ctx, id, "")
	if err != nil || strings.Contains(c.CoreMemory["human"], "sesame-") {
		t.Fatalf("%+v, %v", c, err)
	}
	open, err := s.RevealCheckpoint(ctx, id, c)
	if err != nil || open.CoreMemory["human"] != "knows sesame-open" || open.DynamicTools[0].Command != "login sesame-open" || open.Tasks[0].Text != "sesame-open" {
		t.Errorf("%+v, %v", open, err)
	}
	if got, err := fleet.Over(s).Job(ctx, j.ID); err != nil || got.ErrorMessage == "" {
		t.Errorf("the error is gone: %v", err)
	}
	healthy(t, s)
}

func TestWithoutRedactionNothingBesideEntriesChanges(t *testing.T) {
	s, b := redacting(store.RedactWarn)
	j, id := planted(t, s, "sesame-open")
	if got, err := fleet.Over(s).Job(t.Context(), j.ID); err != nil || got.Prompt != "use sesame-open" || got.Summary != "did sesame-open" {
		t.Errorf("%+v, %v", got, err)
	}
	if text, err := s.ReadFile(t.Context(), id, "notes/env"); err != nil || !strings.HasSuffix(string(text), "key: sesame-open\n") {
		t.Errorf("the file ends with %q, %v", text[max(0, len(text)-30):], err)
	}
	if strings.Contains(kept(t, b), "[redacted:") {
		t.Error("something was masked")
	}
}

// TestEveryMaskCanBeRevealed plants a secret in one place after the other, each
// in a store of its own, so that each has to keep what it masks itself.
func TestEveryMaskCanBeRevealed(t *testing.T) {
	const secret = "sesame-open"
	quoted := json.RawMessage(`{"run":"login sesame-open"}`)
	now := time.Now()
	running := func(t *testing.T, s *store.Store) *fleet.JobRun {
		j, err := fleet.Over(s).AddJob(t.Context(), tidemark.Job{Agent: "coder", Trigger: tidemark.TriggerManual, Prompt: "go"})
		if err != nil {
			t.Fatal(err)
		}
		return startJob(t, s, j.ID)
	}
	event := tidemark.Event{Type: tidemark.EventToolUse, ToolName: "bash", Input: quoted, Timestamp: now}
	for place, plant := range map[string]func(*testing.T, *store.Store) error{
		"item": func(t *testing.T, s *store.Store) error {
			_, err := s.PutItem(t.Context(), store.Item{Kind: "run-step", ID: "x", Title: secret, Data: quoted}, 0)
			return err
		},
		"review": func(t *testing.T, s *store.Store) error {
			r := running(t, s)
			return fleet.Over(s).AskReview(t.Context(), fleet.Review{Job: r.Job().ID, Agent: "coder", Call: "c1", Tool: "bash", Title: secret, Input: quoted})
		},
		"agent": func(t *testing.T, s *store.Store) error {
			_, err := fleet.Over(s).PutAgent(t.Context(), tidemark.Agent{Name: "other", ErrorMessage: secret, Extra: quoted})
			return err
		},
		"agent's log": func(t *testing.T, s *store.Store) error {
			return fleet.Over(s).AppendAgentLog(t.Context(), "other", 0, event)
		},
		"what an agent remembers": func(t *testing.T, s *store.Store) error {
			_, err := running(t, s).Finish(t.Context(), func(j *tidemark.Job) { j.Status = tidemark.JobFailed },
				func(a *tidemark.Agent, j tidemark.Job) { a.ErrorMessage = secret }, nil)
			return err
		},
		"job": func(t *testing.T, s *store.Store) error {
			return running(t, s).Note(t.Context(), func(j *tidemark.Job) { j.Summary = secret })
		},
		"job that came in": func(t *testing.T, s *store.Store) error {
			return fleet.Over(s).Import(t.Context(), fleet.Imported{Job: &tidemark.Job{ID: "job-2026-11-15-aaaaaa", Agent: "other", Prompt: "go", Extra: quoted}, Events: []tidemark.Event{event}, At: now})
		},
		"output": func(t *testing.T, s *store.Store) error { return running(t, s).Emit(t.Context(), event) },
		"text of a review": func(t *testing.T, s *store.Store) error {
			r := running(t, s)
			return fleet.Over(s).AskReview(t.Context(), fleet.Review{Job: r.Job().ID, Agent: "coder", Call: "c1", Tool: "bash", Title: "log in", Text: "login " + secret})
		},
		"answer to a review": func(t *testing.T, s *store.Store) error {
			r := running(t, s)
			if err := fleet.Over(s).AskReview(t.Context(), fleet.Review{Job: r.Job().ID, Agent: "coder", Call: "c1", Tool: "bash", Title: "log in"}); err != nil {
				return err
			}
			_, err := fleet.Over(s).AnswerReview(t.Context(), r.Job().ID, "c1", false, who("test"), "not with "+secret)
			return err
		},
		"schedule": func(t *testing.T, s *store.Store) error {
			_, err := fleet.Over(s).PutSchedule(t.Context(), tidemark.Schedule{Agent: "coder", Name: "nightly", Type: "webhook", LastError: secret, Extra: quoted})
			return err
		},
		"entry": func(t *testing.T, s *store.Store) error { add(t, begun(t, s), user("it is "+secret)); return nil },
		"worker": func(t *testing.T, s *store.Store) error {
			_, err := begun(t, s).AppendTo(t.Context(), "w", user("it is "+secret))
			return err
		},
		"draft": func(t *testing.T, s *store.Store) error {
			return begun(t, s).KeepDraft(t.Context(), "", assistant("it is "+secret))
		},
		"checkpoint": func(t *testing.T, s *store.Store) error {
			return begun(t, s).SaveCheckpoint(t.Context(), store.Checkpoint{CoreMemory: map[string]string{"human": secret}, Extra: quoted})
		},
		"file": func(t *testing.T, s *store.Store) error {
			_, err := begun(t, s).PutFile(t.Context(), "env", strings.NewReader("key: "+secret+"\n"))
			return err
		},
		"session": func(t *testing.T, s *store.Store) error {
			add(t, s.Create(tidemark.Session{Title: secret, Tags: []string{"has " + secret}, Extra: quoted}, who("test")), user("hello"))
			return nil
		},
		"session without words": func(t *testing.T, s *store.Store) error {
			_, err := s.CreateEmpty(t.Context(), tidemark.Session{Title: "the " + secret})
			return err
		},
		"extra": func(t *testing.T, s *store.Store) error { return s.SetExtra(t.Context(), begun(t, s).ID(), quoted) },
		"origin": func(t *testing.T, s *store.Store) error {
			return s.SetOrigin(t.Context(), begun(t, s).ID(), tidemark.Session{Tool: "tool", Title: "the " + secret, Extra: quoted})
		},
		"label": func(t *testing.T, s *store.Store) error { return s.Label(t.Context(), begun(t, s).ID(), 1, secret) },
		"title": func(t *testing.T, s *store.Store) error { return s.Rename(t.Context(), begun(t, s).ID(), secret) },
		"tag": func(t *testing.T, s *store.Store) error {
			return s.Tag(t.Context(), begun(t, s).ID(), []string{secret}, nil)
		},
		"patch": func(t *testing.T, s *store.Store) error {
			title := "the " + secret
			_, err := s.Change(t.Context(), begun(t, s).ID(), store.Patch{Title: &title, Tags: &[]string{secret}})
			return err
		},
		"fork": func(t *testing.T, s *store.Store) error {
			_, err := s.Fork(t.Context(), begun(t, s).ID(), 1, secret)
			return err
		},
		"memory": func(t *testing.T, s *store.Store) error {
			_, _, err := s.Remember(t.Context(), store.Memory{Project: "/p", Text: "use " + secret})
			return err
		},
		"memory under its id": func(t *testing.T, s *store.Store) error {
			_, err := s.PutMemory(t.Context(), store.Memory{ID: "m1", Project: "/p", Text: "use " + secret}, 0)
			return err
		},
	} {
		t.Run(place, func(t *testing.T) {
			s, b := redacting(store.RedactVault)
			if err := plant(t, s); err != nil {
				t.Fatal(err)
			}
			masks := 0
			look := func(k tidemark.Key, body []byte) {
				if k.Kind == vault.KindSecret {
					return
				}
				text := string(body)
				masks += len(tidemark.Fingerprints(text))
				open, err := s.RevealText(t.Context(), text)
				if err != nil || strings.Contains(text, "sesame-") || strings.Contains(open, "[redacted:") {
					t.Errorf("%s: %s is revealed as %s, %v", k, text, open, err)
				}
			}
			for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
				if err != nil {
					t.Fatal(err)
				}
				if r, err := b.Get(t.Context(), k); err == nil {
					look(k, r.Body)
				}
				for l, err := range b.Lines(t.Context(), k) {
					if err != nil {
						t.Fatal(err)
					}
					look(k, l.Body)
				}
			}
			if masks == 0 {
				t.Error("nothing was masked")
			}
		})
	}
}

// begun is the writer of a session that has one entry.
func begun(t *testing.T, s *store.Store) *store.Writer {
	t.Helper()
	w := s.Create(tidemark.Session{}, who("test"))
	add(t, w, user("hello"))
	return w
}

// What is kept is of one of these kinds. Whoever adds one says here where its
// text is planted above, or why it has none.
func TestEveryKindOfRecordIsKnownToTheVault(t *testing.T) {
	places := map[string]string{
		"session": "session", "notes": "label, title, tag", "name": "label, title", "past": "copies of entries", "worker": "worker", "checkpoint": "checkpoint", "draft": "draft",
		"file": "file, snapshot", "memory": "memory", "item": "item", "agent": "agent", "schedule": "schedule", "review": "review", "job": "job", "fork": "ids alone",
		"lease": "holder alone", "pulse": "a time", "ask": "holder alone", "wake": "a time, and a MAC", "plain": "a mark", "cold": "names of objects and hashes", "secret": "the vault itself", "project": "a path", "source": "a path", "unit": "names and ids of files", "bookmark": "what has nothing to mask: transfer", "handover": "ids and hashes", "purgekey": "a key", "purged": "a MAC", "watch": "paths, and problems that are masked",
		"fleet": "names and limits", "daemon": "names", "lane": "ids", "slots": "ids", "request": "an answer of the server: ids and what is masked already",
		"tenant": "the operator's: masked for good", "issuer": "the operator's", "user": "the operator's: masked for good", "workspace": "the operator's",
		"token": "the operator's: masked for good", "audit": "the operator's: masked for good", "anchor": "hashes", "boot": "numbers of a server that writes the audit log", "serverkey": "a key", "signout": "a hash", "erasure": "ids and numbers", "departure": "ids", "limits": "numbers", "forwarded": "numbers", "auditstate": "numbers and hashes", "kept": "numbers", "group": "the operator's", "rules": "the operator's words", "origins": "what is masked already, or on its way in: transfer/sync", "remote": "a place, names of machines, keys", "blob": "sizes", "blobdata": "sealed by another machine", "link": "ids and times", "linkdata": "sealed by who shares it",
	}
	var files []string
	for _, room := range []string{".", "../internal/records", "../internal/vault", "../internal/tenant", "../fleet"} {
		some, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	kind := regexp.MustCompile(`(?m)^(?:const |\t)[kK]ind[A-Z]\w* *= "(\w+)"`)
	seen := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range kind.FindAllSubmatch(text, -1) {
			if seen++; places[string(m[1])] == "" {
				t.Errorf("%s: records of kind %s may hold text that nobody masks: see to it, plant a secret there, and say so here", name, m[1])
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d kinds found", seen)
	}
}

func TestTheVaultOfAnItemGoesWithIt(t *testing.T) {
	s, b := redacting(store.RedactVault)
	if _, err := s.PutItem(t.Context(), store.Item{Kind: "run-step", ID: "x", Title: "sesame-open"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveItem(t.Context(), "run-step", "x", store.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if all := kept(t, b); strings.Contains(all, "sesame-") {
		t.Errorf("left behind: %s", all)
	}
}
