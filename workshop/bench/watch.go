package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// watching measures imports in which little or nothing is new, and a watcher that
// follows the homes of ten tools.
func (r *run) watching(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	if err := r.again(ctx); err != nil {
		return err
	}
	if err := r.oneMore(ctx); err != nil {
		return err
	}
	return r.followed(ctx)
}

const (
	// smallHome is the home to which one with many sessions is compared.
	smallHome = 100
	// againReps is how often imports are repeated: of many sessions each takes a second.
	againReps = 7
)

// again measures a second import of files that did not change, and of one more
// session among many.
func (r *run) again(ctx context.Context) error {
	many := r.size.unchanged
	r.say("imports of %s files that did not change", short(many))
	var contenders []contender
	for _, n := range []int{smallHome, many} {
		p, err := r.open(ctx, inSQLite, fmt.Sprintf("again%d", n))
		if err != nil {
			return err
		}
		defer p.leave()
		if err := p.close(); err != nil {
			return err
		}
		home := filepath.Join(p.dir, "home")
		for i := range n {
			if err := writeSession(home, claudeSession(i)); err != nil {
				return err
			}
		}
		bring := func() error { return r.start(ctx, p, "import", "--no-encrypt", home) }
		if err := bring(); err != nil {
			return err
		}
		next := n
		contenders = append(contenders,
			contender{fmt.Sprintf("same%d", n), times(1, bring)},
			contender{fmt.Sprintf("walk%d", n), times(1, func() error { return statTree(home) })},
			contender{fmt.Sprintf("more%d", n), times(1, func() error {
				next++
				if err := writeSession(home, claudeSession(next)); err != nil {
					return err
				}
				return bring()
			})})
	}
	s, err := r.compareTimes(ctx, min(r.size.reps, againReps), contenders...)
	if err != nil {
		return err
	}
	same, walk, more, few := fmt.Sprintf("same%d", many), fmt.Sprintf("walk%d", many), fmt.Sprintf("more%d", many), fmt.Sprintf("more%d", smallHome)
	unchanged := row{goal: "P15", what: fmt.Sprintf("import of %s files that did not change", short(many)), time: s.time(same), against: "readdir and stat of them", ratio: s.ratio(same, walk)}
	another := row{what: fmt.Sprintf("import of one more session among %s", short(many)), time: s.time(more), against: fmt.Sprintf("one more among %d", smallHome), ratio: s.ratio(more, few)}
	if many >= full.unchanged {
		met := s.time(same).median <= 3*s.time(walk).median+20e6
		unchanged.want = want{text: "≤ 3× and 20 ms", met: &met}
	}
	r.table.add(unchanged)
	r.table.add(another)
	return nil
}

// oneMore measures how long it takes until a session that its tool begins is here,
// where a watcher follows few and many.
func (r *run) oneMore(ctx context.Context) error {
	many := r.size.unchanged
	r.say("one more session among %s that are watched", short(many))
	var contenders []contender
	for _, n := range []int{smallHome, many} {
		p, err := r.open(ctx, inSQLite, fmt.Sprintf("more%d", n))
		if err != nil {
			return err
		}
		defer p.leave()
		home := filepath.Join(p.dir, "home")
		for i := range n {
			if err := writeSession(home, claudeSession(i)); err != nil {
				return err
			}
		}
		_, end, err := r.watcher(ctx, p, home, n)
		if err != nil {
			return err
		}
		defer end()
		next := n
		contenders = append(contenders, contender{fmt.Sprintf("more%d", n), times(perFolder/4, func() error {
			s := claudeSession(next)
			next++
			s.file = path.Join(path.Dir(claudeSession(0).file), path.Base(s.file)) // in a project that is there
			if err := writeSession(home, s); err != nil {
				return err
			}
			return here(ctx, p, sessionID(next-1))
		})})
	}
	s, err := r.compareTimes(ctx, min(r.size.reps, againReps), contenders...)
	if err != nil {
		return err
	}
	more, few := fmt.Sprintf("more%d", many), fmt.Sprintf("more%d", smallHome)
	another := row{goal: "P15", what: fmt.Sprintf("one more session among %s that are watched is here", short(many)), time: s.time(more), against: fmt.Sprintf("one more among %d", smallHome), ratio: s.ratio(more, few)}
	if many >= full.unchanged {
		another.want = want{ratioAtMost: 1.2}
	}
	r.table.add(another)
	return nil
}

// here returns when a session of a tool is here.
func here(ctx context.Context, p *place, foreign string) error {
	for begin := time.Now(); ; {
		found, err := p.Foreign(ctx, foreign)
		if err != nil || len(found) > 0 {
			return err
		}
		if time.Since(begin) > settleFor {
			return fmt.Errorf("session %s never came", foreign)
		}
		time.Sleep(time.Millisecond)
	}
}

// watcher starts a watcher of a home, and returns when its files are here. End ends it.
func (r *run) watcher(ctx context.Context, p *place, home string, files int) (cmd *exec.Cmd, end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd = r.commandOf(ctx, r.program, p, "watch", "--no-encrypt")
	cmd.Env = append(cmd.Env, "HOME="+home)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, nil, err
	}
	end = func() {
		cancel()
		cmd.Wait() // it was ended
	}
	if err := r.settled(ctx, p, cmd, files); err != nil {
		end()
		return nil, nil, fmt.Errorf("%w: %s", err, said.String())
	}
	return cmd, end, nil
}

// statTree is the least that tells whether files changed.
func statTree(dir string) error {
	return filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			_, err = d.Info()
		}
		return err
	})
}

// session is a file of a session of some tool.
type session struct{ file, text string }

func writeSession(home string, s session) error {
	file := filepath.Join(home, filepath.FromSlash(s.file))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(s.text), 0o600)
}

const (
	// perFolder is how many sessions are in the folder of a project.
	perFolder = 200
	// toolSessions is more than a tool has: its ids are its own.
	toolSessions = 1_000_000
)

// sessionID is the id of a session that has none of a tool's own form.
func sessionID(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n) }

const sessionTime = "2026-01-02T03:04:05.000Z"

// claudeLine is a line of a transcript of Claude Code.
func claudeLine(n int, kind, text string) string {
	id := sessionID(n)
	return fmt.Sprintf(`{"type":%q,"uuid":"%s-%s","sessionId":%q,"timestamp":%q,"cwd":"/w","version":"2.1.0","message":{"role":%q,"content":%q}}`+"\n", kind, id, text, id, sessionTime, kind, "line "+text)
}

func claudeSession(n int) session {
	return session{fmt.Sprintf(".claude/projects/-home-ada-%d/%s.jsonl", n/perFolder, sessionID(n)), claudeLine(n, "user", "a") + claudeLine(n, "user", "b")}
}

// homesOfTools are short sessions of ten tools, where each keeps them: of two messages,
// so that something of each is final.
var homesOfTools = []func(n int) session{
	claudeSession,
	func(n int) session {
		return session{fmt.Sprintf(".codex/sessions/2026/%02d/%02d/rollout-2026-01-02T03-04-05-%s.jsonl", 1+n/perFolder/28%12, 1+n/perFolder%28, sessionID(n)), fmt.Sprintf(
			`{"timestamp":%[1]q,"type":"session_meta","payload":{"id":%[2]q,"timestamp":%[1]q,"cwd":"/w","source":"cli"}}
{"timestamp":%[1]q,"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"line a"}]}}
{"timestamp":%[1]q,"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"line b"}]}}
`, sessionTime, sessionID(n))}
	},
	func(n int) session {
		return session{fmt.Sprintf(".pi/agent/sessions/--w-%d--/2026_%s.jsonl", n/perFolder, sessionID(n)), fmt.Sprintf(
			`{"type":"session","id":%[2]q,"timestamp":%[1]q,"cwd":"/w"}
{"type":"message","id":"a","parentId":null,"timestamp":%[1]q,"message":{"role":"user","content":"line a"}}
{"type":"message","id":"b","parentId":"a","timestamp":%[1]q,"message":{"role":"user","content":"line b"}}
`, sessionTime, sessionID(n))}
	},
	func(n int) session {
		return session{fmt.Sprintf(".qwen/projects/-w-%d/chats/%s.jsonl", n/perFolder, sessionID(n)), fmt.Sprintf(
			`{"uuid":"a","parentUuid":null,"sessionId":%[2]q,"timestamp":%[1]q,"cwd":"/w","type":"user","message":{"role":"user","parts":[{"text":"line a"}]}}
{"uuid":"b","parentUuid":"a","sessionId":%[2]q,"timestamp":%[1]q,"cwd":"/w","type":"user","message":{"role":"user","parts":[{"text":"line b"}]}}
`, sessionTime, sessionID(n))}
	},
	func(n int) session {
		return session{fmt.Sprintf(".copilot/session-state/%s/events.jsonl", sessionID(n)), fmt.Sprintf(
			`{"type":"session.start","id":"s","timestamp":%[1]q,"data":{"sessionId":%[2]q,"context":{"cwd":"/w"}}}
{"type":"user.message","id":"a","timestamp":%[1]q,"data":{"content":"line a"}}
{"type":"user.message","id":"b","timestamp":%[1]q,"data":{"content":"line b"}}
`, sessionTime, sessionID(n))}
	},
	func(n int) session {
		return session{fmt.Sprintf(".kimi-code/sessions/wd_w_%d/session_%s/agents/main/wire.jsonl", n/perFolder, sessionID(n)), `{"type":"metadata","protocol_version":"1.5","created_at":1}
{"type":"context.append_message","time":1767323045000,"message":{"role":"user","content":[{"type":"text","text":"line a"}],"id":"a","origin":{"kind":"user"}}}
{"type":"context.append_message","time":1767323046000,"message":{"role":"user","content":[{"type":"text","text":"line b"}],"id":"b","origin":{"kind":"user"}}}
`}
	},
	func(n int) session {
		return session{fmt.Sprintf(".factory/sessions/-w-%d/%s.jsonl", n/perFolder, sessionID(n)), fmt.Sprintf(
			`{"type":"session_start","id":%[2]q,"title":"t","cwd":"/w"}
{"type":"message","id":"a","timestamp":%[1]q,"message":{"role":"user","content":[{"type":"text","text":"line a"}]}}
{"type":"message","id":"b","timestamp":%[1]q,"message":{"role":"user","content":[{"type":"text","text":"line b"}]}}
`, sessionTime, sessionID(n))}
	},
	func(n int) session {
		return session{fmt.Sprintf(".cline/data/sessions/%[1]s/%[1]s.messages.json", sessionID(n)),
			fmt.Sprintf(`{"version":1,"updated_at":%q,"sessionId":%q,"messages":[{"id":"a","role":"user","content":"line a"},{"id":"b","role":"user","content":"line b"}]}`, sessionTime, sessionID(n))}
	},
	func(n int) session {
		return session{fmt.Sprintf(".gemini/tmp/w%d/chats/session-2026-01-02T03-04-%s.jsonl", n/perFolder, sessionID(n)), fmt.Sprintf(
			`{"sessionId":%[2]q,"projectHash":"0a1b","startTime":%[1]q,"lastUpdated":%[1]q,"kind":"main"}
{"id":"a","timestamp":%[1]q,"type":"user","content":"line a"}
{"id":"b","timestamp":%[1]q,"type":"user","content":"line b"}
`, sessionTime, sessionID(n))}
	},
	func(n int) session {
		return session{fmt.Sprintf(".continue/sessions/%s.json", sessionID(n)),
			fmt.Sprintf(`{"sessionId":%q,"title":"t","workspaceDirectory":"/w","history":[{"message":{"role":"user","content":"line %d"}}]}`, sessionID(n), n)}
	},
}

// followed measures a watcher: how much it takes when nothing happens, and how long
// until what a tool wrote is found by a search.
func (r *run) followed(ctx context.Context) error {
	p, err := r.open(ctx, inSQLite, "followed")
	if err != nil {
		return err
	}
	defer p.leave()
	home := filepath.Join(r.dir, "home")
	defer func() {
		for _, tool := range homesOfTools {
			top, _, _ := strings.Cut(tool(0).file, "/")
			os.RemoveAll(filepath.Join(home, top))
		}
	}()
	each := max(r.size.followed/len(homesOfTools), 1)
	files := each * len(homesOfTools)
	r.say("a watcher of %s files in the homes of %d tools", short(files), len(homesOfTools))
	old := time.Now().AddDate(0, 0, -10) // most sessions of a machine are
	for i, tool := range homesOfTools {
		for n := range each {
			s := tool(i*toolSessions + n)
			if err := errors.Join(writeSession(home, s), os.Chtimes(filepath.Join(home, filepath.FromSlash(s.file)), old, old)); err != nil {
				return err
			}
		}
	}
	cmd, end, err := r.watcher(ctx, p, home, files)
	if err != nil {
		return err
	}
	defer end()
	return r.watched(ctx, p, cmd, home, files)
}

// settlePoll is how often it is looked how far a watcher is, and settleFor how long it
// may stand still before something is wrong.
const (
	settlePoll = time.Second
	settleFor  = 3 * time.Minute
)

// settled returns when everything is here, and the watcher rests.
func (r *run) settled(ctx context.Context, p *place, cmd *exec.Cmd, files int) error {
	last, since := -1, time.Now()
	for {
		n := 0
		for _, err := range p.Sessions(ctx, store.Filter{}) {
			if err != nil {
				return err
			}
			n++
		}
		before := cpuOf(cmd.Process.Pid)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePoll):
		}
		if n >= files && cpuOf(cmd.Process.Pid)-before < settlePoll/20 {
			return nil
		}
		if n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > settleFor {
			return fmt.Errorf("the watcher has %d of %d sessions, and no more come", n, files)
		}
	}
}

// watched measures a watcher that has nothing to do, and then lines that it has to
// notice.
func (r *run) watched(ctx context.Context, p *place, cmd *exec.Cmd, home string, files int) error {
	judged := r.size.followed >= full.followed
	wanted := func(text string, met bool) want {
		if !judged {
			return want{}
		}
		return want{text: text, met: &met}
	}
	idle := r.size.idle
	before := cpuOf(cmd.Process.Pid)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idle):
	}
	busy := 100 * float64(cpuOf(cmd.Process.Pid)-before) / float64(idle)
	memory := residentBytes(cmd.Process.Pid)
	if memory == 0 {
		r.table.skip("CPU and memory of a watcher: this system does not tell")
	} else {
		what := fmt.Sprintf("a watcher of %s files, nothing happens", short(files))
		r.table.add(row{goal: "P16", what: what + ": CPU", value: fmt.Sprintf("%.2f %%", busy), want: wanted("≤ 0.3 %", busy <= 0.3)})
		r.table.add(row{goal: "P16", what: what + ": memory", value: megabytes(memory), want: wanted("≤ 60 MB", memory <= 60<<20)})
	}
	var lags []float64
	for n := range r.size.noticed {
		lag, err := noticed(ctx, p, home, n)
		if err != nil {
			return err
		}
		lags = append(lags, float64(lag))
	}
	worst := percentile(lags, 99)
	r.table.add(row{goal: "P16", what: fmt.Sprintf("from a line in one of %s files until a search finds it: p50", short(files)), value: duration(percentile(lags, 50))})
	r.table.add(row{goal: "P16", what: fmt.Sprintf("from a line in one of %s files until a search finds it: p99", short(files)), value: duration(worst), want: wanted("≤ 1 s", worst <= 1e9)})
	return nil
}

// busySessions is how many sessions lines are added to.
const busySessions = 7

// noticed adds a line to a transcript, as a tool does, and asks until it is found.
func noticed(ctx context.Context, p *place, home string, n int) (time.Duration, error) {
	word := fmt.Sprintf("noticed%dnow", n)
	n %= busySessions
	s := claudeSession(n)
	f, err := os.OpenFile(filepath.Join(home, filepath.FromSlash(s.file)), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(claudeLine(n, "user", word))
	begin := time.Now()
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	query, err := search.Parse(word)
	if err != nil {
		return 0, err
	}
	for {
		answer, err := p.Search(ctx, store.Question{}.About(query))
		if err != nil {
			return 0, err
		}
		if len(answer.Found) > 0 {
			return time.Since(begin), nil
		}
		if time.Since(begin) > settleFor {
			return 0, fmt.Errorf("%s was never found", word)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
