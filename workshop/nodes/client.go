package nodes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// Client calls nodes. All methods may be called concurrently.
type Client struct {
	token string
	http  *http.Client
}

// Client returns a client that keeps as many connections to each node as there
// are concurrent calls. At least one node has to be started.
func (p *Place) Client(atOnce int) (*Client, error) {
	token, err := p.Token()
	if err != nil {
		return nil, err
	}
	return &Client{token: token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce, DisableCompression: true}}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Refusal is an unexpected answer.
type Refusal struct {
	Status int
	Code   string // code of the problem
	Detail string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Detail) }

// send makes a call; the caller closes the response body.
func (c *Client) send(ctx context.Context, method, url string, body any, headers ...string) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.GetBody = nil // failures are counted, and retried by the caller
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if a.StatusCode/100 != 2 {
		defer a.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(a.Body, 64<<10)) // what is there of it
		var p api.Problem
		json.Unmarshal(text, &p)
		return nil, &Refusal{Status: a.StatusCode, Code: p.Code, Detail: p.Detail}
	}
	return a, nil
}

func (c *Client) call(ctx context.Context, method, url string, body, answer any, headers ...string) error {
	a, err := c.send(ctx, method, url, body, headers...)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// Create makes a session.
func (c *Client) Create(ctx context.Context, node, title string) (tidemark.SessionID, error) {
	var i api.SessionInfo
	err := c.call(ctx, http.MethodPost, node+"/api/v1/sessions", api.NewSession{Title: title}, &i)
	return i.ID, err
}

func entriesURL(node string, id tidemark.SessionID) string {
	return node + "/api/v1/sessions/" + string(id) + "/entries"
}

// Append appends one entry and returns its seq. With a key it may be sent
// again; "" is no key.
func (c *Client) Append(ctx context.Context, node string, id tidemark.SessionID, key string, e api.NewEntry) (int64, error) {
	return c.append(ctx, node, id, key, api.Appending{Entries: []api.NewEntry{e}})
}

// AppendAll appends several at once.
func (c *Client) AppendAll(ctx context.Context, node string, id tidemark.SessionID, all []api.NewEntry) error {
	return c.call(ctx, http.MethodPost, entriesURL(node, id), api.Appending{Entries: all}, new(api.Appended))
}

// AppendUnder appends one entry with the token of a lease.
func (c *Client) AppendUnder(ctx context.Context, node string, id tidemark.SessionID, lease string, e api.NewEntry) (int64, error) {
	return c.append(ctx, node, id, "", api.Appending{Entries: []api.NewEntry{e}, Lease: lease})
}

func (c *Client) append(ctx context.Context, node string, id tidemark.SessionID, key string, body api.Appending) (int64, error) {
	var headers []string
	if key != "" {
		headers = []string{"Idempotency-Key", key}
	}
	var a api.Appended
	if err := c.call(ctx, http.MethodPost, entriesURL(node, id), body, &a, headers...); err != nil {
		return 0, err
	}
	if len(a.Seqs) != 1 {
		return 0, fmt.Errorf("one entry has the seqs %v", a.Seqs)
	}
	return a.Seqs[0], nil
}

// Lease takes the lease of a session, and returns its token.
func (c *Client) Lease(ctx context.Context, node string, id tidemark.SessionID) (string, error) {
	var l api.LeaseInfo
	err := c.call(ctx, http.MethodPost, node+"/api/v1/sessions/"+string(id)+"/lease", struct{}{}, &l)
	return l.Token, err
}

// Renew renews a lease.
func (c *Client) Renew(ctx context.Context, node string, id tidemark.SessionID, lease string) error {
	var l api.LeaseInfo
	return c.call(ctx, http.MethodPut, node+"/api/v1/sessions/"+string(id)+"/lease", map[string]string{"token": lease}, &l)
}

// Tail returns the newest entries of a session.
func (c *Client) Tail(ctx context.Context, node string, id tidemark.SessionID, n int) ([]api.LogEntry, error) {
	var page api.EntryList
	err := c.call(ctx, http.MethodGet, entriesURL(node, id)+"?tail="+strconv.Itoa(n), nil, &page)
	return page.Items, err
}

// Log returns the whole log of a session.
func (c *Client) Log(ctx context.Context, node string, id tidemark.SessionID) (all []api.LogEntry, err error) {
	query := "?all=true&limit=1000"
	for {
		var page api.EntryList
		if err := c.call(ctx, http.MethodGet, entriesURL(node, id)+query, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query = "?limit=1000&cursor=" + url.QueryEscape(page.Next)
	}
}

// Get reads what is at an address into answer.
func (c *Client) Get(ctx context.Context, url string, answer any) error {
	return c.call(ctx, http.MethodGet, url, nil, answer)
}

// Post sends a body to any address and returns what comes back.
func (c *Client) Post(ctx context.Context, url string, body any) ([]byte, error) {
	a, err := c.send(ctx, http.MethodPost, url, body)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	return io.ReadAll(a.Body)
}

// Event is one message of a stream. The first has no name and no data: the
// stream is open.
type Event struct {
	ID   string
	Name string
	Data []byte
}

// Follow passes the entries of a session after an event to got, until the stream
// ends or got returns an error, which Follow then returns. The end of the
// stream is io.EOF. after is the ID of the event, "" for all.
func (c *Client) Follow(ctx context.Context, node string, id tidemark.SessionID, after string, got func(Event) error) error {
	headers := []string{"Accept", "text/event-stream"}
	if after != "" {
		headers = append(headers, "Last-Event-ID", after)
	}
	a, err := c.send(ctx, http.MethodGet, entriesURL(node, id)+"/stream", nil, headers...)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if err := got(Event{}); err != nil {
		return err
	}
	return events(a.Body, got)
}

// events reads messages from a stream.
func events(r io.Reader, got func(Event) error) error {
	in := bufio.NewReader(r)
	var e Event
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err // a message without its empty line is incomplete
		}
		field, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.ID = value
		case "event":
			e.Name = value
		case "data":
			if e.Data != nil {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
		case "":
			if strings.HasPrefix(line, ":") { // a comment
				continue
			}
			if e.Name != "" || e.Data != nil {
				if err := got(e); err != nil {
					return err
				}
			}
			e = Event{}
		}
	}
}
