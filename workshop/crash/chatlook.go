package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// logs are the entries of a session, by worker.
type logs map[string][]entry

// block is the part of a block that the trial checks.
type block struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
	Text      string `json:"text"`
}

func (e entry) blocks() (list []block) {
	if len(e.Blocks) > 0 {
		json.Unmarshal(e.Blocks, &list) // damage is found elsewhere
	}
	return list
}

// began returns the call that an entry says is about to run.
func (e entry) began() string {
	var extra struct {
		Chat struct {
			ID string `json:"id"`
		} `json:"chat"`
	}
	if e.Kind != "call" || json.Unmarshal(e.Extra, &extra) != nil {
		return ""
	}
	return extra.Chat.ID
}

// calls is the outcome of each call in a log.
type calls map[string]*outcome

type outcome struct {
	began   bool
	results []string // the texts
}

func callsIn(log []entry) calls {
	all := make(calls)
	of := func(id string) *outcome {
		if all[id] == nil {
			all[id] = &outcome{}
		}
		return all[id]
	}
	for _, e := range log {
		if id := e.began(); id != "" {
			of(id).began = true
		}
		for _, b := range e.blocks() {
			switch b.Type {
			case "tool_use":
				of(b.ID)
			case "tool_result":
				of(b.ToolUseID).results = append(of(b.ToolUseID).results, b.Text)
			}
		}
	}
	return all
}

// read reads everything that is kept of a conversation, with fresh processes.
func (t *chatting) read(c *conversation) (logs, error) {
	all := make(logs)
	for _, worker := range c.threads() {
		args := []string{"cat", "--all", c.session()}
		if worker != "" {
			args = append(args, "--worker", worker)
		}
		a, err := c.ask("", args...)
		if err != nil {
			return nil, err
		}
		if a.code != 0 {
			t.fault(&t.book.unreadable, "%s: %q ends with %d: %s", c.name, args, a.code, a.err)
			continue
		}
		lines := bufio.NewScanner(strings.NewReader(a.out))
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var e entry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				return nil, fmt.Errorf("%s: cat: %w", c.name, err)
			}
			all[worker] = append(all[worker], e)
		}
	}
	return all, nil
}

// compare looks for everything that was printed as kept, and for duplicates.
func (t *chatting) compare(c *conversation, all logs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for worker, told := range c.told {
		there := make(map[int64]entry)
		for _, e := range all[worker] {
			if _, twice := there[e.Seq]; twice {
				t.fault(&t.book.doubled, "%s %s: entry %d is there twice", c.name, worker, e.Seq)
			}
			there[e.Seq] = e
		}
		for seq, e := range told {
			if now, ok := there[seq]; !ok || !now.same(e) {
				t.fault(&t.book.lost, "%s %s: entry %d was kept as %q and is %q (there: %v)", c.name, worker, seq, e.String(), now.String(), ok)
			}
		}
	}
}

// ranOnce checks whether a tool ran twice, or before its call was recorded.
func (t *chatting) ranOnce(c *conversation, effects map[string]int, all logs) {
	began := make(map[string]bool)
	for _, log := range all {
		for id, o := range callsIn(log) {
			if called, ok := c.model.called(c.talk, id); ok && o.began {
				began[called.token] = true
			}
		}
	}
	for token, n := range effects {
		if n > 1 {
			t.twice.Add(1)
			t.fault(&t.book.doubled, "%s: %s ran %d times", c.name, token, n)
		}
		if !began[token] {
			t.fault(&t.book.lost, "%s: %s ran, and the session does not say that it began", c.name, token)
		}
	}
}

// answered checks, after a resume, whether every call has one result,
// and whether those without one before are marked as interrupted.
func (t *chatting) answered(c *conversation, before, after logs) error {
	effects, err := c.tokens()
	if err != nil {
		return err
	}
	for worker, log := range after {
		was := callsIn(before[worker])
		for id, o := range callsIn(log) {
			if len(o.results) != 1 {
				t.fault(either(len(o.results) > 1, &t.book.doubled, &t.book.lost), "%s %s: call %s has %d results after a resume", c.name, worker, id, len(o.results))
				continue
			}
			if was[id] == nil || len(was[id].results) > 0 {
				continue
			}
			t.interrupted.Add(1)
			called, _ := c.model.called(c.talk, id)
			wasRun := strings.Contains(o.results[0], "while this ran")
			switch {
			case !strings.HasPrefix(o.results[0], "interrupted"):
				t.fault(&t.book.lost, "%s %s: call %s had no result and has now: %.100s", c.name, worker, id, o.results[0])
			case wasRun != was[id].began:
				t.fault(&t.book.lost, "%s %s: call %s began: %v, and the model is told: %.100s", c.name, worker, id, was[id].began, o.results[0])
			case !wasRun && effects[called.token] > 0:
				t.fault(&t.book.doubled, "%s %s: call %s ran, and the model is told that it did not", c.name, worker, id)
			}
		}
	}
	return nil
}

func either(is bool, yes, no *int) *int {
	if is {
		return yes
	}
	return no
}

// find looks for a session whose id is unknown, by its title. It has to
// exist if the model was asked.
func (t *chatting) find(c *conversation) error {
	a, err := c.ask("", "ls", "-A", "-n", "0", "--json=id,title")
	if err != nil {
		return err
	}
	var all []struct{ ID, Title string }
	if a.code != 0 || json.Unmarshal([]byte(a.out), &all) != nil {
		t.fault(&t.book.unreadable, "ls ends with %d: %s%s", a.code, a.out, a.err)
		return nil
	}
	for _, s := range all {
		if s.Title == c.name {
			c.hearID(s.ID)
		}
	}
	if n, _ := c.model.known(c.talk); n > 0 && c.session() == "" {
		t.fault(&t.book.lost, "%s: the model was asked %d times, and there is no session", c.name, n)
	}
	return nil
}

// look is the check after every kill: what was kept is there, the session can
// be resumed at once, and nothing ran twice.
func (t *chatting) look(c *conversation, r chooser) error {
	effects, err := c.tokens() // first, because a tool of the dead chat may still be running
	if err != nil {
		return err
	}
	if c.session() == "" {
		if err := t.find(c); err != nil || c.session() == "" {
			return err
		}
	}
	before, err := t.read(c)
	if err != nil {
		return err
	}
	t.compare(c, before)
	t.ranOnce(c, effects, before)
	if err := t.again(c, r); err != nil {
		return err
	}
	if err := t.resume(c, r); err != nil {
		return err
	}
	if effects, err = c.tokens(); err != nil {
		return err
	}
	after, err := t.read(c)
	if err != nil {
		return err
	}
	t.compare(c, after)
	t.ranOnce(c, effects, after)
	if err := t.answered(c, before, after); err != nil {
		return err
	}
	a, err := c.ask("", "verify", c.session())
	if err == nil && a.code != 0 {
		t.fault(&t.book.unreadable, "%s: verify ends with %d: %s%s", c.name, a.code, a.out, a.err)
	}
	return err
}

// again sometimes kills the process that repairs what a kill left.
func (t *chatting) again(c *conversation, r chooser) error {
	for r.IntN(3) == 0 {
		h, err := c.singleTurn(r, goOn)
		if err != nil {
			return err
		}
		if h.kill(r.IntN(8), time.Duration(r.IntN(40))*time.Millisecond, turnTimeout) {
			t.kills.Add(1)
			t.single.Add(1)
		}
	}
	return nil
}

// resume resumes a session, and checks what the model was sent.
func (t *chatting) resume(c *conversation, r chooser) error {
	asked, _ := c.model.known(c.talk)
	began := time.Now()
	h, err := c.singleTurn(r, goOn)
	if err != nil {
		return err
	}
	code, err := h.finish()
	if code != 0 || err != nil {
		t.fault(&t.book.aid, "%s: a resume ends with %d, %v: %s", c.name, code, err, h.said.String())
	}
	raise(&t.slowest, time.Since(began))
	now, _ := c.model.known(c.talk)
	if code == 0 && now == asked {
		t.fault(&t.book.aid, "%s: a resume ended well and has asked nothing", c.name)
	}
	for _, f := range c.model.refused(c.talk) {
		t.fault(&t.book.aid, "%s: %s", c.name, f)
	}
	return nil
}
