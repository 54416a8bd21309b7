package hits_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

// library is entries of words that are as unequally frequent as those of a language.
type library struct {
	rnd   *rand.Rand
	zipf  *rand.Zipf
	words []string
	said  []string
}

func newLibrary() *library {
	l := &library{rnd: rand.New(rand.NewPCG(1, 2))}
	for i := range 20_000 {
		l.words = append(l.words, fmt.Sprintf("%c%c%c%d", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26, i%7))
	}
	l.zipf = rand.NewZipf(l.rnd, 1.1, 8, uint64(len(l.words)-1))
	return l
}

func (l *library) entry() tidemark.Entry {
	var b strings.Builder
	for range 40 + l.rnd.IntN(160) {
		b.WriteString(l.words[l.zipf.Uint64()])
		b.WriteByte(' ')
	}
	b.WriteString(fmt.Sprintf("rare%d", len(l.said)))
	l.said = append(l.said, b.String())
	return tidemark.Say([]tidemark.Role{tidemark.User, tidemark.Assistant}[len(l.said)%2], b.String())
}

// phrase is three words that stand together somewhere.
func (l *library) phrase(i int) string {
	words := strings.Fields(l.said[i*7919%len(l.said)])
	return `"` + strings.Join(words[10:13], " ") + `"`
}

// BenchmarkSearch asks stores of several kinds, in one run, so that their times can be
// compared.
func BenchmarkSearch(b *testing.B) {
	const entries = 20_000
	questions := []struct {
		name string
		ask  func(l *library, i int) string
	}{
		{"a rare word", func(_ *library, i int) string { return fmt.Sprintf("rare%d", i*31%entries) }},
		{"a frequent word", func(l *library, i int) string { return l.words[i%10] }},
		{"two words", func(l *library, i int) string { return l.words[100+i%100] + " " + l.words[300+i*7%300] }},
		{"a phrase", (*library).phrase},
		{"a beginning", func(l *library, i int) string { return "^" + l.words[2000+i*31%5000][:3] }},
		{"a word that is nowhere", func(_ *library, i int) string { return fmt.Sprintf("absent%d", i) }},
	}
	for _, name := range []string{"sqlite", "files", "postgres"} {
		for _, sealed := range []bool{false, true} {
			title := fmt.Sprintf("%s sealed=%v", name, sealed)
			l := newLibrary()
			s := l.fill(b, name, sealed, entries)
			for _, q := range questions {
				b.Run(q.name+"/"+title, func(b *testing.B) {
					for i := 0; b.Loop(); i++ {
						ask(b, s, q.ask(l, i))
					}
				})
			}
		}
	}
}

func (l *library) fill(b *testing.B, name string, sealed bool, entries int) *store.Store {
	b.Helper()
	s := store.New(made(b, backends[name], sealed), &store.Options{Places: search.EachWord})
	for range entries / 500 {
		w := s.Create(tidemark.Session{Title: "a session"}, store.Self("bench"))
		var all []tidemark.Entry
		for range 500 {
			all = append(all, l.entry())
		}
		if _, err := w.Append(b.Context(), all...); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.Run(fmt.Sprintf("indexing/%s sealed=%v", name, sealed), func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Reindex(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	if _, err := s.CatchUp(b.Context(), nil); err != nil { // where that was not asked for
		b.Fatal(err)
	}
	return s
}

func ask(b *testing.B, s *store.Store, text string) {
	query, err := search.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	a, err := hits.Search(b.Context(), s, query, store.Question{}, hits.Width)
	if err != nil || a.Damage != nil || a.Stopped || a.Behind > 0 {
		b.Fatalf("%s: %v, %v, stopped %v, %d not looked at", text, err, a.Damage, a.Stopped, a.Behind)
	}
}
