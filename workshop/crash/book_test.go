package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// log prints entries as cat does.
func logOf(texts ...string) string {
	var b strings.Builder
	for i, text := range texts {
		kind := "message"
		if text == "" {
			kind = "branch"
		}
		fmt.Fprintf(&b, "{\"seq\":%d,\"kind\":%q,\"blocks\":[{\"text\":%q}]}\n", i+1, kind, text)
	}
	return b.String()
}

// An oracle that cannot find a fault proves nothing, so each kind of fault is
// planted once.
func TestTheBookFindsEveryKindOfFault(t *testing.T) {
	type faults struct{ Lost, Doubled, Unreadable, Aid int }
	for name, c := range map[string]struct {
		log  string
		want faults
	}{
		"nothing wrong":                       {logOf("a", "b"), faults{}},
		"what nobody was told of is there":    {logOf("a", "b", "c"), faults{}},
		"an acknowledged entry is missing":    {logOf("a"), faults{Lost: 1}},
		"two entries changed places":          {logOf("b", "a"), faults{Lost: 2}},
		"an entry is there twice":             {logOf("a", "b", "b"), faults{Doubled: 1}},
		"an entry that nobody sent":           {logOf("a", "b", "x"), faults{Unreadable: 1}},
		"a seq is left out":                   {strings.Replace(logOf("a", "b", "c"), `"seq":3`, `"seq":4`, 1), faults{Lost: 1}},
		"a line that is not JSON":             {logOf("a", "b") + "{", faults{Unreadable: 1}},
		"a branch that nobody asked for":      {logOf("a", "b", ""), faults{Doubled: 1}},
		"an entry of an acknowledged is torn": {logOf("a", "") + "", faults{Lost: 1, Doubled: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &book{say: t.Logf}
			s := &session{id: "s", sent: []*promise{{text: "a", seq: 1}, {text: "b", seq: 2}, {text: "c"}}}
			b.compareLog(s, c.log)
			if diff := cmp.Diff(c.want, faults{b.lost, b.doubled, b.unreadable, b.aid}); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALaterEntryWithoutAnEarlierOneIsAFault(t *testing.T) {
	b := &book{say: t.Logf}
	b.noHoles(&writer{s: &session{id: "s"}, sent: []*promise{{text: "a", seq: 1}, {text: "b"}, {text: "c"}}})
	if b.row().broken() {
		t.Error("a writer that was cut off has a hole")
	}
	b.noHoles(&writer{s: &session{id: "s"}, sent: []*promise{{text: "a", seq: 1}, {text: "b"}, {text: "c", seq: 2}}})
	if b.lost != 1 {
		t.Errorf("a hole counts as %d lost, want 1", b.lost)
	}
}

func TestWhatIsReadAfterTheCutDoesNotCount(t *testing.T) {
	b := &book{say: t.Logf}
	s, p := b.begin(), &promise{text: "a"}
	b.close()
	b.heard(func() { b.kept(s, "s", p, 1) })
	if b.acknowledged != 0 || p.seq != 0 || s.id != "" {
		t.Errorf("acknowledged %d, seq %d, id %q after the book was shut", b.acknowledged, p.seq, s.id)
	}
}

func TestAnEntryAcknowledgedUnderTwoSeqsIsDoubled(t *testing.T) {
	b := &book{say: t.Logf}
	s, p := b.begin(), &promise{text: "a", key: "k"}
	b.kept(s, "s", p, 1)
	b.kept(s, "s", p, 2)
	if b.doubled != 1 {
		t.Errorf("doubled = %d, want 1", b.doubled)
	}
}

func TestTwoWritersAtOnceAreSeenInTheLog(t *testing.T) {
	for text, want := range map[string]int{
		"first 0,a.1 0,a.1 1,b.1 0,a.2 0": 0,
		"first 0,a.1 0,b.1 0,a.1 1":       1,
	} {
		var texts []string
		texts = append(texts, strings.Split(text, ",")...)
		a := &arena{o: options{log: testLog{t}}, acks: make(map[string][]ack)}
		a.compare("s", texts)
		if a.found.doubled != want {
			t.Errorf("%s: %d times two writers, want %d", text, a.found.doubled, want)
		}
	}
}

// testLog sends what a trial says to the log of a test.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}
