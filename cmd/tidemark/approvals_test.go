//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/hostile"
)

// Each place where a person is asked shows the same lines. The calls are those
// of package hostile; what the lines are is tested where they are made.

// commandCall is what makes the demo model call bash, in ASCII, which a
// terminal can be typed.
func commandCall(t *testing.T, command string) (said string, shown string) {
	t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range string(input) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return "call bash " + b.String(), render.ApprovalText(render.ApprovalLines("bash", input, nil))
}

// dense is a text without blanks, so that it does not matter where a terminal
// breaks its lines.
func dense(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

func TestATerminalShowsHostileCallsWhole(t *testing.T) {
	t.Parallel()
	for name, command := range hostile.Commands() {
		if len(command) > 1500 {
			continue // nobody types that; the next test pages through a long one
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, want := commandCall(t, command)
			c := openChat(t, t.TempDir(), 80, "--no-encrypt", "--provider", "demo")
			c.types(said + "\r")
			c.shows("[n] deny", "Allow bash")
			screen := c.term.String()
			_, asked, _ := strings.Cut(dense(screen), dense("@ bash\n@ command:"))
			if !strings.Contains(dense("@ bash\n@ command:")+asked, dense(want)) {
				t.Errorf("want\n%s\non the screen:\n%s", want, screen)
			}
		})
	}
}

// readingTime is longer than the time in which a key is not taken for an
// answer: nobody reads a question that fast.
const readingTime = 400 * time.Millisecond

func TestATerminalPagesThroughWhatIsLongerThanTheScreen(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 90 {
		lines = append(lines, fmt.Sprintf("echo %d", i))
	}
	long := "echo " + strings.Repeat("y", 3000) + "; " + hostile.Hidden + "; echo " + strings.Repeat("z", 5000)
	for name, c := range map[string]struct {
		command string
		pages   [][]string // what each page shows
	}{
		"many lines":                          {strings.Join(lines, "\n"), [][]string{{"echo 0", "echo 33", "more lines"}, {"echo 40", "echo 60", "more lines"}, {"echo 89", "Allow bash"}}},
		"a line that is longer than a screen": {long, [][]string{{"@ command:", "echo yyyy", "17 more lines"}, {hostile.Hidden, "the same line goes on", "11 more lines"}, {"zzzz", "5 more lines"}, {"zzzz", "Allow bash"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			said, _ := commandCall(t, c.command)
			chat := openChat(t, dir, 80, "--no-encrypt", "--provider", "demo")
			chat.types(said + "\r")
			for i, page := range c.pages {
				chat.shows(page...)
				if strings.Contains(chat.term.String(), "Allow bash") != (i == len(c.pages)-1) {
					t.Fatalf("page %d:\n%s", i, chat.term.String())
				}
				if i < len(c.pages)-1 {
					<-time.After(readingTime)
					chat.types("m")
				}
			}
		})
	}
}

func TestClientsOfAServerAreShownHostileCallsWholeAndAllowOne(t *testing.T) {
	_, _, dial := serveChat(t, memory.New(), &overheard{Client: demo.New(demo.Options{Delay: -1})})
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	c := dial()
	c.attach(api.SocketRequest{New: true})
	for name, command := range hostile.Commands() {
		said, want := commandCall(t, strings.ReplaceAll(command, hostile.Hidden, "true "+hostile.Hidden)) // it runs
		for round := range 2 {                                                                            // what was allowed once is asked again
			var question agent.RemoteEvent
			for line := range strings.SplitSeq(c.turn(said), "\n") {
				var m api.SocketReply
				var e agent.RemoteEvent
				if json.Unmarshal([]byte(line), &m) == nil && json.Unmarshal(m.Data, &e) == nil && e.Type == "question" {
					question = e
				}
			}
			if got := render.ApprovalText(question.Lines); got != want {
				t.Errorf("%s, round %d: %q, want %q", name, round, got[:min(len(got), 300)], want[:min(len(want), 300)])
			}
		}
	}
	said, _ := commandCall(t, hostile.HugeCommand()[:300<<10])
	if got := c.turn(said); strings.Contains(got, `"question"`) || !strings.Contains(got, "more than a person can be shown") {
		t.Errorf("more than a person can be shown: %.300s", got)
	}
	if found, err := os.ReadDir(state); err != nil || len(found) > 0 {
		t.Errorf("grants: %v, %v", found, err)
	}
}

func TestReviewsShowsHostileCallsWholeAndApprovesOne(t *testing.T) {
	t.Parallel()
	f := newWorld(t)
	f.plain(f.mine())
	s, done := f.at(f.mine())
	job := waitingJob(t, s)
	want := make(map[string]string)
	n := 0
	for name, command := range hostile.Commands() {
		n++
		call := fmt.Sprintf("c%02d", n)
		_, shown := commandCall(t, command)
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		if err := fleet.Over(s).AskReview(t.Context(), fleet.Review{Job: job, Agent: "coder", Call: call, Tool: "bash", Title: name, Input: input, Text: shown}); err != nil {
			t.Fatal(err)
		}
		want[call] = shown
	}
	done()
	text := f.run(nil, "reviews", "--store", f.mine())
	for call, shown := range want {
		// The lines are indented, and tabs are blanks.
		if !strings.Contains(dense(text), dense(shown)) {
			t.Errorf("%s is not in the text: %.300q", call, shown)
		}
		if out := f.run(nil, "reviews", "--store", f.mine(), "--jq", fmt.Sprintf(`.[] | select(.call==%q) | .text`, call)); strings.TrimRight(out, "\n") != strings.TrimRight(shown, "\n") {
			t.Errorf("%s in JSON: %.300q, want %.300q", call, out, shown)
		}
	}
	for _, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Errorf("the text has %U", r)
		}
	}
	f.run(nil, "approve", job, "c01", "--store", f.mine())
	s, done = f.at(f.mine())
	defer done()
	waiting, err := fleet.Over(s).WaitingReviews(t.Context(), job)
	if err != nil || len(waiting) != n-1 {
		t.Errorf("%d wait, %v: one was approved", len(waiting), err)
	}
	if found, _ := filepath.Glob(f.dir + "/state/*/grants.json"); len(found) > 0 {
		t.Errorf("approve made a grant: %v", found)
	}
}

// waitingJob is a job of the agent coder that runs.
func waitingJob(t *testing.T, s *store.Store) string {
	t.Helper()
	if _, err := fleet.Over(s).PutAgent(t.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Idle}); err != nil {
		t.Fatal(err)
	}
	j, err := fleet.Over(s).RequestJob(t.Context(), fleet.JobRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Over(s).StartJob(t.Context(), j.ID, process.Self("test"), fleet.SlotLimits{}); err != nil {
		t.Fatal(err)
	}
	return j.ID
}
