// Command written proves the writers with the tools themselves: it writes sessions
// into an empty home of a tool, has the tool list them and go on with them, and
// compares the request that the tool then sends to its model with the session.
//
// The tools are installed before, each by npm in a folder of its own below -clients:
//
//	go run ./workshop/written -clients ~/clients -tool pi
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func main() {
	clients := flag.String("clients", "", "folder in which the tools are installed")
	only := flag.String("tool", "", "regular expression of the tools to try")
	which := flag.String("run", "", "regular expression of the conversations to try")
	keep := flag.Bool("keep", false, "keep the homes, and say where they are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *clients, regexp.MustCompile(*only), regexp.MustCompile(*which), *keep); err != nil {
		fmt.Fprintln(os.Stderr, "written:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, clients string, only, which *regexp.Regexp, keep bool) error {
	failed := 0
	for _, c := range programs() {
		if !only.MatchString(c.tool) {
			continue
		}
		bins, _ := filepath.Glob(filepath.Join(clients, c.bin))
		if len(bins) == 0 {
			fmt.Printf("%-12s not run: there is no %s below %s\n", c.tool, c.bin, clients)
			continue
		}
		passed := 0
		for _, talk := range converttest.Conversations() {
			if !which.MatchString(talk.Name) {
				continue
			}
			problems, err := c.try(ctx, bins[0], talk, keep)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", c.tool, talk.Name, err)
			}
			if len(problems) == 0 {
				passed++
				continue
			}
			failed++
			fmt.Printf("%-12s %s: %s\n", c.tool, talk.Name, strings.Join(problems, "; "))
		}
		fmt.Printf("%-12s %d conversations are listed, resumed and sent as they are\n", c.tool, passed)
	}
	if failed > 0 {
		return fmt.Errorf("%d conversations are not", failed)
	}
	return nil
}

// question is what the tool is told to go on with.
const question = "What have I said so far?"

// try writes one conversation for a tool and has the tool go on with it.
func (c program) try(ctx context.Context, bin string, talk converttest.Conversation, keep bool) (problems []string, err error) {
	tool, err := transfer.ToolNamed(c.tool)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "written-")
	if err != nil {
		return nil, err
	}
	if keep {
		fmt.Println(c.tool, talk.Name, home)
	} else {
		defer os.RemoveAll(home)
	}
	if home, err = filepath.EvalSymlinks(home); err != nil {
		return nil, err
	}
	model := startModel()
	defer model.Close()
	work := filepath.Join(home, "work")
	if talk.Session.Project != "/home/tester/work" {
		work = filepath.Join(home, filepath.Base(talk.Session.Project))
	}
	s := *talk.Session
	s.Project, s.ForeignID = work, string(tidemark.NewSessionID())
	if h := tool.Handover; h != nil && h.NewID != nil {
		s.ForeignID = h.NewID()
	}
	env := append(c.setUp(home, model.URL), "HOME="+home, "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	if err := os.MkdirAll(work, 0o700); err != nil {
		return nil, err
	}
	file, err := write(ctx, tool, filepath.Join(home, tool.Homes[0]), &s, env)
	if err != nil {
		return nil, err
	}
	start := func(args ...string) string {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, bin, args...)
		cmd.Dir, cmd.Env = work, env
		out, err := cmd.CombinedOutput()
		if keep || err != nil {
			fmt.Fprintf(os.Stderr, "%s %q: %v\n%.2000s\n", c.tool, args, err, out)
		}
		return string(out)
	}
	if h := tool.Handover; h != nil && h.Load != nil {
		start(h.Load(file)[1:]...)
	}
	if c.list != nil {
		if listed := start(c.list...); !strings.Contains(listed, s.ForeignID) && !strings.Contains(listed, s.Title) {
			problems = append(problems, "it is not listed")
		}
	}
	start(c.resume(s.ForeignID, question)...)
	return append(problems, compare(talk, model.asked())...), nil
}

// write exports a session into a home and returns the file that was begun first.
func write(ctx context.Context, tool convert.Tool, home string, s *convert.Session, env []string) (string, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", err
	}
	out, err := transfer.OpenFolder(home, env)
	if err != nil {
		return "", err
	}
	defer out.Close()
	if _, err := tool.Export(ctx, out, s); err != nil {
		return "", err
	}
	return filepath.Join(home, out.Created()[0]), nil
}

// compare looks for what was said in the request of a tool, in its order.
func compare(talk converttest.Conversation, request []byte) (problems []string) {
	if request == nil {
		return []string{"the tool sent nothing to its model"}
	}
	var body map[string]any
	if err := json.Unmarshal(request, &body); err != nil {
		return []string{err.Error()}
	}
	sent := flat(nil, "", body)
	at := 0
	for _, want := range said(talk) {
		n := at
		for n < len(sent) && !strings.Contains(sent[n], want) {
			n++
		}
		if n == len(sent) {
			problems = append(problems, fmt.Sprintf("%.60q is not in the request", want))
			continue
		}
		at = n
	}
	return problems
}

// said lists what has to be in a request.
func said(talk converttest.Conversation) (all []string) {
	if talk.Mended {
		return append(all, talk.Extra...)
	}
	for _, e := range converttest.PathOf(talk.Session) {
		if e.Role == "" {
			continue
		}
		for _, b := range e.Blocks {
			all = append(all, needles(b)...)
		}
	}
	return append(all, question)
}

func needles(b tidemark.Block) (all []string) {
	switch b.Type {
	case tidemark.BlockToolUse:
		return []string{string(convert.Canonical(b.Input))}
	case tidemark.BlockImage:
		encoded, _ := json.Marshal(b.Data) // bytes always can be
		return []string{strings.Trim(string(encoded), `"`)}
	case tidemark.BlockThinking:
		return nil
	}
	for _, in := range b.Blocks {
		all = append(all, needles(in)...)
	}
	if text := strings.TrimSpace(b.Text); text != "" {
		all = append(all, text)
	}
	return all
}
