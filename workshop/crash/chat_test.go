package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNoConversationIsLostBySIGKILL(t *testing.T) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) { trial(t, "chat", "-backend", b, "-n", "10") })
	}
}

// quiet returns a conversation in a store of its own.
func quiet(t *testing.T) (*chatting, *conversation) {
	t.Helper()
	model, err := startModel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.close)
	dir := t.TempDir()
	for _, name := range []string{"home", "store", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := place{program: program{path: bin, home: filepath.Join(dir, "home")}, backend: "sqlite", plain: true, dir: filepath.Join(dir, "store")}
	if a, err := p.ask("", "append", "new"); err != nil || a.code != 0 {
		t.Fatal(a, err)
	}
	c := &conversation{place: p, model: model, name: "talk", work: filepath.Join(dir, "work"), told: make(map[string]map[int64]entry)}
	c.talk = model.begin(c.name, c.effects(), 1)
	return &chatting{model: model, book: &book{say: t.Errorf}}, c
}

func TestEveryKindOfVictimComesToItsEndWhenNobodyKillsIt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for name, victim := range map[string]func(*conversation) (*chatter, error){
		"single turn":  func(c *conversation) (*chatter, error) { return c.singleTurn(r, "hello") },
		"conversation": func(c *conversation) (*chatter, error) { return c.converse(r, 3, false) },
		"hibernation":  func(c *conversation) (*chatter, error) { return c.converse(r, 2, true) },
	} {
		t.Run(name, func(t *testing.T) {
			trial, c := quiet(t)
			h, err := victim(c)
			if err != nil {
				t.Fatal(err)
			}
			code, err := h.finish()
			if code != 0 || err != nil || c.session() == "" {
				t.Fatalf("exit %d, %v, session %q: %s", code, err, c.session(), h.said.String())
			}
			if hibernated := strings.Contains(h.said.String(), "Hibernated"); hibernated != (name == "hibernation") {
				t.Errorf("hibernated: %v\n%s", hibernated, h.said.String())
			}
			if err := trial.look(c, r); err != nil {
				t.Fatal(err)
			}
			if requests, _ := c.model.known(c.talk); requests < 2 || c.acknowledged() < 4 {
				t.Errorf("%d requests, %d entries acknowledged", requests, c.acknowledged())
			}
		})
	}
}

func TestTheStandInRefusesWhatAProviderWould(t *testing.T) {
	system, user, answer := message{Role: "system"}, message{Role: "user"}, message{Role: "assistant"}
	calls := func(ids ...string) message {
		m := message{Role: "assistant"}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, struct {
				ID string `json:"id"`
			}{id})
		}
		return m
	}
	result := func(id string) message { return message{Role: "tool", ToolCallID: id} }
	for name, c := range map[string]struct {
		all  []message
		fine bool
	}{
		"a question":                {[]message{system, user}, true},
		"answered calls":            {[]message{system, user, calls("a", "b"), result("b"), result("a")}, true},
		"a cut turn":                {[]message{system, user, user}, true},
		"nothing asked":             {[]message{system}, false},
		"no system prompt":          {[]message{user, user}, false},
		"an answer at the end":      {[]message{system, user, answer}, false},
		"two answers":               {[]message{system, user, answer, answer, user}, false},
		"an open call at the end":   {[]message{system, user, calls("a")}, false},
		"an open call":              {[]message{system, user, calls("a"), user}, false},
		"a result twice":            {[]message{system, user, calls("a"), result("a"), result("a")}, false},
		"a result without its call": {[]message{system, user, result("a")}, false},
		"a call twice":              {[]message{system, user, calls("a"), result("a"), calls("a"), result("a")}, false},
	} {
		if err := valid(c.all); (err == nil) != c.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheTrialSeesWhatIsLostDoubledOrRunTwice(t *testing.T) {
	var said []string
	trial := &chatting{book: &book{say: func(format string, args ...any) { said = append(said, format) }}}
	model := &standIn{talks: make(map[string]*talk)}
	c := &conversation{model: model, told: map[string]map[int64]entry{"": {1: {Seq: 1, Kind: "message"}, 2: {Seq: 2}}}}
	c.talk = model.begin("talk", "", 1)
	one := model.call(c.talk, "bash", "token", nil)
	began := entry{Seq: 1, Kind: "call", Extra: []byte(`{"chat":{"id":"` + one.id + `"}}`)}

	trial.compare(c, logs{"": {{Seq: 1, Kind: "note"}, {Seq: 1, Kind: "message"}}})
	if trial.book.lost != 1 || trial.book.doubled != 1 {
		t.Errorf("%d lost, %d doubled, want 1 and 1: %q", trial.book.lost, trial.book.doubled, said)
	}
	trial.ranOnce(c, map[string]int{"token": 2}, logs{"": {began}})
	trial.ranOnce(c, map[string]int{"token": 1}, logs{})
	if trial.book.lost != 2 || trial.book.doubled != 2 || trial.twice.Load() != 1 {
		t.Errorf("%d lost, %d doubled, want 2 and 2: %q", trial.book.lost, trial.book.doubled, said)
	}
}
