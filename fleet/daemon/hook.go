package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
)

// The headers of incoming and outgoing webhooks.
const (
	headerSignature = "X-Tidemark-Signature" // t=SECONDS,v1=HEX: when it was signed, and the MAC
	headerDelivery  = "X-Tidemark-Delivery"  // the same for every attempt to deliver the same thing
)

// signedFor is how far the time of a signature may differ from ours, in either
// direction: clocks differ, and calls wait in queues.
const signedFor = 5 * time.Minute

const (
	// hookRetries is how often a webhook is called again after a temporary failure.
	hookRetries = 2
	// hookPause is the wait before the first retry; before the next one it is four
	// times as long.
	hookPause = time.Second
	// hookOutput bounds what is read of a hook's output or answer: only the end of
	// it is shown, and only when the hook fails.
	hookOutput = 64 << 10
	// hookRedirects bounds the redirects of one call.
	hookRedirects = 3
)

// signature is the value of X-Tidemark-Signature for a call: when it was signed, and
// the HMAC-SHA256 of that time, the path, the delivery and the body. Each of the
// first three ends with a newline, which none of them can contain. So a signature is
// valid only for one webhook, one delivery and one time.
func signature(secret string, at time.Time, path, delivery string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%d\n%s\n%s\n", at.Unix(), path, delivery)
	h.Write(body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(h.Sum(nil)))
}

// signedAt returns the time in a signature, and false when there is none or it is too
// far from now.
func signedAt(signed string, now time.Time) (time.Time, bool) {
	text, _, _ := strings.Cut(strings.TrimPrefix(signed, "t="), ",")
	seconds, err := strconv.ParseInt(text, 10, 64)
	at := time.Unix(seconds, 0)
	return at, err == nil && !at.Before(now.Add(-signedFor)) && !at.After(now.Add(signedFor))
}

// hooks counts a job that has ended, and runs the hooks of its agent one after the
// other. They cannot change how the job ended: their errors are reported, and kept in
// the agent's log.
func (g *endpoints) hooks(ctx context.Context, a file.Agent, j tidemark.Job) {
	g.count(j.Status)
	if len(a.Hooks.AfterRun)+len(a.Hooks.OnError) == 0 {
		return
	}
	j.Process = nil // only needed to end its program
	body, err := json.Marshal(j)
	if err != nil {
		g.logError(ctx, a, fmt.Sprintf("%s: its hooks: %s", j.ID, err))
		return
	}
	if j.Status == tidemark.JobInterrupted {
		// The daemon is stopping, and waits only that long.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stopTimeout/2)
		defer cancel()
	}
	g.runHooks(ctx, a, j, "after_run", a.Hooks.AfterRun, body)
	if j.Status == tidemark.JobFailed {
		g.runHooks(ctx, a, j, "on_error", a.Hooks.OnError, body)
	}
}

func (g *endpoints) runHooks(ctx context.Context, a file.Agent, j tidemark.Job, when string, hooks []file.Hook, body []byte) {
	for i, h := range hooks {
		hookCtx, cancel := context.WithTimeout(ctx, cmp.Or(h.Timeout, file.DefaultHookTimeout))
		var err error
		if h.Webhook != "" {
			err = g.call(hookCtx, h, fmt.Sprintf("%s-%s-%d", j.ID, when, i+1), body)
		} else {
			err = g.command(hookCtx, a, j, h, body)
		}
		cancel()
		if err != nil {
			g.logError(context.WithoutCancel(ctx), a, fmt.Sprintf("%s: hook %s %d: %s", j.ID, when, i+1, err))
		}
	}
}

// command runs a hook that is a program, with the job on its standard input, in a
// process group of its own, and with the folder and environment of the agent.
func (g *endpoints) command(ctx context.Context, a file.Agent, j tidemark.Job, h file.Hook, body []byte) error {
	t := runner.Task{Job: j.ID, Agent: a.Name, Prompt: string(body) + "\n", Dir: a.Dir, OutputBytes: hookOutput}
	if g.of.o.Environ != nil {
		t.Environ = g.of.o.Environ(a)
	}
	var err error
	t.Sandbox, err = g.of.sandboxPolicy(a, func(p sandbox.Policy) (sandbox.Policy, error) { return widenedByFile(a, p), nil })
	if err == nil {
		_, err = runner.Command(h.Command).Run(ctx, t)
	}
	return withSandboxAdvice(a, err)
}

// call calls a webhook, and again after temporary failures. Its errors name only the
// host, since the rest of the address may contain a secret.
func (g *endpoints) call(ctx context.Context, h file.Hook, delivery string, body []byte) error {
	to, err := url.Parse(h.Webhook)
	if err != nil {
		return tidemark.Invalidf("a webhook that is not a URL")
	}
	var secret string
	if h.SecretEnv != "" {
		if secret = g.secret(h.SecretEnv); secret == "" {
			return tidemark.Invalidf("webhook of %s: it was not called, because %s, which it is to be signed with, is not set", to.Host, h.SecretEnv)
		}
	}
	pause := hookPause
	for try := 0; ; try++ {
		later, err := g.post(ctx, h.Webhook, delivery, secret, body)
		if err == nil {
			return nil
		}
		if !later || try == hookRetries || ctx.Err() != nil {
			return fmt.Errorf("webhook of %s: %w, after %d attempts", to.Host, err, try+1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause *= 4
	}
}

// post calls a webhook once, and reports with an error whether that may be temporary.
// Each attempt, and each redirect to another path, is signed anew.
func (g *endpoints) post(ctx context.Context, to, delivery, secret string, body []byte) (later bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return false, tidemark.Invalidf("it is not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "tidemark")
	req.Header.Set(headerDelivery, delivery)
	sign := func(req *http.Request) {
		if secret != "" {
			req.Header.Set(headerSignature, signature(secret, g.of.o.Now(), req.URL.RequestURI(), delivery, body))
		}
	}
	sign(req)
	client := http.Client{Transport: g.transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if err := sameHost(req, via); err != nil {
			return err
		}
		sign(req)
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		var full *url.Error
		if errors.As(err, &full) {
			err = full.Err
		}
		return !errors.Is(err, errRedirect), err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, hookOutput)) // so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		later = true
	default:
		later = resp.StatusCode >= 500
	}
	return later, fmt.Errorf("it answered %d", resp.StatusCode)
}

// errRedirect is the error of a webhook whose redirect was not followed.
var errRedirect = errors.New("its redirect was not followed")

// sameHost returns an error unless a redirect keeps the body and leads to the host
// that the file names: nobody chose to send the job to any other.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case req.Method != http.MethodPost:
		return fmt.Errorf("%w: it leaves out the body", errRedirect)
	case req.URL.Host != first.Host || first.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: it leads to %s://%s", errRedirect, req.URL.Scheme, req.URL.Host)
	case len(via) > hookRedirects:
		return fmt.Errorf("%w: it is the fourth", errRedirect)
	}
	return nil
}

// logError reports an error that is not one of the job itself, and keeps it in the
// agent's log.
func (g *endpoints) logError(ctx context.Context, a file.Agent, text string) {
	g.of.o.Tell(a.Name, text)
	e := tidemark.Event{Type: tidemark.EventError, Message: text, Timestamp: g.of.o.Now()}
	// Others may append to the log at the same time, so this may conflict.
	err := error(tidemark.ErrConflict)
	for n := 0; n < claimTries && errors.Is(err, tidemark.ErrConflict); n++ {
		var length int64
		if length, err = g.of.o.Store.AgentLogLength(ctx, a.Name); err == nil {
			err = g.of.o.Store.AppendAgentLog(ctx, a.Name, length, e)
		}
	}
	if err != nil {
		g.of.o.Tell(a.Name, fmt.Sprintf("its log: %s", err))
	}
}
