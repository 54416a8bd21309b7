//go:build linux

package runner_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/runner"
)

// acpAgent speaks the protocol as an agent does, by hand: so the tests see
// what is on the wire and not what one SDK makes of it. Its script is what it
// says when it is prompted; words of its own are !ask, which asks for
// permission and writes down the answer, and !stop with a stop reason.
func acpAgent() {
	folder, mode := os.Getenv(folderVariable), os.Getenv("RUNNER_TEST_MODE")
	in := bufio.NewReader(os.Stdin)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	type message struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
		Result json.RawMessage
	}
	next := func() (m message, ok bool) {
		line, err := in.ReadString('\n')
		if err != nil {
			return m, false
		}
		f, _ := os.OpenFile(folder+"/wire", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		defer f.Close()
		f.WriteString(line)
		return m, json.Unmarshal([]byte(line), &m) == nil
	}
	update := func(u string) {
		say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":%s}}`, u)
	}
	for {
		m, ok := next()
		if !ok {
			if mode == "stays" {
				hang()
			}
			return
		}
		result := func(r string) { say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, r) }
		switch m.Method {
		case "initialize":
			can := `{}`
			switch mode {
			case "loads", "refuses":
				can = `{"loadSession":true}`
			case "resumes":
				can = `{"sessionCapabilities":{"resume":{},"fork":{}}}`
			}
			version := 1
			if mode == "future" {
				version = 9
			}
			say("a line that is no message")
			result(fmt.Sprintf(`{"protocolVersion":%d,"agentCapabilities":%s,"authMethods":[]}`, version, can))
		case "session/new":
			result(`{"sessionId":"s1"}`)
		case "session/load":
			if mode == "refuses" {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"Resource not found"}}`, m.ID)
				continue
			}
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"from the past"}}`)
			result(`{}`)
		case "session/resume":
			result(`{}`)
		case "session/fork":
			result(`{"sessionId":"s2"}`)
		case "session/set_model":
			say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		case "session/prompt":
			stop := "end_turn"
			for line := range strings.Lines(os.Getenv(scriptVariable)) {
				word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				switch word {
				case "!ask":
					say(`{"jsonrpc":"2.0","id":900,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c9","title":"remove it","kind":"delete","rawInput":{"path":"x"}},"options":%s}}`, rest)
					answer, _ := next()
					note(folder, "answer", string(answer.Result))
				case "!file":
					say(`{"jsonrpc":"2.0","id":901,"method":%q,"params":%s}`, strings.Fields(rest)[0], strings.Fields(rest)[1])
					next()
				case "!crash":
					os.Exit(3)
				case "!big":
					say(`{"jsonrpc":"2.0","id":%s,"result":{"x":"%s"}}`, m.ID, strings.Repeat("x", 9<<20))
				case "!many":
					for i := range 5000 {
						update(fmt.Sprintf(`{"sessionUpdate":"plan","entries":[{"content":"%d"}]}`, i))
					}
				case "!hang":
					note(folder, "hangs", "yes")
					if c, _ := next(); c.Method == "session/cancel" {
						note(folder, "cancelled", string(c.Params))
						stop = "cancelled"
					}
				case "!stop":
					stop = rest
				default:
					update(strings.TrimSpace(line))
				}
			}
			result(fmt.Sprintf(`{"stopReason":%q,"usage":{"inputTokens":5,"outputTokens":6,"totalTokens":11,"cachedReadTokens":2}}`, stop))
		}
	}
}

func acpRig(t *testing.T, mode string, lines ...string) *rig {
	g := newRig(t, lines...)
	g.task.Environ = append(g.task.Environ, roleVariable+"=acp", "RUNNER_TEST_MODE="+mode)
	return g
}

func acpRunner(t *testing.T) runner.Runner { return runner.ACP([]string{self(t)}) }

func TestAnACPAgentsUpdatesBecomeTypedEvents(t *testing.T) {
	long := strings.Repeat("y", 600)
	g := acpRig(t, "",
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"where to "}}`,
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"begin"}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I "}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"look."}}`,
		`{"sessionUpdate":"tool_call","toolCallId":"c1","title":"List files","kind":"execute","status":"pending"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"in_progress","rawInput":{"command":"ls"}}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"a"}}]}`,
		`{"sessionUpdate":"tool_call","toolCallId":"c2","title":"Read x","kind":"read","status":"failed","rawInput":{"path":"x"},"content":[{"type":"content","content":{"type":"text","text":"no such file"}}]}`,
		`{"sessionUpdate":"available_commands_update","availableCommands":[]}`,
		`{"sessionUpdate":"of_the_future","x":1}`,
		`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.5,"currency":"USD"}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`+long+`"}}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" Done."}}`)
	g.task.Model, g.task.System, g.task.Grace = "m1", "Be brief.", runner.DefaultGrace
	o, err := g.run(t.Context(), acpRunner(t))
	if err != nil {
		t.Fatal(err)
	}
	events := g.brief()
	events[1] = strings.Split(events[1], ": {")[0]
	same(t, "events", events, []string{
		"system/stdout content=a line that is no message",
		"system/ignored content=the agent does not take the model m1",
		"assistant/thinking content=where to begin",
		"assistant content=I look.",
		`tool_use tool=execute id=c1 input={"command":"ls"}`,
		`tool_result id=c1 result=[{"type":"content","content":{"type":"text","text":"a"}}] success=true`,
		`tool_use tool=read id=c2 input={"path":"x"}`,
		`tool_result id=c2 result=[{"type":"content","content":{"type":"text","text":"no such file"}}] success=false error=no such file`,
		"system/of_the_future",
		"system/usage_update",
		"assistant content=" + long + " partial",
		"assistant content= Done.",
	})
	same(t, "outcome", o, runner.Outcome{ExitReason: tidemark.ExitEndTurn, Session: "s1", Summary: long + " Done.", Turns: 1, CostUSD: 0.5,
		Usage: map[string]tidemark.Usage{"m1": {InputTokens: 5, OutputTokens: 6, CacheReadTokens: 2}}, Spent: &tidemark.Usage{CostUSD: 0.5}})
	wire := await(g.folder + "/wire")
	for _, want := range []string{`"cwd":"` + g.task.Dir + `"`, `"prompt":[{"text":"Be brief.","type":"text"},{"text":"tidy up","type":"text"}]`} {
		if !strings.Contains(wire, want) {
			t.Errorf("the agent was not told %s:\n%s", want, wire)
		}
	}
	if len(g.seen) != 2 || g.seen[1].Session != "s1" {
		t.Errorf("processes %+v", g.seen)
	}
}

func TestAnACPAgentGoesOnWithASession(t *testing.T) {
	said := `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"now"}}`
	for name, c := range map[string]struct {
		mode string
		fork bool
		want string // the session
		err  error
	}{
		"by loading it, without its past": {"loads", false, "s1", nil},
		"by resuming it":                  {"resumes", false, "s1", nil},
		"with a copy of it":               {"resumes", true, "s2", nil},
		"not with an unknown one":         {"refuses", false, "", runner.ErrSession},
		"not if it keeps none":            {"", false, "", runner.ErrSession},
		"not with a copy if it has none":  {"loads", true, "", tidemark.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			g := acpRig(t, c.mode, said)
			g.task.Session, g.task.Fork = "s1", c.fork
			o, err := g.run(t.Context(), acpRunner(t))
			if !errors.Is(err, c.err) || c.err == nil && (err != nil || o.Session != c.want || o.Summary != "now" || len(g.events) != 2) {
				t.Errorf("outcome %+v, %v, events %v", o, err, g.brief())
			}
		})
	}
}

func TestAnACPAgentsQuestionsArePutAndAnswered(t *testing.T) {
	const options = `[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"ever","name":"Always","kind":"allow_always"},{"optionId":"no","name":"Reject","kind":"reject_once"}]`
	const onlyAlways = `[{"optionId":"ever","name":"Always","kind":"allow_always"}]`
	selected := func(id string) string { return `{"outcome":{"optionId":"` + id + `","outcome":"selected"}}` }
	allow := func(a runner.Answer, err error) func(context.Context, runner.Question) (runner.Answer, error) {
		return func(context.Context, runner.Question) (runner.Answer, error) { return a, err }
	}
	for name, c := range map[string]struct {
		options string
		ask     func(context.Context, runner.Question) (runner.Answer, error)
		want    string
	}{
		"yes":                  {options, allow(runner.Answer{Allow: true}, nil), selected("yes")},
		"always":               {options, allow(runner.Answer{Allow: true, Always: true}, nil), selected("ever")},
		"no":                   {options, allow(runner.Answer{}, nil), selected("no")},
		"nobody to ask":        {options, nil, selected("no")},
		"an error":             {options, allow(runner.Answer{Allow: true}, errors.New("x")), selected("no")},
		"once is never always": {onlyAlways, allow(runner.Answer{Allow: true}, nil), `{"outcome":{"outcome":"cancelled"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := acpRig(t, "", "!ask "+c.options)
			if c.ask != nil {
				g.task.Ask = func(ctx context.Context, q runner.Question) (runner.Answer, error) {
					same(t, "question", q, runner.Question{ID: "c9", Tool: "delete", Title: "remove it", Input: []byte(`{"path":"x"}`)})
					return c.ask(ctx, q)
				}
			}
			if _, err := g.run(t.Context(), acpRunner(t)); err != nil {
				t.Fatal(err)
			}
			same(t, "answer", await(g.folder+"/answer"), c.want)
		})
	}
}

func TestAnACPAgentIsOfferedNothingOfThisSide(t *testing.T) {
	g := acpRig(t, "",
		`!file fs/read_text_file {"sessionId":"s1","path":"/etc/passwd"}`,
		`!file fs/write_text_file {"sessionId":"s1","path":"/tmp/x","content":"x"}`,
		`!file terminal/create {"sessionId":"s1","command":"sh"}`,
		`!file terminal/output {"sessionId":"s1","terminalId":"t"}`,
		`!file terminal/kill {"sessionId":"s1","terminalId":"t"}`,
		`!file terminal/release {"sessionId":"s1","terminalId":"t"}`,
		`!file terminal/wait_for_exit {"sessionId":"s1","terminalId":"t"}`,
		`!file of/the/future {}`)
	if _, err := g.run(t.Context(), acpRunner(t)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(await(g.folder+"/wire"), `"code":-32601`); n != 8 {
		t.Errorf("%d of 8 requests were refused:\n%s", n, await(g.folder+"/wire"))
	}
}

func TestAnACPAgentIsCancelledByTheProtocolFirst(t *testing.T) {
	g := acpRig(t, "", "!hang")
	g.task.Grace = runner.DefaultGrace
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		g.untilNoted("hangs")
		cancel(runner.ErrInterrupted)
	}()
	if o, err := g.run(ctx, acpRunner(t)); o.ExitReason != tidemark.ExitInterrupt || o.Session != "s1" {
		t.Errorf("outcome %+v, %v", o, err)
	}
	same(t, "what it was told", await(g.folder+"/cancelled"), `{"sessionId":"s1"}`)
}

func TestAQuestionOfACancelledACPRunIsCancelled(t *testing.T) {
	g := acpRig(t, "", `!ask [{"optionId":"yes","name":"Allow","kind":"allow_once"}]`)
	ctx, cancel := context.WithCancelCause(t.Context())
	g.task.Ask = func(ctx context.Context, q runner.Question) (runner.Answer, error) {
		cancel(errors.New("enough"))
		<-ctx.Done()
		return runner.Answer{Allow: true}, nil
	}
	if o, err := g.run(ctx, acpRunner(t)); o.ExitReason != tidemark.ExitCancelled {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestHowAnACPTurnEnds(t *testing.T) {
	for name, c := range map[string]struct {
		mode, line, reason, err string
	}{
		"max turns":         {"", "!stop max_turn_requests", tidemark.ExitMaxTurns, ""},
		"max tokens":        {"", "!stop max_tokens", tidemark.ExitMaxTokens, ""},
		"refusal":           {"", "!stop refusal", tidemark.ExitError, "refused"},
		"a crash":           {"", "!crash", tidemark.ExitError, "its turn"},
		"a huge message":    {"", "!big", tidemark.ExitError, "its turn"},
		"another version":   {"future", "", tidemark.ExitError, "version 9"},
		"a flood of news":   {"", "!many", tidemark.ExitEndTurn, ""},
		"stays after that":  {"stays", "", tidemark.ExitEndTurn, ""},
		"no session at all": {"loads", "", tidemark.ExitEndTurn, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := acpRig(t, c.mode, c.line)
			if c.line == "" {
				g = acpRig(t, c.mode)
			}
			o, err := g.run(t.Context(), acpRunner(t))
			if o.ExitReason != c.reason || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("outcome %+v, %v", o, err)
			}
			if c.line == "!many" && len(g.events) != 5001 {
				t.Errorf("%d events", len(g.events))
			}
		})
	}
	g := acpRig(t, "")
	g.task.Dir = ""
	if _, err := g.run(t.Context(), acpRunner(t)); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("without a working directory: %v, want ErrInvalid", err)
	}
}
