package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/openai"
)

// The ways to read an answer that are measured.
const (
	bareClient = "a bare client"
	ownClient  = "the model's own client"
	inJSON     = "chat -p, stream-json"
	onTerminal = "chat on a terminal"
)

// deltaServer answers every question with the same words, in as many deltas as
// the path says, each written separately, as providers do.
type deltaServer struct {
	base   string
	words  []string
	server *http.Server
	asked  atomic.Int64 // when the last question came, in nanoseconds since began
	began  time.Time
}

func serveDeltas(words int) (*deltaServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &deltaServer{base: "http://" + l.Addr().String(), began: time.Now()}
	for i := range words {
		s.words = append(s.words, fmt.Sprintf("word%d%s", i, gap(i)))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{deltas}/v1/chat/completions", func(w http.ResponseWriter, q *http.Request) { s.answer(w, q, 0) })
	mux.HandleFunc("POST /paced/{deltas}/v1/chat/completions", func(w http.ResponseWriter, q *http.Request) { s.answer(w, q, pacedPause) })
	s.server = &http.Server{Handler: mux}
	go s.server.Serve(l)
	return s, nil
}

// gap is what follows a word: mostly a space, now and then the end of a line
// or of a paragraph.
func gap(i int) string {
	switch {
	case i%60 == 59:
		return "\n\n"
	case i%15 == 14:
		return "\n"
	}
	return " "
}

func (s *deltaServer) url(deltas int) string { return fmt.Sprintf("%s/%d/v1", s.base, deltas) }

// since is how long ago the last question came.
func (s *deltaServer) since() time.Duration {
	return time.Since(s.began) - time.Duration(s.asked.Load())
}

// lastWord ends every answer, on a line of its own.
const lastWord = "end-of-the-tide"

// An answer that is paced has so many deltas in each pause, 2,000 a second: a
// person can type meanwhile.
const (
	pacedPause  = 10 * time.Millisecond
	pacedDeltas = 20
)

// pacedURL is the address of an answer in as many deltas as there are words.
func (s *deltaServer) pacedURL() string { return fmt.Sprintf("%s/paced/%d/v1", s.base, len(s.words)) }

func (s *deltaServer) answer(w http.ResponseWriter, q *http.Request, pause time.Duration) {
	deltas, err := strconv.Atoi(q.PathValue("deltas"))
	body, readErr := io.ReadAll(q.Body)
	if err != nil || readErr != nil {
		http.Error(w, "which?", http.StatusBadRequest)
		return
	}
	s.asked.Store(int64(time.Since(s.began)))
	words := s.words
	if bytes.Contains(body, []byte("JSON array")) { // asked at the end, for what was learned
		deltas, words = 1, []string{"[]"}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for i := range deltas {
		part := words[i*len(words)/deltas : (i+1)*len(words)/deltas]
		fmt.Fprintf(w, `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":%s}}]}`+"\n\n", quoted(strings.Join(part, "")))
		flush.Flush()
		if pause > 0 && i%pacedDeltas == pacedDeltas-1 {
			time.Sleep(pause)
		}
	}
	fmt.Fprintf(w, `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":%s},"finish_reason":"stop"}]}`+"\n\n", quoted("\n\n"+lastWord+"\n"))
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func quoted(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // it is plain text
	}
	return b
}

// streamCommand makes this program read an answer and report when it has it.
const streamCommand = "read-stream"

// readStream reads an answer as a process of its own, so that its cost is
// separate from the server's.
func readStream(args []string) int {
	if len(args) != 2 {
		return 2
	}
	read := bareRead
	if args[0] == ownClient {
		read = ownRead
	}
	if err := read(args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(lastWord)
	return 0
}

// bareRead reads the lines of an answer and does nothing with them.
func bareRead(base string) error {
	res, err := http.Post(base+"/chat/completions", "application/json", strings.NewReader(`{"messages":[]}`))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
	}
	return lines.Err()
}

// ownRead reads an answer with the client that chat has.
func ownRead(base string) error {
	client := openai.New(openai.Options{BaseURL: base})
	for e, err := range client.Stream(context.Background(), model.Request{Model: "m", Entries: []tidemark.Entry{tidemark.Say(tidemark.User, "hello")}}) {
		if err != nil {
			return err
		}
		if e.Done != nil {
			return nil
		}
	}
	return errors.New("the answer has no end")
}

// reader is one way to read an answer: it starts a process, and returns how
// long after the question the answer was there.
type reader func(deltas int) (*exec.Cmd, time.Duration, error)

// streaming measures what an answer in many deltas costs beside clients that
// do nothing with it.
func (r *run) streaming(ctx context.Context) error {
	server, err := serveDeltas(r.size.deltas)
	if err != nil {
		return err
	}
	defer server.server.Close()
	p, err := r.open(ctx, inSQLite, "answers")
	if err != nil {
		return err
	}
	defer p.leave()
	if err := p.close(); err != nil {
		return err
	}
	readers := map[string]reader{
		bareClient: func(n int) (*exec.Cmd, time.Duration, error) { return r.readAlone(ctx, server, bareClient, n) },
		ownClient:  func(n int) (*exec.Cmd, time.Duration, error) { return r.readAlone(ctx, server, ownClient, n) },
		inJSON:     func(n int) (*exec.Cmd, time.Duration, error) { return r.readOnce(ctx, server, p, n) },
		onTerminal: func(n int) (*exec.Cmd, time.Duration, error) { return r.readOnTerminal(ctx, server, p, n) },
	}
	names := []string{bareClient, ownClient, inJSON, onTerminal}
	if _, _, err := readers[onTerminal](1); errors.Is(err, errors.ErrUnsupported) {
		r.table.skip("an answer on a terminal: there is no way here to open one")
		names = names[:3]
	}
	processor := make(samples) // CPU time, by name and by how many deltas
	var contenders []contender
	for _, name := range names {
		for _, n := range []int{1, r.size.deltas} {
			key := deltasName(name, n)
			contenders = append(contenders, contender{key, func() (sample, error) {
				cmd, took, err := readers[name](n)
				if err != nil {
					return sample{}, err
				}
				used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				processor[key] = append(processor[key], sample{each: float64(used)})
				return sample{each: float64(took)}, nil
			}})
		}
	}
	r.say("answers of %s deltas", short(r.size.deltas))
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	for key := range processor {
		processor[key] = processor[key][1:] // the first repetition does not count
	}
	r.streamed(s, processor, names)
	return nil
}

func deltasName(name string, deltas int) string { return fmt.Sprintf("%s of %d", name, deltas) }

// readAlone reads an answer with a client that does nothing else.
func (r *run) readAlone(ctx context.Context, server *deltaServer, how string, deltas int) (*exec.Cmd, time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	cmd := r.commandOf(ctx, self, nil, streamCommand, how, server.url(deltas))
	took, err := untilLine(cmd, server, func(line []byte) bool { return string(line) == lastWord })
	return cmd, took, err
}

// readOnce is a single turn that prints every delta, and the answer once it is
// durable.
func (r *run) readOnce(ctx context.Context, server *deltaServer, p *place, deltas int) (*exec.Cmd, time.Duration, error) {
	cmd := r.chat(ctx, p, "--provider", "openai", "--base-url", server.url(deltas), "-p", "hello", "--output-format", "stream-json")
	took, err := untilLine(cmd, server, func(line []byte) bool {
		var said struct{ Type string }
		return bytes.HasPrefix(line, []byte(`{"type":"assistant"`)) || json.Unmarshal(line, &said) == nil && said.Type == "assistant"
	})
	return cmd, took, err
}

// untilLine runs a process to its end and returns how long after the question
// it printed a line.
func untilLine(cmd *exec.Cmd, server *deltaServer, is func(line []byte) bool) (took time.Duration, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		if took == 0 && is(bytes.TrimSuffix(line, []byte("\n"))) {
			took = server.since()
		}
	}
	if err := cmd.Wait(); err != nil || took == 0 {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[1:], " "), errors.Join(err, errors.New("no answer")), complaint.String())
	}
	return took, nil
}

// readOnTerminal is a conversation of one message, rendered as people see it.
func (r *run) readOnTerminal(ctx context.Context, server *deltaServer, p *place, deltas int) (*exec.Cmd, time.Duration, error) {
	cmd := r.chat(ctx, p, "--provider", "openai", "--base-url", server.url(deltas))
	w, err := openWindow(cmd)
	if err != nil {
		return nil, 0, err
	}
	defer w.close()
	if err := errors.Join(w.until(prompt), w.say("hello"), w.until(lastWord)); err != nil {
		return nil, 0, err
	}
	took := server.since()
	return cmd, took, w.leave()
}

// streamed adds the rows of answers.
func (r *run) streamed(s, processor samples, names []string) {
	n := r.size.deltas
	for _, name := range names {
		one := row{what: fmt.Sprintf("answer of %s deltas: %s", short(n), name), time: s.time(deltasName(name, n))}
		if name != bareClient {
			one.against, one.ratio = bareClient, s.ratio(deltasName(name, n), deltasName(bareClient, n))
		}
		r.table.add(one)
	}
	for _, name := range names[2:] {
		beyond := spreadOf(beyondClient(processor, name, n))
		met := beyond.median <= 1e6
		r.table.add(row{goal: "P14", what: "CPU of 1,000 deltas beyond " + ownClient + ": " + name, value: duration(beyond.median),
			want: want{text: "≤ 1.0 ms", met: &met}})
	}
}

// beyondClient is how much more 1,000 deltas take than in the model's own
// client, repetition by repetition. The cost of the same answer in one delta
// is subtracted from both: it is the start and the end of the process, and
// keeping the answer.
func beyondClient(processor samples, name string, deltas int) (values []float64) {
	for i := range processor[deltasName(name, deltas)] {
		grown := func(name string) float64 {
			return processor[deltasName(name, deltas)][i].each - processor[deltasName(name, 1)][i].each
		}
		values = append(values, (grown(name)-grown(ownClient))/float64(deltas)*1000)
	}
	return values
}
