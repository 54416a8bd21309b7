package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// prompt is what a conversation in a terminal shows as soon as it takes what is
// typed. What the session is about is written above it a little later; a
// conversation is open when the prompt stands below that.
const prompt = "you> "

const (
	newSaid     = "This is the demo model"
	resumedSaid = "Resumed session"
)

// shortTalk is the length of the session that a long one is compared with.
const shortTalk = 100

// longTalk is the length of the longest resumed session.
const longTalk = 1_000_000

// chatting measures how soon a person can type, in a new and in a resumed
// conversation, how much memory that takes, and what a streamed answer
// costs.
func (r *run) chatting(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	err := r.prompting(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		r.table.skip("the time to the prompt: there is no way here to open a terminal")
		err = nil
	}
	if err != nil {
		return err
	}
	if err := r.streaming(ctx); err != nil {
		return err
	}
	return r.everyday(ctx)
}

// opening is one way to start a conversation.
type opening struct {
	backend string
	length  int  // of the session; 0: a new one
	whole   bool // until all is said, not only until somebody can type
	place   *place
}

func (o opening) args() []string {
	if o.length == 0 {
		return nil
	}
	return []string{"--resume", string(o.place.session)}
}

func (o opening) name() string {
	how := "chat to the prompt"
	if o.whole {
		how = "chat open"
	}
	return how + ", " + o.of()
}

// of says which conversation it is.
func (o opening) of() string {
	if o.length == 0 {
		return "new: " + o.backend
	}
	return fmt.Sprintf("resumed of %s: %s", short(o.length), o.backend)
}

// prompting measures from exec until the prompt is on the terminal.
func (r *run) prompting(ctx context.Context) error {
	lengths := []int{shortTalk}
	if i := slices.Index(r.size.logs, longTalk); i >= 0 {
		lengths = append(lengths, longTalk)
	} else {
		lengths = append(lengths, r.size.logs[len(r.size.logs)-1])
	}
	var all []opening
	for _, backend := range durable {
		for _, n := range lengths {
			p, err := r.long(ctx, backend, n)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			if n == shortTalk {
				all = append(all, opening{backend, 0, false, p}, opening{backend, 0, true, p})
			}
			all = append(all, opening{backend, n, false, p}, opening{backend, n, true, p})
		}
	}
	if err := r.closeKept(); err != nil {
		return err
	}
	contenders := []contender{{"version", times(r.size.processes, func() error { return r.start(ctx, nil, "version") })}}
	for _, o := range all {
		contenders = append(contenders, contender{o.name(), func() (sample, error) { return r.openings(ctx, o) }})
	}
	r.say("chats to their prompt")
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	return r.prompted(ctx, s, all)
}

// openings begins a conversation several times, and leaves it.
func (r *run) openings(ctx context.Context, o opening) (sample, error) {
	var total time.Duration
	for range r.size.processes {
		took, _, err := r.begin(ctx, o)
		if err != nil {
			return sample{}, err
		}
		total += took
	}
	return sample{each: float64(total) / float64(r.size.processes)}, nil
}

// begin starts a conversation and returns how soon it accepted input, and
// how much memory it had then. Leaving it is not counted.
func (r *run) begin(ctx context.Context, o opening) (took time.Duration, resident int64, err error) {
	cmd := r.chat(ctx, o.place, append([]string{"--provider", "demo"}, o.args()...)...)
	begin := time.Now()
	w, err := openWindow(cmd)
	if err != nil {
		return 0, 0, err
	}
	defer w.close()
	marks := []string{prompt}
	if o.whole {
		marks = []string{newSaid, prompt}
		if o.length > 0 {
			marks[0] = resumedSaid
		}
	}
	for _, mark := range marks {
		if err := w.until(mark); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", o.name(), err)
		}
	}
	took = time.Since(begin)
	resident = residentBytes(cmd.Process.Pid)
	return took, resident, w.leave()
}

// chat is the command of a conversation.
func (r *run) chat(ctx context.Context, p *place, args ...string) *exec.Cmd {
	cmd := r.commandOf(ctx, r.program, p, append([]string{"chat"}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "NO_COLOR=", "OPENAI_API_KEY=")
	return cmd
}

func (r *run) prompted(ctx context.Context, s samples, all []opening) error {
	r.table.add(row{what: "process: tidemark version", time: s.time("version")})
	for _, o := range all {
		one := row{what: o.name(), time: s.time(o.name()), against: "tidemark version", ratio: s.ratio(o.name(), "version")}
		if !o.whole {
			one.want.timeAtMost = 20e6
		} else if o.length > shortTalk {
			base := o
			base.length = shortTalk
			one.against, one.ratio = "the same of "+short(shortTalk), s.ratio(o.name(), base.name())
		}
		r.table.add(one)
	}
	for _, o := range all {
		if !o.whole {
			continue
		}
		_, resident, err := r.begin(ctx, o)
		if err != nil {
			return err
		}
		if resident == 0 {
			r.table.skip("memory at the prompt: this system does not tell")
			return nil
		}
		r.table.add(row{what: "memory at the prompt, " + o.of(), value: megabytes(resident)})
	}
	return nil
}
