package tour

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Step is one step of the tour.
type Step struct {
	Name, Title string
	Why         string
	Commands    []Command
	// Check checks the claim of the step, and says what it saw.
	Check func(context.Context, *Tour) (string, error)
}

// Command is a command of a step. What is shown is what is run.
type Command struct {
	Line   string // as it is typed; {name} stands for a value from an earlier command
	Find   string // a regular expression for its output; its named groups are values for later commands
	Kill   bool   // it is killed when Find has matched
	Stays  bool   // it keeps running in the background after Find has matched, until the step ends
	Person bool   // for people: it is skipped where nobody watches
}

// The sessions of other tools that the tour imports, in the formats of
// these tools.
var (
	//go:embed claude-code.jsonl
	sampleOfClaudeCode []byte
	//go:embed codex.jsonl
	sampleOfCodex []byte
)

// homeFiles are the files in the home folder of the tour at the start.
func homeFiles() map[string][]byte {
	return map[string][]byte{
		".claude/projects/-home-ada-lighthouse/5b1f6c2e-8a47-4d19-9c03-7e2a64d1f0b8.jsonl":                  sampleOfClaudeCode,
		".codex/sessions/2026/10/09/rollout-2026-10-09T07-30-00-019a2f40-5c1e-7b83-a6d7-3f08e2c94b15.jsonl": sampleOfCodex,
	}
}

// What the samples hold.
const (
	entriesOfClaudeCode = 6
	entriesOfCodex      = 4
)

// word is said in the tour's conversation, and looked for in its files.
const word = "Valletta"

// Steps are the steps, in the order in which they build on each other.
func Steps() []Step {
	return []Step{
		{
			Name: "chat", Title: "Talk",
			Why: `The demo model is a small script inside this program: no account, no network. Every message is on disk, encrypted, before the next thing happens.`,
			Commands: []Command{{
				Line: `tidemark chat --provider demo --name ferry -p "The ` + word + ` ferry is late."`,
				Find: `(?s)Its key is in (?P<key>.+\.key):.*Session saved: (?P<session>[0-9a-f-]{36}) \(encrypted\)`,
			}},
			Check: checkChat,
		},
		{
			Name: "kill", Title: "Kill it",
			Why: `The same conversation goes on (-c). In the middle of the answer the tour kills the process, as kill -9 or a crash would: nothing in it gets a chance to tidy up.`,
			Commands: []Command{{
				Line: `tidemark chat -c --output-format stream-json -p "Count with me: ` + counting(60) + `"`,
				Find: `(?s)"type":"user","entry":\{"seq":(?P<kept>\d+),.*"text":"3 "`, Kill: true,
			}},
			Check: checkKill,
		},
		{
			Name: "resume", Title: "Go on where you were",
			Why: `First what the killed process left, entry by entry. Then the next message: the model gets all that was said before.`,
			Commands: []Command{
				{Line: `tidemark cat ferry --jq "[.seq, .kind, .role]"`},
				{Line: `tidemark chat -c -p "What have I said so far?"`, Find: `1\. The Valletta ferry.*\n2\. Count with me`},
			},
			Check: checkResume,
		},
		{
			Name: "branch", Title: "Branch",
			Why: `Every turn is a node. Go back to any of them and take another way; what was said before stays, and nothing is copied.`,
			Commands: []Command{
				{Line: `tidemark chat --resume ferry --branch n0 -p "And the morning ferry?"`, Find: `The morning ferry|the morning ferry`},
				{Line: `tidemark tree ferry`, Find: `(?s)n0.*├── n1.*└── n3`},
			},
			Check: checkBranch,
		},
		{
			Name: "search", Title: "Find it, in an encrypted store",
			Why: `The index holds keyed hashes of words instead of words. So a word is found by whoever has the key, and is in no file.`,
			Commands: []Command{
				{Line: `tidemark search ` + strings.ToLower(word), Find: `@(?P<hit>3)\b`},
			},
			Check: checkSearch,
		},
		{
			Name: "export", Title: "Take it with you",
			Why:      `One page of HTML that loads nothing from elsewhere. Other formats: md, json, and those of other tools, such as claude-code.`,
			Commands: []Command{{Line: `tidemark export ferry -o ferry.html`}},
			Check:    checkExport,
		},
		{
			Name: "import", Title: "Bring in what other tools kept",
			Why: `This home has a session of Claude Code and one of Codex, invented for the tour. In your own home this finds yours; they are only read.`,
			Commands: []Command{
				{Line: `tidemark import --all`, Find: `new\s+[0-9a-f-]+\s+(?P<claude>\d+)\s[^\n]*claude-code(?s:.*)new\s+[0-9a-f-]+\s+(?P<codex>\d+)\s[^\n]*codex`},
				{Line: `tidemark show "lamp timer" -n 2`, Find: `foghorn`},
			},
			Check: checkImport,
		},
		{
			Name: "fleet", Title: "Let agents work by themselves",
			Why: `fleet.yaml says which agents there are and when they are due. Each due time runs once, and is written down.`,
			Commands: []Command{
				{Line: `tidemark fleet init`, Find: `Wrote fleet\.yaml`},
				{Line: `tidemark fleet up`, Find: `The fleet is up\.`, Stays: true},
				{Line: `tidemark run helper -p "list files" --wait`, Find: `(?P<job>job-[0-9a-z-]+): end_turn`},
				{Line: `tidemark jobs`, Find: `{job}\s+helper\s+completed`},
				{Line: `tidemark logs {job} -n 2`, Find: `fleet\.yaml`},
				{Line: `tidemark fleet down`, Find: `The fleet is down\.`},
			},
			Check: checkFleet,
		},
		{
			Name: "serve", Title: "Serve it",
			Why: `The same store over HTTP: an API, pages for the browser, live. The port is any free one here; without --addr it is 127.0.0.1:7433.`,
			Commands: []Command{
				{Line: `tidemark serve --addr 127.0.0.1:0`, Find: `The token is in (?P<token>[^\n]+)\nServing at (?P<url>http://(?P<addr>127\.0\.0\.1:\d+))`, Stays: true},
				{Line: `tidemark --store {url} ls`, Find: `ferry`},
				{Line: `tidemark open --addr {addr} --print`, Find: `{url}/signin\?code=`, Person: true},
			},
			Check: checkServe,
		},
	}
}

// counting is text that the demo model takes a while to repeat.
func counting(n int) string {
	var all []string
	for i := range n {
		all = append(all, strconv.Itoa(i+1))
	}
	return strings.Join(all, " ")
}

// seqs returns the numbers of the entries of the tour's session, in all of
// its branches.
func (t *Tour) seqs(ctx context.Context) (seqs []string, err error) {
	out, err := t.ask(ctx, "cat", "ferry", "--all", "--jq", ".seq")
	return strings.Fields(out), err
}

func checkChat(ctx context.Context, t *Tour) (string, error) {
	seqs, err := t.seqs(ctx)
	if err == nil && strings.Join(seqs, " ") != counting(4) {
		err = fmt.Errorf("the session has entries %v, want 1 to 4", seqs)
	}
	return "One session with 4 entries: tools, system prompt, message, answer.", err
}

func checkKill(_ context.Context, t *Tour) (string, error) {
	how, signalled := "SIGKILL", t.ended.String() == "signal: killed"
	if runtime.GOOS == "windows" { // which has no signals
		how, signalled = "TerminateProcess", !t.ended.Success()
	}
	switch {
	case !signalled:
		return "", fmt.Errorf("process %d was to be killed, but ended with: %s", t.ended.Pid(), t.ended)
	case strings.Contains(t.said, `"type":"assistant"`):
		return "", fmt.Errorf("process %d was killed after its answer was kept", t.ended.Pid())
	}
	return fmt.Sprintf("Process %d was killed by %s (%s) while it answered. Until then %s entries had been acknowledged; the half answer had not.",
		t.ended.Pid(), how, t.ended, t.Told["kept"]), nil
}

func checkResume(ctx context.Context, t *Tour) (string, error) {
	kept, err := strconv.Atoi(t.Told["kept"])
	if err != nil {
		return "", err
	}
	for n := range kept {
		if !strings.Contains(t.said, fmt.Sprintf("[%d,", n+1)) {
			return "", fmt.Errorf("entry %d was acknowledged and is gone", n+1)
		}
	}
	seqs, err := t.seqs(ctx)
	if err == nil && strings.Join(seqs, " ") != counting(kept+2) {
		err = fmt.Errorf("the session has entries %v, want 1 to %d", seqs, kept+2)
	}
	return fmt.Sprintf("All %d acknowledged entries are there, and the conversation went on to entry %d.", kept, len(seqs)), err
}

func checkBranch(ctx context.Context, t *Tour) (string, error) {
	out, err := t.ask(ctx, "cat", "ferry", "--jq", ".blocks[0].text")
	if err == nil && (!strings.Contains(out, word) || !strings.Contains(out, "morning ferry") || strings.Contains(out, "Count with me")) {
		err = fmt.Errorf("the new branch is not the first turn and the new one:\n%s", out)
	}
	return "Two branches grow from n0. The new one knows the first turn, and nothing of the counting.", err
}

func checkSearch(_ context.Context, t *Tour) (string, error) {
	files, size, holding, err := FilesWith(os.DirFS(t.dir), word)
	if err == nil && len(holding) > 0 {
		err = fmt.Errorf("%q is readable in %s", word, strings.Join(holding, ", "))
	}
	return fmt.Sprintf("Entry %s has it. The tour then read all %d files in its folder, %d KiB, and none holds %q: grep -ri would find nothing.",
		t.Told["hit"], files, size>>10, word), err
}

// maxAnswer bounds what the tour reads of an answer.
const maxAnswer = 1 << 20

// FilesWith returns which files contain a word, in any case of letters, and
// how many were searched.
func FilesWith(in fs.FS, word string) (files int, size int64, holding []string, err error) {
	err = fs.WalkDir(in, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(in, path)
		files, size = files+1, size+int64(len(data))
		if bytes.Contains(bytes.ToLower(data), bytes.ToLower([]byte(word))) {
			holding = append(holding, path)
		}
		return err
	})
	return files, size, holding, err
}

func checkExport(_ context.Context, t *Tour) (string, error) {
	page, err := os.ReadFile(filepath.Join(t.workDir(), "ferry.html"))
	if err == nil && (!bytes.Contains(page, []byte("<html")) || !bytes.Contains(page, []byte(word))) {
		err = fmt.Errorf("ferry.html is no page about %s", word)
	}
	return fmt.Sprintf("%s, %d KiB, readable: an export is yours, and no longer encrypted.", filepath.Join(t.workDir(), "ferry.html"), len(page)>>10), err
}

func checkImport(_ context.Context, t *Tour) (string, error) {
	claude, codex := strconv.Itoa(entriesOfClaudeCode), strconv.Itoa(entriesOfCodex)
	if t.Told["claude"] != claude || t.Told["codex"] != codex {
		return "", fmt.Errorf("%s and %s entries came in, want %s and %s", t.Told["claude"], t.Told["codex"], claude, codex)
	}
	return fmt.Sprintf("%s entries of Claude Code and %s of Codex, tool calls included. They can be searched, branched and gone on with like any other.", claude, codex), nil
}

func checkFleet(ctx context.Context, t *Tour) (string, error) {
	out, err := t.ask(ctx, "jobs", "--jq", ".[] | [.id, .status, .trigger_type] | join(\" \")")
	want := t.Told["job"] + " completed manual"
	if err == nil && strings.TrimSpace(out) != want {
		err = fmt.Errorf("the jobs are %q, want %q", out, want)
	}
	return t.Told["job"] + " ran once and completed; its log and its session are kept. The fleet is down again.", err
}

func checkServe(ctx context.Context, t *Tour) (string, error) {
	get := func(path, token string) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.Told["url"]+path, nil)
		if err != nil {
			return 0, nil, err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		// Requests within this machine use no proxy.
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		return res.StatusCode, body, err
	}
	code, _, err := get("/healthz", "")
	if err != nil || code != http.StatusOK {
		return "", fmt.Errorf("/healthz answers %d, %w", code, err)
	}
	path := "/api/v1/sessions/" + t.Told["session"]
	if code, _, err = get(path, ""); err != nil || code != http.StatusUnauthorized {
		return "", fmt.Errorf("%s without a token answers %d, %w", path, code, err)
	}
	token, err := t.ReadToken(t.Told["token"])
	if err != nil {
		return "", err
	}
	var session tidemark.Session
	code, body, err := get(path, token)
	if err == nil {
		err = json.Unmarshal(body, &session)
	}
	if err != nil || code != http.StatusOK || session.Title != "ferry" {
		return "", fmt.Errorf("%s answers %d, title %q, %w", path, code, session.Title, err)
	}
	return fmt.Sprintf("/healthz: 200. The session over HTTP: 401 without the token, 200 and %q with it.", session.Title), nil
}

// furnish fills the home of the tour like that of a person.
func furnish(home string) error {
	dir, err := durable.OpenDir(home)
	if err != nil {
		return err
	}
	defer dir.Close()
	for name, data := range homeFiles() {
		if err := durable.MakeDir(filepath.Join(home, filepath.FromSlash(filepath.Dir(name)))); err != nil {
			return err
		}
		if err := durable.Replace(dir, name+".tmp", name, data); err != nil {
			return err
		}
	}
	return nil
}
