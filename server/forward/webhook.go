package forward

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// SignatureHeader has the time at which a request was signed and its signature:
// t=SECONDS,v1=HEX, which is HMAC-SHA256 of SECONDS, a dot and the body.
const SignatureHeader = "Tidemark-Signature"

// webhook is a Sink of HTTP.
type webhook struct {
	url    string
	secret []byte
	client *http.Client
}

// Webhook returns the Sink for an address that takes lines by POST, as JSON lines that
// are signed with a secret. What is not answered with 2xx is sent again. It has to be
// https, but on this machine. ErrInvalid.
func Webhook(place, secret string) (Sink, error) {
	u, err := url.Parse(place)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, tidemark.Invalidf("audit_webhook: want a URL without a password")
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && request.Hosts{}.Ours(u.Host)) {
		return nil, tidemark.Invalidf("audit_webhook: want https")
	}
	if len(secret) < 16 {
		return nil, tidemark.Invalidf("audit_webhook_secret: want 16 letters at least")
	}
	// Nobody is followed to another address with what is signed for this one.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &webhook{url: place, secret: []byte(secret), client: client}, nil
}

func (w *webhook) Name() string { return w.url }

func (w *webhook) Send(ctx context.Context, of string, lines []tenant.AuditLine) error {
	var body bytes.Buffer
	out := json.NewEncoder(&body)
	for _, l := range lines {
		l.Tenant = of
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body.Bytes()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("User-Agent", "tidemark")
	r.Header.Set(SignatureHeader, Sign(w.secret, time.Now(), body.Bytes()))
	res, err := w.client.Do(r)
	if err != nil {
		return tidemark.Storagef("audit webhook: %w", err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // so that the connection is used again
	if res.StatusCode/100 != 2 {
		return tidemark.Storagef("audit webhook: answered %d", res.StatusCode)
	}
	return nil
}

// Sign returns the value of SignatureHeader.
func Sign(secret []byte, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, seconds+".")
	mac.Write(body)
	return fmt.Sprintf("t=%s,v1=%s", seconds, hex.EncodeToString(mac.Sum(nil)))
}
