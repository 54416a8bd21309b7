package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// standIn is a model server in this process. It plays scripts with tool calls
// whose effects can be counted, and checks every request: that a real
// provider would accept it, and that it begins with what was sent before.
type standIn struct {
	base   string
	server *http.Server
	python bool // there is one to call

	mu    sync.Mutex
	talks map[string]*talk // by the name of the conversation
	names int              // for unique ids of calls

	summaries, workers int // met so far
}

// talk is the server's state of one conversation.
type talk struct {
	r        *rand.Rand
	effects  string // the file that tools add a line to
	threads  map[string]*thread
	calls    map[string]*call // by id
	files    []string         // files acknowledged as kept with the session
	requests int
	faults   []string      // what no provider would accept
	heard    chan struct{} // signals a request
	turned   chan struct{} // signals the end of a turn of the main thread
}

// thread is the conversation itself, "", or a worker of it.
type thread struct {
	system, tools []byte
	messages      [][]byte // of the newest request, without the system prompt
}

// call is a tool call that the server asked for.
type call struct {
	id, tool, input string
	token           string // the line that it adds to the effects, "" for none
	file            string // file that it keeps with the session
	wants           string // what its result has to contain, if it has one
}

func startModel() (*standIn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, noPython := exec.LookPath("python3")
	s := &standIn{base: "http://" + l.Addr().String(), talks: make(map[string]*talk), python: noPython == nil}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{talk}/v1/chat/completions", s.answer)
	s.server = &http.Server{Handler: mux}
	go s.server.Serve(l)
	return s, nil
}

func (s *standIn) close() { s.server.Close() }

// url is the address of the server for one conversation.
func (s *standIn) url(name string) string { return s.base + "/" + name + "/v1" }

// begin makes room for a conversation.
func (s *standIn) begin(name, effects string, seed uint64) *talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &talk{r: rand.New(rand.NewPCG(seed, 2)), effects: effects, threads: make(map[string]*thread), calls: make(map[string]*call),
		heard: make(chan struct{}, 1), turned: make(chan struct{}, 1)}
	s.talks[name] = t
	return t
}

func (s *standIn) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.talks, name)
}

// met returns how often a conversation was compacted, and how many workers
// asked something.
func (s *standIn) met() (summaries, workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.summaries, s.workers
}

// known returns how many requests a conversation made, and which of its
// workers asked something.
func (s *standIn) known(t *talk) (requests int, workers []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.requests, t.workers()
}

// refused returns the faults in requests since the last call.
func (s *standIn) refused(t *talk) (faults []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	faults, t.faults = t.faults, nil
	return faults
}

// called returns a call by its id.
func (s *standIn) called(t *talk, id string) (call, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := t.calls[id]
	if c == nil {
		return call{}, false
	}
	return *c, true
}

func (t *talk) workers() (names []string) {
	for name := range t.threads {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// asked is the part of a request that the server looks at.
type asked struct {
	Messages []json.RawMessage `json:"messages"`
	Tools    json.RawMessage   `json:"tools"`
}

type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

// workerName finds whose conversation it is in a system prompt.
var workerName = regexp.MustCompile(`You are the worker "([^"]*)" of this session`)

func (s *standIn) answer(w http.ResponseWriter, r *http.Request) {
	var in asked
	s.mu.Lock()
	t := s.talks[r.PathValue("talk")]
	s.mu.Unlock()
	err := json.NewDecoder(r.Body).Decode(&in)
	if t == nil || err != nil {
		http.Error(w, "unknown", http.StatusNotFound)
		return
	}
	if len(in.Tools) == 0 { // asked outside the conversation: what was learned
		stream(w, reply{text: []string{"[]"}})
		return
	}
	s.mu.Lock()
	out := s.reply(t, in)
	s.mu.Unlock()
	wake(t.heard)
	stream(w, out)
	if out.last {
		wake(t.turned)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// reply records a request and composes the answer.
func (s *standIn) reply(t *talk, in asked) reply {
	t.requests++
	all := make([]message, len(in.Messages))
	for i, raw := range in.Messages {
		if err := json.Unmarshal(raw, &all[i]); err != nil {
			t.fault("message %d of a request: %v", i, err)
		}
	}
	if err := valid(all); err != nil {
		t.fault("%v", err)
		return reply{text: []string{"no"}, last: true}
	}
	worker := ""
	if m := workerName.FindStringSubmatch(all[0].Content); m != nil {
		worker = m[1]
	}
	if worker != "" && t.threads[worker] == nil {
		s.workers++
	}
	if t.compare(worker, in) {
		s.summaries++
	}
	t.results(all)
	return s.script(t, worker, all[1:])
}

func (t *talk) fault(format string, args ...any) {
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// valid checks what a provider would refuse: every call has to be answered,
// once and at once, and the last message is not the assistant's.
func valid(all []message) error {
	if len(all) < 2 || all[0].Role != "system" || all[1].Role != "user" {
		return errors.New("a request does not begin with a system prompt and the user")
	}
	open := make(map[string]bool)
	seen := make(map[string]bool)
	for i, m := range all[1:] {
		before := all[i]
		switch {
		case m.Role == "tool" && !open[m.ToolCallID]:
			return fmt.Errorf("message %d answers call %q, which is not open", i+1, m.ToolCallID)
		case m.Role == "tool":
			delete(open, m.ToolCallID)
			continue
		case len(open) > 0:
			return fmt.Errorf("message %d (%s) comes before all calls are answered", i+1, m.Role)
		case m.Role == "assistant" && before.Role == "assistant":
			return fmt.Errorf("message %d is a second answer", i+1)
		case m.Role != "assistant" && m.Role != "user":
			return fmt.Errorf("message %d is of role %q", i+1, m.Role)
		}
		for _, c := range m.ToolCalls {
			if seen[c.ID] {
				return fmt.Errorf("call %q is there twice", c.ID)
			}
			open[c.ID], seen[c.ID] = true, true
		}
	}
	if last := all[len(all)-1].Role; len(open) > 0 || last == "assistant" {
		return fmt.Errorf("a request ends with role %s and %d open calls", last, len(open))
	}
	return nil
}

// summaryTag begins a summary that replaces what was said before it.
const summaryTag = "[COMPACTION SUMMARY]"

// compare checks whether a request begins with the previous one: everything
// that was sent once had been kept before. It reports whether a summary
// replaced the beginning.
func (t *talk) compare(worker string, in asked) (summary bool) {
	system, rest := []byte(in.Messages[0]), make([][]byte, 0, len(in.Messages))
	for _, m := range in.Messages[1:] {
		rest = append(rest, m)
	}
	was := t.threads[worker]
	t.threads[worker] = &thread{system, in.Tools, rest}
	if was == nil {
		return false
	}
	same := 0
	for same < min(len(rest), len(was.messages)) && bytes.Equal(rest[same], was.messages[same]) {
		same++
	}
	if bytes.Contains(rest[0], []byte(summaryTag)) && same == 0 {
		return true // what precedes it may be new, too
	}
	if !bytes.Equal(was.system, system) {
		t.fault("thread %q: the system prompt was %s and is %s", worker, was.system, system)
	}
	if !bytes.Equal(was.tools, in.Tools) {
		t.fault("thread %q: the tools were %s and are %s", worker, was.tools, in.Tools)
	}
	if same == len(was.messages) {
		return false
	}
	now := []byte("nothing")
	if same < len(rest) {
		now = rest[same]
	}
	t.fault("thread %q: message %d of %d was %.200s and is %.200s", worker, same+1, len(was.messages), was.messages[same], now)
	return false
}

// results checks the results of calls: a file whose write was acknowledged
// exists later.
func (t *talk) results(all []message) {
	for _, m := range all {
		c := t.calls[m.ToolCallID]
		if m.Role != "tool" || c == nil {
			continue
		}
		if c.wants != "" && !strings.Contains(m.Content, c.wants) && !strings.Contains(m.Content, "interrupted") && !strings.Contains(m.Content, "not run") {
			t.fault("%s %s: %.200s", c.tool, c.input, m.Content)
		}
		if c.file != "" && strings.Contains(m.Content, "Wrote ") {
			t.files, c.file = append(t.files, c.file), ""
		}
	}
}

// reply is one answer of the model.
type reply struct {
	text  []string // deltas
	calls []call
	last  bool // last answer of a turn of the main thread
}

// goOn is what a session is resumed with after a kill.
const goOn = "go on"

// script decides the model's next answer.
func (s *standIn) script(t *talk, worker string, said []message) reply {
	user := 0
	for i, m := range said {
		if m.Role == "user" {
			user = i
		}
	}
	rounds := 0
	for _, m := range said[user:] {
		if m.Role == "assistant" {
			rounds++
		}
	}
	var out reply
	switch {
	case strings.HasPrefix(said[user].Content, goOn):
		out.calls = s.after(t, worker, rounds)
	case rounds < 4 && t.r.IntN(10) < 8-2*rounds:
		for range 1 + t.r.IntN(3) {
			out.calls = append(out.calls, s.someCall(t, worker))
		}
	}
	size := []int{1, 5, 60, 400}[t.r.IntN(4)]
	if len(out.calls) > 0 {
		size = t.r.IntN(3)
	}
	for i := range size {
		out.text = append(out.text, fmt.Sprintf("%s word %d ", canary, i))
	}
	out.last = worker == "" && len(out.calls) == 0
	return out
}

// after is what the model does when told to go on: every worker that it knows
// continues, too, so that open calls there are settled.
func (s *standIn) after(t *talk, worker string, rounds int) (calls []call) {
	switch {
	case rounds == 0:
		calls = append(calls, s.shellCall(t))
		if n := len(t.files); n > 0 {
			file := t.files[t.r.IntN(n)]
			calls = append(calls, s.add(t, call{tool: "read", wants: file}, map[string]any{"path": "session:artifacts/" + file}))
		}
		for _, name := range t.workers() {
			if worker == "" {
				calls = append(calls, s.call(t, "tell_worker", "", map[string]any{"name": name, "text": goOn}))
			}
		}
	case rounds == 1 && worker == "":
		for _, name := range t.workers() {
			calls = append(calls, s.call(t, "await_worker", "", map[string]any{"name": name}))
		}
	}
	return calls
}

// maxChatWorkers is how many workers a conversation gets.
const maxChatWorkers = 3

func (s *standIn) someCall(t *talk, worker string) call {
	switch n := t.r.IntN(20); {
	case n < 2 && worker == "":
		name := fmt.Sprintf("w%d", t.r.IntN(maxChatWorkers))
		return s.call(t, "spawn_worker", "", map[string]any{"name": name, "prompt": "work on " + canary})
	case n < 3 && worker == "":
		return s.call(t, "remember", "", map[string]any{"key": "scratchpad", "text": s.name()})
	case n < 4 && worker == "":
		return s.call(t, "task", "", map[string]any{"action": "add", "text": s.name()})
	case n < 5:
		return s.call(t, "nobody", "", map[string]any{}) // a tool that does not exist
	case n < 7:
		file := s.name()
		return s.add(t, call{tool: "write", file: file}, map[string]any{"path": "session:artifacts/" + file, "content": "this is " + file})
	case n < 8 && s.python:
		token := s.name()
		return s.call(t, "python", token, map[string]any{"code": fmt.Sprintf("open(%q, 'a').write(%q)", t.effects, token+"\n")})
	}
	return s.shellCall(t)
}

func (s *standIn) shellCall(t *talk) call {
	token := s.name()
	add := fmt.Sprintf("echo %s >> '%s'", token, t.effects)
	commands := []string{add, "sleep 0.05; " + add, add + "; sleep 0.05", add + "; seq 1 300", "export LAST=" + token + "; " + add}
	return s.call(t, "bash", token, map[string]any{"command": commands[t.r.IntN(len(commands))]})
}

func (s *standIn) call(t *talk, tool, token string, input map[string]any) call {
	return s.add(t, call{tool: tool, token: token}, input)
}

// add gives a call an id.
func (s *standIn) add(t *talk, c call, input map[string]any) call {
	b, err := json.Marshal(input)
	if err != nil {
		panic(err) // it is made of strings
	}
	c.id, c.input = "call_"+s.name(), string(b)
	t.calls[c.id] = &c
	return c
}

// name returns a word that was not used before.
func (s *standIn) name() string {
	s.names++
	return fmt.Sprintf("%s-%d", canary, s.names)
}

// restEvery is the number of deltas after which the model pauses, so that a
// kill can hit the middle of an answer.
const restEvery = 20

// stream writes an answer as a provider does, delta by delta.
func stream(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta any, finish string) {
		choice := map[string]any{"index": 0, "delta": delta}
		if finish != "" {
			choice["finish_reason"] = finish
		}
		event(w, map[string]any{"id": "x", "object": "chat.completion.chunk", "model": "stand-in", "choices": []any{choice}})
	}
	for i, text := range out.text {
		send(map[string]any{"role": "assistant", "content": text}, "")
		if i%restEvery == restEvery-1 {
			time.Sleep(time.Millisecond)
		}
	}
	finish := "stop"
	for i, c := range out.calls {
		finish = "tool_calls"
		half := len(c.input) / 2
		send(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": c.id, "type": "function",
			"function": map[string]any{"name": c.tool, "arguments": c.input[:half]}}}}, "")
		send(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": c.input[half:]}}}}, "")
	}
	send(map[string]any{}, finish)
	event(w, map[string]any{"id": "x", "choices": []any{}, "usage": map[string]any{"prompt_tokens": 10, "completion_tokens": len(out.text)}})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func event(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of maps and strings
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
