package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// goalEntries is the amount of text that the goals of search are about: a
// gigabyte.
const goalEntries = 1_000_000

// asking is a kind of query: its i-th one, in the syntax of this program and
// of ripgrep, and the least number of hits.
type asking struct {
	name  string
	query func(i int) string
	rg    func(i int) []string
	hits  int
	most  float64 // nanoseconds that one may take, at p95
}

// askings returns the kinds of queries. Ripgrep is asked what is cheapest
// for it: how many lines contain the literal text.
func (c *corpus) askings() []asking {
	literal := func(word func(int) string) func(int) []string {
		return func(i int) []string { return []string{"-F", word(i)} }
	}
	rarely := func(i int) string { return rare(i % c.rares()) }
	often := func(i int) string { return c.words[i%10] }
	never := func(i int) string { return rare(c.rares() + i) }
	pair := func(i int) (string, string) { return c.words[100+i%100], c.words[300+i*7%300] }
	begin := func(i int) string { return c.words[2000+i*31%5000][:4+i%2] }
	return []asking{
		{"a rare word", rarely, literal(rarely), 1, 5e6},
		{"a frequent word", often, literal(often), store.DefaultHits, 5e6},
		{"two words", func(i int) string {
			a, b := pair(i)
			return a + " " + b
		}, func(i int) []string {
			a, b := pair(i)
			return []string{"-e", a + ".*" + b + "|" + b + ".*" + a}
		}, 0, 5e6},
		{"a phrase", func(i int) string { return `"` + c.phrase(i) + `"` }, literal(c.phrase), 1, 25e6},
		{"a beginning", func(i int) string { return "^" + begin(i) }, func(i int) []string { return []string{"-e", `\b` + begin(i)} }, 1, 7e6},
		{"a word that is nowhere", never, literal(never), 0, 5e6},
	}
}

// phrase returns three words that are adjacent somewhere. The last is
// searched as a prefix, which a sealed index supports from three letters on.
func (c *corpus) phrase(i int) string {
	for at := i*7919*4 + 3; ; at += 4 {
		words := strings.Fields(c.entry(at % c.entries).Text())
		run := 0
		for j, w := range words {
			if run++; strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
				run = 0
			}
			if run >= 3 && j > len(words)/2 && len(w) >= 3 {
				return strings.Join(words[j-2:j+1], " ")
			}
		}
	}
}

// searching measures questions to open stores that hold many entries.
func (r *run) searching(ctx context.Context) error {
	l, err := r.books(ctx, r.size.entries)
	if err != nil || l == nil {
		return err
	}
	rg, err := exec.LookPath("rg")
	if err != nil {
		r.table.skip("what ripgrep takes: rg is not installed")
	}
	var contenders []contender
	for _, a := range l.askings() {
		queries := make([]string, r.size.asked)
		for i := range queries {
			queries[i] = a.query(i)
		}
		for _, backend := range []string{inSQLite, sealed + inSQLite} {
			contenders = append(contenders, contender{backend + a.name, l.asks(ctx, backend, queries, a.hits)})
		}
		if rg != "" {
			i := 0
			contenders = append(contenders, contender{"rg" + a.name, times(2, func() error {
				i++
				return l.ripgrep(ctx, rg, a.rg(i%len(queries)))
			})})
		}
		if a.name == nowhere {
			contenders = append(contenders, contender{inFiles + a.name, l.asks(ctx, inFiles, queries[:1], a.hits)})
		}
	}
	r.say("search in %s entries", short(l.entries))
	s, err := r.compareTimes(ctx, r.size.moves, contenders...)
	if err != nil {
		return err
	}
	r.searched(l, s)
	return r.lagging(ctx, l)
}

// nowhere is also searched in files.
const nowhere = "a word that is nowhere"

// asks asks each question once.
func (l *library) asks(ctx context.Context, backend string, queries []string, hits int) func() (sample, error) {
	i := 0
	return oneByOne(len(queries), func() error {
		query := queries[i%len(queries)]
		i++
		return l.ask(ctx, backend, query, hits)
	})
}

// ask asks as the command does, including parsing the query.
func (l *library) ask(ctx context.Context, backend, text string, hits int) error {
	query, err := search.Parse(text)
	if err != nil {
		return err
	}
	answer, err := l.stores[backend].Search(ctx, store.Question{}.About(query))
	switch {
	case err != nil:
		return err
	case len(answer.Found) < min(hits, store.DefaultHits) || answer.Stopped || answer.Behind > 0:
		return fmt.Errorf("%s: %d hits, at least %d are there, and %d entries were not looked at", text, len(answer.Found), hits, answer.Behind)
	case answer.Scanned:
		return fmt.Errorf("%s: read without the index", text)
	}
	return nil
}

// ripgrep counts the lines that have something.
func (l *library) ripgrep(ctx context.Context, rg string, what []string) error {
	args := append([]string{"--no-config", "--no-ignore", "-c"}, what...)
	err := exec.CommandContext(ctx, rg, append(args, l.dir)...).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // there is none
	}
	return err
}

func (r *run) searched(l *library, s samples) {
	plain, closed := inSQLite, sealed+inSQLite
	for _, a := range l.askings() {
		work := fmt.Sprintf("search %s in %s entries: ", a.name, short(l.entries))
		fast, most := want{}, want{}
		if l.entries >= goalEntries {
			fast, most = want{ratioAtLeast: 50}, want{timeAtMost: a.most}
		}
		for _, backend := range []string{plain, closed} {
			r.table.add(row{goal: "P8", what: work + backend + ", p95", time: s.of(backend+a.name, p95),
				against: "p50, " + duration(s.of(backend+a.name, p50).median), ratio: s.of(backend+a.name, func(one sample) float64 { return one.p95 / one.p50 }), want: most})
		}
		if rg := "rg" + a.name; len(s[rg]) > 0 {
			r.table.add(row{goal: "P8", what: work + plain, time: s.time(plain + a.name), against: "rg -c, " + duration(s.time(rg).median),
				ratio: s.faster(plain+a.name, rg), faster: true, want: fast})
		}
		r.table.add(row{goal: "P8", what: work + closed, time: s.time(closed + a.name), against: "the same in a plain store",
			ratio: s.ratio(closed+a.name, plain+a.name), want: want{ratioAtMost: 1.2}})
		if name := inFiles + a.name; len(s[name]) > 0 {
			r.table.add(row{what: work + inFiles, time: s.time(name), against: plain, ratio: s.ratio(name, plain+a.name)})
		}
	}
	for _, backend := range []string{plain, closed} {
		x := l.indexes[backend]
		share := float64(x.bytes) / float64(l.text)
		w := want{}
		if backend == plain {
			met := share <= 0.36
			w = want{text: "≤ 36 %", met: &met}
		}
		r.table.add(row{goal: "P8", what: fmt.Sprintf("size of the index of %.0f MB of text: %s", float64(l.text)/1e6, backend),
			value: fmt.Sprintf("%.0f %%", share*100), want: w})
		r.table.add(row{what: "indexing: " + backend, value: fmt.Sprintf("%s lines/s, %s", group(int64(rounded(float64(x.lines)/x.took.Seconds()))), rate(l.text, float64(x.took)))})
	}
}

// rate formats bytes in nanoseconds as megabytes per second.
func rate(bytes int64, ns float64) string { return number(perSecond(bytes, ns)) + " MB/s" }

func perSecond(bytes int64, ns float64) float64 { return float64(bytes) / 1e6 / (ns / 1e9) }

// lagging measures how long a new entry is in no index, with the follower that
// programs have. Meanwhile a search finds it by reading.
func (r *run) lagging(ctx context.Context, l *library) error {
	for _, backend := range []string{inSQLite, sealed + inSQLite} {
		r.say("lag of the index in %s", backend)
		var lags []float64
		err := following(ctx, l.stores[backend], func(w *store.Writer) error {
			for i := range r.size.lags {
				lag, err := lagOf(ctx, l.stores[backend], w, rare(1_000_000+i))
				if err != nil {
					return err
				}
				lags = append(lags, float64(lag))
			}
			return nil
		})
		if err != nil {
			return err
		}
		of := spreadOf(lags)
		r.table.add(row{what: "from a commit until the index has it: " + backend, time: of})
	}
	return nil
}

// following runs work beside the follower that indexes.
func following(ctx context.Context, p *place, work func(*store.Writer) error) error {
	follow, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.KeepIndexed(follow) }()
	w := p.Create(tidemark.Session{Title: "new entries"}, p.who)
	err := work(w)
	stop()
	return errors.Join(err, <-ended, w.Close(ctx))
}

// lagOf appends an entry and looks until nothing is behind.
func lagOf(ctx context.Context, p *place, w *store.Writer, word string) (time.Duration, error) {
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "look for "+word)); err != nil {
		return 0, err
	}
	begin := time.Now()
	for {
		if n, err := p.Unindexed(ctx, 1); n == 0 || err != nil {
			return time.Since(begin), err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
