// Package modeltest is the one suite that every provider of package model
// passes: how it handles answers, faults and misbehaving servers, and what it
// sends. It knows no provider's wire format. Only tests use it.
//
//	func TestProvider(t *testing.T) { modeltest.Run(t, provider) }
package modeltest

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// Provider is a provider under test, and what its server sends.
type Provider struct {
	Name  string // in errors
	Model string // what is asked for
	New   func(Dial) Client
	// Body is the body of a request.
	Body func(model.Request) ([]byte, error)

	// Saying is a complete answer of one text, Half the beginning of one that
	// has said "void".
	Saying func(text string) http.HandlerFunc
	Half   http.HandlerFunc
	// Pages of errors: "slow down", "Overloaded", and that 250000 tokens are too
	// many.
	Busy, Overloaded, TooLong string

	// What the scripted model makes the server send: whether a block is the
	// thinking that was sent, the usage of 190000 tokens in, 900 out, 5 read
	// from the cache and 6 written to it, and the status of an overload in the
	// middle of an answer.
	Thought func(b tidemark.Block, text string) bool
	Usage   tidemark.Usage
	Late    string

	// Cases that are specific to this provider, by name.
	Passing map[string]Passing
	Lasting map[string]Lasting
	Endless map[string]http.HandlerFunc
	// Blocks are those that only this provider makes from a text. nil: none.
	Blocks func(text string) []tidemark.Block
}

// Dial says which server is called, and how.
type Dial struct {
	BaseURL, Key string
	Retry        model.Retry
	HTTP         *http.Client
}

// Client is what every provider's client implements.
type Client interface {
	Stream(context.Context, model.Request) iter.Seq2[model.Event, error]
	Parts(model.Request) ([][]byte, error)
}

// Run runs the suite.
func Run(t *testing.T, p Provider) {
	for name, check := range map[string]func(*testing.T, Provider){
		"a fault that may pass is asked again":                             askedAgain,
		"a fault that stays is an error":                                   refused,
		"attempts end":                                                     attemptsEnd,
		"an endless answer is cut off":                                     cutOff,
		"cancelling ends at once":                                          cancelled,
		"a listener who leaves ends the request":                           left,
		"a slow listener is no silence":                                    slow,
		"an address that is none is told without asking":                   addresses,
		"the scripted model is understood":                                 scripted,
		"parts of a longer conversation begin with those of a shorter one": parts,
		"a prompt of ten megabytes arrives whole":                          largePrompt,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { check(t, p) })
	}
}

func (p Provider) ask(prompt string) model.Request { return PromptRequest(p.Model, prompt) }

// client returns a client of a server with these handlers.
func (p Provider) client(t testing.TB, d Dial, handlers ...http.HandlerFunc) (Client, *Server) {
	s, h := Serve(t, handlers...)
	d.BaseURL, d.HTTP = "http://model.test", h
	return p.New(d), s
}

func patient() model.Retry {
	return model.Retry{Attempts: 4, First: time.Second, Most: 30 * time.Second, Silence: time.Minute}
}

// Collected is the outcome of a stream. What came before a Wait is void.
type Collected struct {
	Text, Thinking string
	Calls          []string
	Waits          []model.Wait
	Answer         *model.Answer
	Err            error
}

// Collect reads a stream to its end.
func Collect(seq iter.Seq2[model.Event, error]) (h Collected) {
	for e, err := range seq {
		switch {
		case err != nil:
			h.Err = err
		case e.Wait != nil:
			h.Waits = append(h.Waits, *e.Wait)
			h.Text, h.Thinking, h.Calls = "", "", nil
		case e.Done != nil:
			h.Answer = e.Done
		case e.Call != "":
			h.Calls = append(h.Calls, e.Call)
		default:
			h.Text += e.Text
			h.Thinking += e.Thinking
		}
	}
	return h
}

// PromptRequest is a request of one prompt.
func PromptRequest(name, prompt string) model.Request {
	return model.Request{Model: name, Entries: []tidemark.Entry{tidemark.Say(tidemark.User, prompt)}}
}

// WantError expects an error of package model that answers to cause, if it is
// not nil, and contains the words.
func WantError(t *testing.T, err error, cause error, words ...string) {
	t.Helper()
	var told *model.Error
	if !errors.As(err, &told) {
		t.Fatalf("error %v (%T), want a *model.Error", err, err)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Errorf("error %q does not answer to %q", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}
