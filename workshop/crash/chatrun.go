package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// conversation is a session whose chats are killed one after the other.
type conversation struct {
	place
	name  string // also its title
	work  string // the folder that its tools work in
	model *standIn
	talk  *talk
	id    string // of the session, "" as long as it is unknown
	turns int

	mu   sync.Mutex
	told map[string]map[int64]entry // entries printed as kept, by worker
}

// entry is the part of an entry that is compared.
type entry struct {
	Seq    int64           `json:"seq"`
	Kind   string          `json:"kind"`
	Role   string          `json:"role"`
	Model  string          `json:"model"`
	Blocks json.RawMessage `json:"blocks"`
	Extra  json.RawMessage `json:"extra"`
}

func (e entry) same(o entry) bool {
	return e.Seq == o.Seq && e.Kind == o.Kind && e.Role == o.Role && e.Model == o.Model &&
		string(e.Blocks) == string(o.Blocks) && string(e.Extra) == string(o.Extra)
}

func (e entry) String() string {
	return fmt.Sprintf("%d %s %s %.200s %.200s", e.Seq, e.Kind, e.Role, e.Blocks, e.Extra)
}

func (c *conversation) effects() string { return filepath.Join(c.work, "effects.log") }

// hear records an entry that was printed as kept.
func (c *conversation) hear(worker string, e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[worker] == nil {
		c.told[worker] = make(map[int64]entry)
	}
	c.told[worker][e.Seq] = e
}

func (c *conversation) hearID(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
}

func (c *conversation) session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// threads names the logs that have to exist: that of the conversation
// itself, and those of known workers.
func (c *conversation) threads() []string {
	_, workers := c.model.known(c.talk)
	c.mu.Lock()
	defer c.mu.Unlock()
	names := append([]string{""}, workers...)
	for worker := range c.told {
		names = append(names, worker)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// acknowledged is how many entries were printed as kept.
func (c *conversation) acknowledged() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entries := range c.told {
		n += len(entries)
	}
	return n
}

// chatter is one process of tidemark chat.
type chatter struct {
	c       *conversation
	cmd     *exec.Cmd
	stdin   io.WriteCloser // nil for a single turn
	mark    string         // in the environment of everything that it starts
	said    strings.Builder
	events  chan struct{} // signals output
	done    chan struct{}
	answers *rand.Rand // to questions
}

// markOfChat is the variable that identifies the descendants of a chat.
const markOfChat = "CRASH_CHAT"

// begin prepares a chat with these flags beside those that every one has.
func (c *conversation) begin(r *rand.Rand, args ...string) *chatter {
	if id := c.session(); id != "" {
		args = append(args, "--resume", id)
	} else {
		args = append(args, "--name", c.name)
	}
	h := &chatter{c: c, cmd: c.command(append([]string{"chat", "--provider", "openai", "--model", "stand-in"}, args...)...),
		mark: fmt.Sprintf("%s-%d", c.name, r.Uint64()), events: make(chan struct{}, 1), done: make(chan struct{}),
		answers: rand.New(rand.NewPCG(r.Uint64(), 3))}
	h.cmd.Dir = c.work
	h.cmd.Env = append(h.cmd.Env, markOfChat+"="+h.mark, "TIDEMARK_BASE_URL="+c.model.url(c.name), "OPENAI_API_KEY=", "NO_COLOR=1")
	ownGroup(h.cmd)
	return h
}

// run starts the process. What it prints is given to listen.
func (h *chatter) run(listen func(io.Reader)) error {
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	log, err := h.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := h.cmd.Start(); err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() { listen(out) })
	all.Go(func() { h.complaints(log) })
	go func() {
		all.Wait()
		h.cmd.Wait()
		close(h.done)
	}()
	return nil
}

// singleTurn is a single turn that prints every entry once it is kept.
func (c *conversation) singleTurn(r *rand.Rand, prompt string) (*chatter, error) {
	h := c.begin(r, "-p", prompt, "--yes", "--output-format", "stream-json")
	return h, h.run(h.kept)
}

// kept reads what a single turn prints.
func (h *chatter) kept(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // half a line is no acknowledgement
		}
		var said struct {
			Session string `json:"session_id"`
			Worker  string `json:"worker"`
			Entry   *entry `json:"entry"`
		}
		if json.Unmarshal(line, &said) != nil {
			continue
		}
		if said.Session != "" {
			h.c.hearID(said.Session)
		}
		if said.Entry != nil {
			h.c.hear(said.Worker, *said.Entry)
		}
		wake(h.events)
	}
}

// complaints reads what a chat writes to its standard error.
func (h *chatter) complaints(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "Session: "); ok {
			h.c.hearID(id)
		}
		h.said.WriteString(lines.Text() + "\n")
		wake(h.events)
	}
}

// converse is a conversation over a pipe, with a number of turns. With
// asleep it hibernates when idle.
func (c *conversation) converse(r *rand.Rand, turns int, asleep bool) (*chatter, error) {
	var args []string
	if asleep {
		// Minutes: long enough for the next message to come first on a machine
		// that is busy.
		args = []string{"--hibernate-after", "0.02"}
	}
	h := c.begin(r, args...)
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	select {
	case <-c.talk.turned: // of an earlier process
	default:
	}
	if err := h.run(h.asked); err != nil {
		return nil, err
	}
	go h.speak(turns, asleep)
	return h, nil
}

// speak sends one message after the other, each after the previous one
// was answered: an earlier line would answer a question.
func (h *chatter) speak(turns int, asleep bool) {
	for range turns {
		h.c.mu.Lock()
		h.c.turns++
		text := fmt.Sprintf("%s message %d\n", canary, h.c.turns)
		h.c.mu.Unlock()
		if _, err := io.WriteString(h.stdin, text); err != nil {
			return
		}
		select {
		case <-h.c.talk.turned:
		case <-h.done:
			return
		}
	}
	if !asleep {
		h.stdin.Close()
	}
}

// asked answers the questions of a conversation.
func (h *chatter) asked(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "[y] ") {
			answer := []string{"y\n", "y\n", "y\n", "a\n", "n\n"}[h.answers.IntN(5)]
			io.WriteString(h.stdin, answer) // if that fails, the chat is dead
		}
		wake(h.events)
	}
}

// kill kills a chat after some number of events, or when its time is up,
// and reports whether it was still alive.
func (h *chatter) kill(events int, wait, most time.Duration) bool {
	over := time.After(most)
	for alive := true; alive && events > 0; events-- {
		select {
		case <-h.events:
		case <-h.c.talk.heard:
		case <-over:
			alive = false
		case <-h.done:
			alive = false
		}
	}
	time.Sleep(wait)
	killGroup(h.cmd.Process)
	<-h.done
	return !h.cmd.ProcessState.Exited()
}

// turnTimeout is how long a turn of a resumed session may take.
const turnTimeout = 90 * time.Second

// finish waits for the end of a chat, and returns its exit code.
func (h *chatter) finish() (int, error) {
	select {
	case <-h.done:
		return h.cmd.ProcessState.ExitCode(), nil
	case <-time.After(turnTimeout):
		killGroup(h.cmd.Process)
		<-h.done
		return -1, fmt.Errorf("it has not ended after %s", turnTimeout)
	}
}

// tokens returns how often each line is in the effects of the tools.
func (c *conversation) tokens() (map[string]int, error) {
	data, err := os.ReadFile(c.effects())
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	found := make(map[string]int)
	for line := range strings.Lines(string(data)) {
		if token, whole := strings.CutSuffix(line, "\n"); whole {
			found[token]++
		}
	}
	return found, nil
}
