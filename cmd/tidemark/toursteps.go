package main

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
	"github.com/tidemark-sessions/tidemark/open"
)

// tourStep is one thing that the tour shows.
type tourStep struct {
	name, title string
	why         string
	commands    []tourLine
	// check looks whether what the step claims is so, and says what it saw.
	check func(context.Context, *tour) (string, error)
}

// tourLine is a command of a step. What is shown is what is run.
type tourLine struct {
	line   string // as it is typed; {name} stands for what an earlier one told
	find   string // a regular expression that it has to print; what its named groups match is told to later ones
	kill   bool   // it is killed when find is there
	stays  bool   // it goes on in the background when find is there, until the step ends
	person bool   // for people: it is left out where nobody watches
}

// The sessions of other tools that the tour brings in, in the form in which
// these tools keep them.
var (
	//go:embed tour/claude-code.jsonl
	sampleOfClaudeCode []byte
	//go:embed tour/codex.jsonl
	sampleOfCodex []byte
)

// tourHome is what lies in the home folder of the tour when it begins.
func tourHome() map[string][]byte {
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

// tourWord is said in the tour's conversation, and looked for in its files.
const tourWord = "Valletta"

// tourSteps are the steps, in the order in which they build on each other.
func tourSteps() []tourStep {
	return []tourStep{
		{
			name: "chat", title: "Talk",
			why: `The demo model is a small script inside this program: no account, no network. Every message is on disk, encrypted, before the next thing happens.`,
			commands: []tourLine{{
				line: `tidemark chat --provider demo --name ferry -p "The ` + tourWord + ` ferry is late."`,
				find: `(?s)Its key is in (?P<key>.+\.key):.*Session saved: (?P<session>[0-9a-f-]{36}) \(encrypted\)`,
			}},
			check: checkChat,
		},
		{
			name: "kill", title: "Kill it",
			why: `The same conversation goes on (-c). In the middle of the answer the tour kills the process, as kill -9 or a crash would: nothing in it gets a chance to tidy up.`,
			commands: []tourLine{{
				line: `tidemark chat -c --output-format stream-json -p "Count with me: ` + counting(60) + `"`,
				find: `(?s)"type":"user","entry":\{"seq":(?P<kept>\d+),.*"text":"3 "`, kill: true,
			}},
			check: checkKill,
		},
		{
			name: "resume", title: "Go on where you were",
			why: `First what the killed process left, entry by entry. Then the next message: the model gets all that was said before.`,
			commands: []tourLine{
				{line: `tidemark cat ferry --jq "[.seq, .kind, .role]"`},
				{line: `tidemark chat -c -p "What have I said so far?"`, find: `1\. The Valletta ferry.*\n2\. Count with me`},
			},
			check: checkResume,
		},
		{
			name: "branch", title: "Branch",
			why: `Every turn is a node. Go back to any of them and take another way; what was said before stays, and nothing is copied.`,
			commands: []tourLine{
				{line: `tidemark chat --resume ferry --branch n0 -p "And the morning ferry?"`, find: `The morning ferry|the morning ferry`},
				{line: `tidemark tree ferry`, find: `(?s)n0.*├── n1.*└── n3`},
			},
			check: checkBranch,
		},
		{
			name: "search", title: "Find it, in an encrypted store",
			why: `The index holds keyed hashes of words instead of words. So a word is found by whoever has the key, and is in no file.`,
			commands: []tourLine{
				{line: `tidemark search ` + strings.ToLower(tourWord), find: `@(?P<hit>3)\b`},
			},
			check: checkSearch,
		},
		{
			name: "export", title: "Take it with you",
			why:      `One page of HTML that loads nothing from elsewhere. Other formats: md, json, and those of other tools, such as claude-code.`,
			commands: []tourLine{{line: `tidemark export ferry -o ferry.html`}},
			check:    checkExport,
		},
		{
			name: "import", title: "Bring in what other tools kept",
			why: `This home has a session of Claude Code and one of Codex, invented for the tour. In your own home this finds yours; they are only read.`,
			commands: []tourLine{
				{line: `tidemark import --all`, find: `new\s+[0-9a-f-]+\s+(?P<claude>\d+)\s[^\n]*claude-code(?s:.*)new\s+[0-9a-f-]+\s+(?P<codex>\d+)\s[^\n]*codex`},
				{line: `tidemark show "lamp timer" -n 2`, find: `foghorn`},
			},
			check: checkImport,
		},
		{
			name: "fleet", title: "Let agents work by themselves",
			why: `fleet.yaml says which agents there are and when they are due. Each due time runs once, and is written down.`,
			commands: []tourLine{
				{line: `tidemark fleet init`, find: `Wrote fleet\.yaml`},
				{line: `tidemark fleet up`, find: `The fleet is up\.`, stays: true},
				{line: `tidemark run helper -p "list files" --wait`, find: `(?P<job>job-[0-9a-z-]+): end_turn`},
				{line: `tidemark jobs`, find: `{job}\s+helper\s+completed`},
				{line: `tidemark logs {job} -n 2`, find: `fleet\.yaml`},
				{line: `tidemark fleet down`, find: `The fleet is down\.`},
			},
			check: checkFleet,
		},
		{
			name: "serve", title: "Serve it",
			why: `The same store over HTTP: an API, pages for the browser, live. The port is any free one here; without --addr it is 127.0.0.1:7433.`,
			commands: []tourLine{
				{line: `tidemark serve --addr 127.0.0.1:0`, find: `The token is in (?P<token>[^\n]+)\nServing at (?P<url>http://(?P<addr>127\.0\.0\.1:\d+))`, stays: true},
				{line: `tidemark --store {url} ls`, find: `ferry`},
				{line: `tidemark open --addr {addr} --print`, find: `{url}/signin\?code=`, person: true},
			},
			check: checkServe,
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

// seqs returns the numbers of the entries that the tour's session has, in all
// of its branches.
func (t *tour) seqs(ctx context.Context) (seqs []string, err error) {
	out, err := t.ask(ctx, "cat", "ferry", "--all", "--jq", ".seq")
	return strings.Fields(out), err
}

func checkChat(ctx context.Context, t *tour) (string, error) {
	seqs, err := t.seqs(ctx)
	if err == nil && strings.Join(seqs, " ") != counting(4) {
		err = fmt.Errorf("the session has entries %v, want 1 to 4", seqs)
	}
	return "One session with 4 entries: tools, system prompt, message, answer.", err
}

func checkKill(_ context.Context, t *tour) (string, error) {
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
		t.ended.Pid(), how, t.ended, t.told["kept"]), nil
}

func checkResume(ctx context.Context, t *tour) (string, error) {
	kept, err := strconv.Atoi(t.told["kept"])
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

func checkBranch(ctx context.Context, t *tour) (string, error) {
	out, err := t.ask(ctx, "cat", "ferry", "--jq", ".blocks[0].text")
	if err == nil && (!strings.Contains(out, tourWord) || !strings.Contains(out, "morning ferry") || strings.Contains(out, "Count with me")) {
		err = fmt.Errorf("the new branch is not the first turn and the new one:\n%s", out)
	}
	return "Two branches grow from n0. The new one knows the first turn, and nothing of the counting.", err
}

func checkSearch(_ context.Context, t *tour) (string, error) {
	files, size, holding, err := filesWith(os.DirFS(t.dir), tourWord)
	if err == nil && len(holding) > 0 {
		err = fmt.Errorf("%q is readable in %s", tourWord, strings.Join(holding, ", "))
	}
	return fmt.Sprintf("Entry %s has it. The tour then read all %d files in its folder, %d KiB, and none holds %q: grep -ri would find nothing.",
		t.told["hit"], files, size>>10, tourWord), err
}

// filesWith returns which files have a word in them, in any case of letters,
// maxAnswer bounds what the tour reads of an answer.
const maxAnswer = 1 << 20

// and how many were looked at.
func filesWith(in fs.FS, word string) (files int, size int64, holding []string, err error) {
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

func checkExport(_ context.Context, t *tour) (string, error) {
	page, err := os.ReadFile(filepath.Join(t.workDir(), "ferry.html"))
	if err == nil && (!bytes.Contains(page, []byte("<html")) || !bytes.Contains(page, []byte(tourWord))) {
		err = fmt.Errorf("ferry.html is no page about %s", tourWord)
	}
	return fmt.Sprintf("%s, %d KiB, readable: an export is yours, and no longer encrypted.", filepath.Join(t.workDir(), "ferry.html"), len(page)>>10), err
}

func checkImport(_ context.Context, t *tour) (string, error) {
	claude, codex := strconv.Itoa(entriesOfClaudeCode), strconv.Itoa(entriesOfCodex)
	if t.told["claude"] != claude || t.told["codex"] != codex {
		return "", fmt.Errorf("%s and %s entries came in, want %s and %s", t.told["claude"], t.told["codex"], claude, codex)
	}
	return fmt.Sprintf("%s entries of Claude Code and %s of Codex, tool calls included. They can be searched, branched and gone on with like any other.", claude, codex), nil
}

func checkFleet(ctx context.Context, t *tour) (string, error) {
	out, err := t.ask(ctx, "jobs", "--jq", ".[] | [.id, .status, .trigger_type] | join(\" \")")
	want := t.told["job"] + " completed manual"
	if err == nil && strings.TrimSpace(out) != want {
		err = fmt.Errorf("the jobs are %q, want %q", out, want)
	}
	return t.told["job"] + " ran once and completed; its log and its session are kept. The fleet is down again.", err
}

func checkServe(ctx context.Context, t *tour) (string, error) {
	get := func(path, token string) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.told["url"]+path, nil)
		if err != nil {
			return 0, nil, err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		// No proxy has a part in what this machine tells itself.
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
	path := "/api/v1/sessions/" + t.told["session"]
	if code, _, err = get(path, ""); err != nil || code != http.StatusUnauthorized {
		return "", fmt.Errorf("%s without a token answers %d, %w", path, code, err)
	}
	token, err := open.ReadToken(t.told["token"])
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

// furnish puts into the home of the tour what a home of a person may have.
func furnish(home string) error {
	dir, err := durable.OpenDir(home)
	if err != nil {
		return err
	}
	defer dir.Close()
	for name, data := range tourHome() {
		if err := durable.MakeDir(filepath.Join(home, filepath.FromSlash(filepath.Dir(name)))); err != nil {
			return err
		}
		if err := durable.Replace(dir, name+".tmp", name, data); err != nil {
			return err
		}
	}
	return nil
}
