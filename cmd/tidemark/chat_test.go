//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/tidemark-sessions/tidemark/model"
)

// standIn is a model server that speaks the wire of OpenAI and keeps what it
// was sent. What the last message of the user says decides the answer.
type standIn struct {
	*httptest.Server
	hang chan struct{} // closed: what hangs goes on

	mu   sync.Mutex
	sent []wireRequest
}

type wireRequest struct {
	Messages []wireMessage `json:"messages"`
	Stream   bool          `json:"stream"`
	raw      []byte
}

type wireMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// hangs is a word and no part of one, such as "change", which other texts have.
var hangs = regexp.MustCompile(`\bhang\b`)

func newStandIn(t *testing.T) *standIn {
	s := &standIn{hang: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(func() {
		close(s.hang)
		s.Close()
	})
	return s
}

func (s *standIn) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req := wireRequest{raw: body}
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.sent = append(s.sent, req)
	s.mu.Unlock()
	last := req.Messages[len(req.Messages)-1]
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(text string) {
		delta, _ := json.Marshal(text)
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", delta)
		w.(http.Flusher).Flush()
	}
	finish := "stop"
	learning := strings.Contains(string(req.Messages[0].Content), "List what the agent should know")
	switch text := string(last.Content); {
	case learning && strings.Contains(text, "slow to learn"):
		<-s.hang
	case learning:
		say(`["Tabs, always."]`)
	case hangs.MatchString(text):
		say("Let me think about that ")
		select {
		case <-r.Context().Done():
		case <-s.hang:
		}
		return
	case last.Role == "user" && strings.Contains(text, "run "):
		_, command, _ := strings.Cut(strings.Trim(text, `"`), "run ")
		input, _ := json.Marshal(map[string]string{"command": command})
		quoted, _ := json.Marshal(string(input))
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"bash\",\"arguments\":%s}}]}}]}\n\n", quoted)
	case last.Role == "user" && strings.Contains(text, "change it"):
		fmt.Fprint(w, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"write","arguments":"{\"path\":\"tide.txt\",\"content\":\"high\\n\"}"}}]}}]}`+"\n\n")
	case strings.Contains(text, "escape"):
		say("before \x1b]0;owned\x07\x1b[2J after \u202eabc")
	default:
		say("You said " + strings.Trim(text, `"`) + ".")
		if strings.Contains(text, "at length") {
			finish = "length"
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", finish)
}

func (s *standIn) requests() []wireRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// terminalChat is the program on a real terminal.
type terminalChat struct {
	*screen
	cmd *exec.Cmd
	tty *os.File
	dir string
}

func tidemarkIn(dir string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = "tidemark" // testscript.Main chooses the command by it
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir+"/home", "XDG_CONFIG_HOME="+dir+"/config", "XDG_DATA_HOME="+dir+"/data", "XDG_STATE_HOME="+dir+"/state", "TIDEMARK_STORE=", "TERM=xterm-256color",
		"ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "TIDEMARK_PROVIDER=openai")
	return cmd
}

func openChat(t *testing.T, dir string, columns uint16, args ...string) *terminalChat {
	t.Helper()
	c := openTerminal(t, dir, columns, args...)
	c.shows("you>")
	return c
}

// openTerminal is openChat without waiting for the prompt.
func openTerminal(t *testing.T, dir string, columns uint16, args ...string) *terminalChat {
	t.Helper()
	return onTerminal(t, tidemarkIn(dir, append([]string{"chat"}, args...)...), columns)
}

// onTerminal starts a program on a terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd, columns uint16) *terminalChat {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: columns})
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		tty.Close()
	})
	c := &terminalChat{cmd: cmd, tty: tty, dir: cmd.Dir,
		screen: &screen{t: t, term: vt10x.New(vt10x.WithSize(int(columns), 40), vt10x.WithWriter(tty)), read: make(chan []byte)}}
	go c.listen(tty)
	return c
}

func (c *terminalChat) types(keys string) {
	c.t.Helper()
	if _, err := c.tty.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the end of the program and returns its exit code.
func (c *terminalChat) ends() int {
	c.t.Helper()
	for data := range c.read {
		c.take(data)
	}
	c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

var savedLine = regexp.MustCompile(`Session saved: ([0-9a-f-]{36})`)

func TestEveryWayOutSavesAndSaysWhereToFindIt(t *testing.T) {
	t.Parallel()
	server := newStandIn(t)
	for name, way := range map[string]struct {
		leave func(*terminalChat)
		args  []string
		code  int
		also  string
	}{
		"/exit":   {func(c *terminalChat) { c.types("/exit\r") }, nil, 0, ""},
		"/q":      {func(c *terminalChat) { c.types("/q\r") }, nil, 0, ""},
		"Ctrl-D":  {func(c *terminalChat) { c.types("\x04") }, nil, 0, ""},
		"Ctrl-C":  {(*terminalChat).pressesCtrlCTwice, nil, 130, ""},
		"SIGTERM": {func(c *terminalChat) { c.cmd.Process.Signal(syscall.SIGTERM) }, nil, 143, ""},
		"SIGINT":  {func(c *terminalChat) { c.cmd.Process.Signal(syscall.SIGINT) }, nil, 130, ""},
		"SIGHUP":  {func(c *terminalChat) { c.cmd.Process.Signal(syscall.SIGHUP) }, nil, 129, ""},
		"silence": {func(*terminalChat) {}, []string{"--hibernate-after", "0.02"}, 0, "Hibernated: session saved"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openChat(t, t.TempDir(), 100, append([]string{"--base-url", server.URL}, way.args...)...)
			c.types("Always use tabs, at length.\r")
			// That it was cut off is said when nothing is left to stop: from here
			// on, Ctrl-C is about leaving.
			c.shows("You said Always use tabs, at length..", model.StopText(model.StopMaxTokens))
			way.leave(c)
			code := c.ends()
			shown := c.term.String()
			for _, line := range []string{"Extracting learnings from 1 message(s)", "Found 1 steering insight(s)", "Insight synthesis complete", "Session saved: ", "(encrypted)", "Resume: tidemark chat --resume ", way.also} {
				if !strings.Contains(shown, line) {
					t.Errorf("%q is missing:\n%s", line, shown)
				}
			}
			if code != way.code {
				t.Errorf("exit code %d, want %d", code, way.code)
			}
			id := savedLine.FindStringSubmatch(shown)
			if id == nil {
				t.FailNow()
			}
			out, err := tidemarkIn(c.dir, "cat", id[1]).Output()
			if err != nil || !strings.Contains(string(out), "You said Always use tabs, at length..") {
				t.Errorf("it is not there: %v\n%s", err, out)
			}
			if out, err := tidemarkIn(c.dir, "lock", id[1], "--json=held").Output(); err != nil || !strings.Contains(string(out), `"held":false`) {
				t.Errorf("it is still held: %v %s", err, out)
			}
		})
	}
}

// pressesCtrlCTwice leaves by Ctrl-C at a prompt where nothing can be stopped.
func (c *terminalChat) pressesCtrlCTwice() {
	c.t.Helper()
	c.types("\x03")
	c.shows("press Ctrl-C again to leave")
	c.types("\x03")
}

// TestCtrlCAtAPromptLeavesOnlyWhenPressedAgain: the first one drops what was
// typed and says so, and another key makes the next one the first again.
func TestCtrlCAtAPromptLeavesOnlyWhenPressedAgain(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	const warning = "press Ctrl-C again to leave"
	c := openChat(t, t.TempDir(), 40, "--no-encrypt", "--base-url", model.URL)
	c.shows("gpt-5.1") // until it is there, Ctrl-C ends the start
	for _, typed := range []string{"", "half a line"} {
		c.types(typed)
		c.shows("you> " + typed)
		c.types("\x03")
		c.shows(warning)
		c.waitFor(func(now string) bool { return strings.Contains(now, "you>\n"+warning) })
		c.types("x")
		c.waitFor(func(now string) bool { return strings.Contains(now, "you> x\n") && !strings.Contains(now, warning) })
		c.types("\x7f")
		c.waitFor(func(now string) bool { return strings.Contains(now, "you>\n") })
	}
	c.types("hello, at length\r")
	c.shows("You said hello, at length.", "cut off")
	c.types("\x1b[Ahalf")
	c.pressesCtrlCTwice()
	if code := c.ends(); code != 130 {
		t.Errorf("exit code %d:\n%s", code, c.term.String())
	}

	// Where the terminal itself edits the line, the signal is the key.
	c = openChat(t, t.TempDir(), 80, "--plain", "--no-encrypt", "--base-url", model.URL)
	c.types("half\x03")
	c.shows(warning)
	c.types("hello\r")
	c.shows("You said hello.")
	c.types("\x03")
	c.waitFor(func(now string) bool { return strings.Count(now, warning) == 2 })
	c.types("\x03")
	if code := c.ends(); code != 130 {
		t.Errorf("exit code %d:\n%s", code, c.term.String())
	}
	out, err := tidemarkIn(c.dir, "cat", "last").Output()
	if err != nil || strings.Contains(string(out), "half") || !strings.Contains(string(out), "You said hello.") {
		t.Errorf("%v %s", err, out)
	}
}

func TestLeavingWithoutAWordLeavesNothing(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	c := openChat(t, t.TempDir(), 80, "--base-url", model.URL)
	c.types("\x04")
	if code := c.ends(); code != 0 || strings.Contains(c.term.String(), "Session") {
		t.Errorf("exit code %d:\n%s", code, c.term.String())
	}
	if out, err := tidemarkIn(c.dir, "ls", "-A").Output(); err != nil || len(out) > 0 {
		t.Errorf("ls: %v %s", err, out)
	}
}

func TestCtrlCStopsATurnAndKeepsWhatCame(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	c := openChat(t, t.TempDir(), 80, "--base-url", model.URL)
	c.types("please hang\r")
	c.shows("Let me think")
	c.types("\x03")
	c.shows("(stopped)")
	c.types("and now?\r")
	c.shows("You said and now?.")
	sent := model.requests()
	last := sent[len(sent)-1]
	if n := len(last.Messages); n != 4 || !strings.Contains(string(last.Messages[2].Content), "Let me think") {
		t.Errorf("%d messages were sent: %s", n, last.raw)
	}
	c.types("\x04")
	c.ends()
}

func TestAFurtherSignalLeavesAtOnce(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	for name, again := range map[string]func(*terminalChat){
		"SIGTERM": func(c *terminalChat) { c.cmd.Process.Signal(syscall.SIGTERM) },
		"Ctrl-C":  func(c *terminalChat) { c.types("\x03") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openChat(t, t.TempDir(), 100, "--base-url", model.URL)
			c.types("I am slow to learn\r")
			c.shows("You said I am slow to learn.")
			c.cmd.Process.Signal(syscall.SIGTERM)
			c.shows("Extracting learnings")
			again(c)
			if code := c.ends(); code != 143 {
				t.Errorf("exit code %d, want 143:\n%s", code, c.term.String())
			}
			// Nothing is lost by that: the conversation was kept as it was said.
			out, err := tidemarkIn(c.dir, "cat", "last").Output()
			if err != nil || !strings.Contains(string(out), "You said I am slow to learn.") {
				t.Errorf("%v %s", err, out)
			}
		})
	}
}

func TestAResumedSessionSendsWhatItSentBefore(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	dir := t.TempDir()
	say := func(args ...string) {
		t.Helper()
		if out, err := tidemarkIn(dir, append([]string{"chat", "--base-url", model.URL}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	say("-p", "one", "--name", "talk")
	say("-p", "two", "-c")
	say("-p", "three", "--resume", "talk")
	say("-p", "instead", "--resume", "talk", "--branch", "n0")
	sent := model.requests()
	var prompts []string
	for i, r := range sent {
		var said []string
		for _, m := range r.Messages {
			if m.Role == "user" {
				said = append(said, strings.Trim(string(m.Content), `"`))
			}
		}
		prompts = append(prompts, strings.Join(said, " "))
		if i > 0 && i < 3 && !strings.HasPrefix(upToMessages(r.raw), strings.TrimSuffix(upToMessages(sent[i-1].raw), "]")) {
			t.Errorf("request %d does not begin with what was sent before:\n%s\n%s", i, sent[i-1].raw, r.raw)
		}
	}
	if got := strings.Join(prompts, "; "); got != "one; one two; one two three; one instead" {
		t.Errorf("the server was sent: %s", got)
	}
}

// upToMessages returns the messages of a request as they were sent.
func upToMessages(raw []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	return string(fields["messages"])
}

func TestWhatAModelSaysCannotReachTheTerminal(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	for _, columns := range []uint16{40, 120} {
		c := openChat(t, t.TempDir(), columns, "--base-url", model.URL)
		c.types("escape 日本語 🌊\r")
		c.shows("after", "before", "日本語")
		if title := c.term.Title(); title == "owned" {
			t.Errorf("the title is %q", title)
		}
		c.types("\x04")
		c.ends()
	}
	cmd := tidemarkIn(t.TempDir(), "chat", "--base-url", model.URL)
	cmd.Stdin = strings.NewReader("escape\n")
	out, err := cmd.Output()
	if err != nil || strings.ContainsAny(string(out), "\x1b\x07") {
		t.Errorf("in a pipe: %v %q", err, out)
	}
}

func TestWorkersAreSeenLive(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	c := openChat(t, t.TempDir(), 100, "--base-url", model.URL)
	c.types("hello\r")
	c.shows("You said hello.")
	c.types("/spawn scout hang around\r")
	c.shows("● scout")
	c.types("\x1d") // Ctrl-]
	c.shows("worker scout", "hang around")
	c.types("/stop scout\r")
	c.shows("○ scout")
	c.types("anything else?\r")
	c.shows("You said anything else?.")
	c.types("\x1b")
	c.shows("the conversation")
	c.types("\x04")
	c.ends()
	id := savedLine.FindStringSubmatch(c.term.String())
	if id == nil {
		t.Fatalf("not saved:\n%s", c.term.String())
	}
	out, err := tidemarkIn(c.dir, "cat", id[1], "--worker", "scout").Output()
	if err != nil || !strings.Contains(string(out), "anything else?") {
		t.Errorf("%v %s", err, out)
	}
}

// noise is text of so many bytes that compression leaves most of, as no text of
// people is: what fills a disk has to be as large when it is encrypted.
func noise(bytes int) string {
	text := make([]byte, bytes)
	for i := range text {
		if text[i] = 'a' + byte(rand.IntN(26)); i%7 == 6 {
			text[i] = ' '
		}
	}
	return string(text)
}

func TestADiskThatFillsUpIsSaidLoudly(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash to limit the size of files")
	}
	model := newStandIn(t)
	dir := t.TempDir()
	if out, err := tidemarkIn(dir, "chat", "--base-url", model.URL, "-p", "hello", "--name", "talk").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	chat := tidemarkIn(dir, "chat", "--base-url", model.URL, "--resume", "talk")
	cmd := exec.Command("bash", "-c", `ulimit -f 3000; exec -a tidemark "$@"`, "bash", chat.Path)
	cmd.Args = append(cmd.Args, chat.Args[1:]...)
	cmd.Dir, cmd.Env = chat.Dir, chat.Env
	cmd.Stdin = strings.NewReader("small\n" + noise(8<<20) + "\nnever said\n")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 14 {
		t.Errorf("exit code %d (%v), want 14:\n%.2000s", code, err, out)
	}
	if shown := string(out); !strings.Contains(shown, "NOT SAVED") || strings.Contains(shown, "Session saved") || strings.Contains(shown, "never said") {
		t.Errorf("%.3000s", shown)
	}
	kept, err := tidemarkIn(dir, "cat", "talk").Output()
	if err != nil || !strings.Contains(string(kept), "You said small.") {
		t.Errorf("what was kept before: %v %.500s", err, kept)
	}
}

func TestASessionThatWasTakenAwayIsSaidLoudly(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	c := openChat(t, t.TempDir(), 100, "--base-url", model.URL, "--name", "talk")
	c.types("hello\r")
	c.shows("You said hello.")
	if out, err := tidemarkIn(c.dir, "lock", "talk", "--release", "--force").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	c.types("never kept\r")
	if code := c.ends(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if shown := c.term.String(); !strings.Contains(shown, "NOT SAVED") || !strings.Contains(shown, "tidemark chat --resume") || strings.Contains(shown, "Session saved") {
		t.Errorf("%s", shown)
	}
	kept, err := tidemarkIn(c.dir, "cat", "talk").Output()
	if err != nil || !strings.Contains(string(kept), "You said hello.") || strings.Contains(string(kept), "never kept") {
		t.Errorf("what was kept: %v %.500s", err, kept)
	}
}
