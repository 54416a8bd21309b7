package chat_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
)

// steered returns a conversation in which the user steered, with a model that
// answers the question for learnings so.
func steered(t *testing.T, answer reply) (*rig, *chat.Chat) {
	r := newRig(t, memory.New(), nil)
	r.o.Session.Project = "/p"
	usual := r.model.answer
	r.model.answer = func(q model.Request) reply {
		if strings.Contains(q.System, "later sessions") {
			return answer
		}
		return usual(q)
	}
	c := r.new()
	r.send(c, "Please fix the parser.")
	r.send(c, "No, use tabs instead of spaces. The rest is fine.\nAlways run the tests before you say that it works.")
	return r, c
}

var byRules = []string{"No, use tabs instead of spaces.", "Always run the tests before you say that it works."}

func TestLearningsComeFromTheModelOrFromRules(t *testing.T) {
	for name, c := range map[string]struct {
		answer  reply
		offline bool
		want    []string
	}{
		"plain":     {says(`["Tabs are used here."]`), false, []string{"Tabs are used here."}},
		"fenced":    {says("Here:\n```json\n[\"Tabs.\", \" \", \"Tests first.\"]\n```\n"), false, []string{"Tabs.", "Tests first."}},
		"none":      {says("[]"), false, nil},
		"nonsense":  {says("I would rather not."), false, byRules},
		"no list":   {says(`[{"a":1}]`), false, byRules},
		"too much":  {says(`["` + strings.Repeat(`x","`, 30) + `"]`), false, strings.Split(strings.Repeat("x", 10), "")},
		"an error":  {reply{err: errors.New("no")}, false, byRules},
		"offline":   {says(`["Tabs."]`), true, byRules},
		"backwards": {says("] ["), false, byRules},
	} {
		t.Run(name, func(t *testing.T) {
			r, chat := steered(t, c.answer)
			got, err := chat.Learn(t.Context(), c.offline)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, c.want)
			n, err := chat.KeepLearned(t.Context(), got)
			if err != nil || name != "too much" && n != len(got) {
				t.Errorf("KeepLearned = %d, %v", n, err)
			}
			if n, err := chat.KeepLearned(t.Context(), got); err != nil || n != 0 {
				t.Errorf("KeepLearned again = %d, %v", n, err)
			}
			for m, err := range r.store.Memories(t.Context(), "/p") {
				if err != nil || m.Session != chat.ID() {
					t.Errorf("%+v, %v", m, err)
				}
			}
		})
	}
}

func TestASlowModelLeavesTimeForTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := steered(t, reply{text: []string{"["}, hang: true})
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		got, err := c.Learn(ctx, false)
		if err != nil || ctx.Err() != nil {
			t.Errorf("Learn: %v, %v", err, ctx.Err())
		}
		same(t, got, byRules)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Learn(ctx, false); !errors.Is(err, context.Canceled) {
			t.Errorf("Learn, cancelled: %v", err)
		}
		r.close(c)
	})
}

func TestNothingSaidIsNothingLearned(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	got, err := c.Learn(t.Context(), false)
	if len(got) > 0 || err != nil || len(r.model.all()) > 0 {
		t.Errorf("Learn = %v, %v", got, err)
	}
	if _, err := c.Send(t.Context(), tidemark.Block{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	same(t, len(c.Steered()), 0)
}
