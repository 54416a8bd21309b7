package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// s3 is a place in a bucket of storage that speaks S3: an object for each blob.
// Objects that something else left below the prefix have names that no blob has.
type s3 struct {
	bucket, prefix, region string
	endpoint               *url.URL
	inHost                 bool // the bucket is part of the name of the host
	key                    s3Key
	http                   *http.Client

	ahead   atomic.Int64 // how far the clock there is ahead of the one here, in nanoseconds
	mu      sync.Mutex
	tags    map[string]string // the ETags of what was last seen of the blobs of this machine
	heeding bool              // the storage was seen to refuse what a condition forbids
}

// s3Key is what requests are signed with.
type s3Key struct{ id, secret, session string }

var (
	s3Bucket = expression.WhenNeeded(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	s3Prefix = expression.WhenNeeded(`^([A-Za-z0-9_.-]+/)*$`)
)

// s3Tries is how often a request is sent that the storage did not answer, or answered
// with a fault of its own.
const s3Tries = 5

// openS3 reads s3://bucket/prefix?endpoint=URL&region=NAME&profile=NAME&style=host.
// What the URL does not say comes from the environment and files that the programs of
// AWS use.
func openS3(text string, o *Options) (Blobs, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, tidemark.Invalidf("%.100q is no URL", text)
	}
	q := u.Query()
	for name := range q {
		if !strings.Contains(" endpoint region profile style ", " "+name+" ") {
			return nil, tidemark.Invalidf("s3://%s: there is no option %.40q; there are endpoint, region, profile and style", u.Host, name)
		}
	}
	s := &s3{bucket: u.Host, prefix: strings.Trim(u.Path, "/") + "/", inHost: q.Get("style") == "host", tags: make(map[string]string),
		region: cmp.Or(q.Get("region"), o.getenv("AWS_REGION"), o.getenv("AWS_DEFAULT_REGION"), "us-east-1")}
	s.prefix = strings.TrimPrefix(s.prefix, "/")
	switch style := q.Get("style"); {
	case u.User != nil:
		return nil, hint.With(tidemark.Invalidf("s3://%s: a key does not belong into the URL", u.Host), "set $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, or name a profile of ~/.aws/credentials: ?profile=NAME")
	case style != "" && style != "host" && style != "path":
		return nil, tidemark.Invalidf("s3://%s: style is host or path", u.Host)
	case !s3Bucket().MatchString(s.bucket) || !s3Prefix().MatchString(s.prefix) || u.Fragment != "" || strings.Contains(s.prefix, "./"):
		return nil, tidemark.Invalidf("%.100q: want s3://BUCKET/PREFIX?endpoint=URL&region=NAME", text)
	}
	endpoint := cmp.Or(q.Get("endpoint"), o.getenv("AWS_ENDPOINT_URL_S3"), o.getenv("AWS_ENDPOINT_URL"), "https://s3."+s.region+".amazonaws.com")
	if s.endpoint, err = url.Parse(endpoint); err != nil || s.endpoint.Host == "" || s.endpoint.Scheme != "https" && s.endpoint.Scheme != "http" || s.endpoint.User != nil {
		return nil, tidemark.Invalidf("s3://%s: its endpoint is no URL such as https://s3.example.org", u.Host)
	}
	if s.key, err = s3KeyOf(o, q.Get("profile")); err != nil {
		return nil, err
	}
	s.http = &http.Client{
		Timeout:       10 * time.Minute, // for the largest blob over a slow link
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 20 * time.Second}).DialContext, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: 60 * time.Second, TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: time.Minute},
	}
	return s, nil
}

// s3KeyOf finds the key: in the environment, unless a profile is named, or in the
// file of profiles.
func s3KeyOf(o *Options, profile string) (k s3Key, err error) {
	k = s3Key{o.getenv("AWS_ACCESS_KEY_ID"), o.getenv("AWS_SECRET_ACCESS_KEY"), o.getenv("AWS_SESSION_TOKEN")}
	if profile == "" && k.id != "" && k.secret != "" {
		return k, nil
	}
	profile = cmp.Or(profile, o.getenv("AWS_PROFILE"), "default")
	file := cmp.Or(o.getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(cmp.Or(o.getenv("HOME"), o.getenv("USERPROFILE")), ".aws", "credentials"))
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return k, tidemark.Storagef("%w", err)
	}
	k = s3Key{}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "["); is {
			section = strings.TrimSpace(strings.TrimSuffix(name, "]"))
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		if value = strings.TrimSpace(value); section != profile {
			continue
		}
		switch strings.TrimSpace(name) {
		case "aws_access_key_id":
			k.id = value
		case "aws_secret_access_key":
			k.secret = value
		case "aws_session_token":
			k.session = value
		}
	}
	if k.id == "" || k.secret == "" {
		return k, hint.With(tidemark.Deniedf("there is no key for the storage: neither in the environment nor as profile %.40q in %s", profile, file),
			"set $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY")
	}
	return k, nil
}

// s3Error is what the storage says is wrong.
type s3Error struct {
	Status  int `xml:"-"`
	Code    string
	Message string
}

func (e *s3Error) Error() string { return fmt.Sprintf("%s (%d): %s", e.Code, e.Status, e.Message) }

// absent reports whether there is no such object. Other things may be missing, too,
// such as the bucket or the owner of the key, and say nothing about the object.
func (e *s3Error) absent() bool {
	return e.Status == http.StatusNotFound && (e.Code == "" || e.Code == "NoSuchKey" || e.Code == "NotFound")
}

// refused reports whether a condition was not met.
func (e *s3Error) refused() bool {
	return e.Status == http.StatusPreconditionFailed || e.Status == http.StatusConflict
}

// request is one request for a blob, or for a list if it has no name.
type s3Request struct {
	method, name string
	query        url.Values
	data         []byte
	condition    [2]string // a header
}

// do sends a request until the storage has answered it, and returns its answer. What
// it refuses is an *s3Error.
func (s *s3) do(ctx context.Context, r s3Request) (body []byte, tag string, err error) {
	for try := range s3Tries {
		if try > 0 {
			select {
			case <-time.After(100 * time.Millisecond << try):
			case <-ctx.Done():
				return nil, "", ctx.Err()
			}
		}
		var answer *http.Response
		if answer, body, err = s.send(ctx, r); ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if err != nil {
			continue
		}
		if answer.StatusCode < 300 {
			return body, answer.Header.Get("ETag"), nil
		}
		is := &s3Error{Status: answer.StatusCode}
		if xml.Unmarshal(body, is) != nil || is.Code == "" {
			is.Code, is.Message = "no S3 error", http.StatusText(is.Status)
		}
		err = is
		switch at, bad := http.ParseTime(answer.Header.Get("Date")); {
		case is.Code == "RequestTimeTooSkewed" && bad == nil:
			s.ahead.Store(int64(time.Until(at)))
		case is.Status < 500 && is.Status != http.StatusTooManyRequests && is.Code != "OperationAborted" && is.Code != "ConditionalRequestConflict" && is.Code != "RequestTimeout", is.Status == http.StatusNotImplemented:
			return nil, "", err
		}
	}
	return nil, "", err
}

// send sends a signed request once.
func (s *s3) send(ctx context.Context, r s3Request) (*http.Response, []byte, error) {
	at := *s.endpoint
	at.Path = strings.TrimRight(at.Path, "/")
	if s.inHost {
		at.Host = s.bucket + "." + at.Host
	} else {
		at.Path += "/" + s.bucket
	}
	if at.Path += "/"; r.name != "" {
		at.Path += s.prefix + r.name
	}
	at.RawQuery = strings.ReplaceAll(r.query.Encode(), "+", "%20")
	req, err := http.NewRequestWithContext(ctx, r.method, at.String(), bytes.NewReader(r.data))
	if err != nil {
		return nil, nil, err
	}
	if r.condition[0] != "" {
		req.Header.Set(r.condition[0], r.condition[1])
	}
	s.sign(req, r.data)
	answer, err := s.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, MaxBytes+1))
	if err == nil && len(body) > MaxBytes {
		err = errors.New("the answer is too long")
	}
	return answer, body, err
}

// sign signs a request by version 4 of the signatures of AWS.
func (s *s3) sign(req *http.Request, data []byte) {
	now := time.Now().Add(time.Duration(s.ahead.Load())).UTC()
	sum := sha256.Sum256(data)
	set := map[string]string{"x-amz-content-sha256": hex.EncodeToString(sum[:]), "x-amz-date": now.Format("20060102T150405Z")}
	names := []string{"host", "x-amz-content-sha256", "x-amz-date"}
	if s.key.session != "" {
		set["x-amz-security-token"] = s.key.session
		names = append(names, "x-amz-security-token")
	}
	canonical := req.Method + "\n" + req.URL.EscapedPath() + "\n" + req.URL.RawQuery + "\nhost:" + req.URL.Host + "\n"
	for _, name := range names[1:] {
		req.Header.Set(name, set[name])
		canonical += name + ":" + set[name] + "\n"
	}
	canonical += "\n" + strings.Join(names, ";") + "\n" + set["x-amz-content-sha256"]
	scope := now.Format("20060102") + "/" + s.region + "/s3/aws4_request"
	whole := sha256.Sum256([]byte(canonical))
	mac := []byte("AWS4" + s.key.secret)
	for _, part := range append(strings.Split(scope, "/"), "AWS4-HMAC-SHA256\n"+set["x-amz-date"]+"\n"+scope+"\n"+hex.EncodeToString(whole[:])) {
		h := hmac.New(sha256.New, mac)
		h.Write([]byte(part))
		mac = h.Sum(nil)
	}
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", s.key.id, scope, strings.Join(names, ";"), mac))
}

// fail says what an error means to people.
func (s *s3) fail(name string, err error) error {
	var is *s3Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case !errors.As(err, &is):
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the query
		}
		return hint.With(tidemark.Storagef("s3://%s: %s: %w", s.bucket, s.endpoint.Host, err), "what is kept here is whole; try again when the storage can be reached")
	case is.Code == "NoSuchBucket":
		return hint.With(tidemark.Storagef("s3://%s: there is no such bucket at %s", s.bucket, s.endpoint.Host), "make it with the tools of your storage; or name another endpoint or region in the URL")
	case is.Status == http.StatusForbidden || is.Status == http.StatusUnauthorized || is.Status == http.StatusNotFound && !is.absent(): // some do not know the key
		return hint.With(tidemark.Storagef("s3://%s: the storage does not allow this: %w", s.bucket, is), "check the key ($AWS_ACCESS_KEY_ID, or the profile), the region, and that it may read, write, list and delete in this bucket")
	case is.Status == http.StatusMovedPermanently || is.Status == http.StatusTemporaryRedirect || is.Code == "AuthorizationHeaderMalformed":
		return hint.With(tidemark.Storagef("s3://%s: the bucket is in another region than %s: %w", s.bucket, s.region, is), "name its region: s3://%s/…?region=NAME", s.bucket)
	}
	return tidemark.Storagef("s3://%s: %s: %w", s.bucket, name, is)
}

func (s *s3) remember(name, tag string) {
	s.mu.Lock()
	s.tags[name] = tag
	s.mu.Unlock()
}

func (s *s3) Get(ctx context.Context, name string) ([]byte, error) {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return nil, err
	}
	data, tag, err := s.do(ctx, s3Request{method: http.MethodGet, name: name})
	var is *s3Error
	if errors.As(err, &is) && is.absent() {
		s.remember(name, "")
		return nil, tidemark.NotFoundf("s3://%s: %s: not found", s.bucket, name)
	}
	if err != nil {
		return nil, s.fail(name, err)
	}
	s.remember(name, tag)
	return data, nil
}

// put writes an object under a condition. If the condition is not met because this
// very content is there, such as after an answer that got lost, all is well.
func (s *s3) put(ctx context.Context, name string, data []byte, condition [2]string, otherwise func() error) error {
	if len(data) > MaxBytes {
		return tidemark.Invalidf("%s: %d bytes are too many for a blob", name, len(data))
	}
	_, tag, err := s.do(ctx, s3Request{method: http.MethodPut, name: name, data: data, condition: condition})
	var is *s3Error
	if condition[0] != "" && errors.As(err, &is) && is.refused() {
		there, err := s.Get(ctx, name)
		switch {
		case err == nil && bytes.Equal(there, data):
			return nil
		case err == nil || errors.Is(err, tidemark.ErrNotFound):
			return otherwise()
		}
		return err
	}
	if err == nil {
		s.remember(name, tag)
	}
	return s.fail(name, err)
}

var ifNew = [2]string{"If-None-Match", "*"}

// PutNew relies on conditional writes. Storage that knows nothing of them takes such
// a write all the same; so the first one is sent again, and has to be refused.
func (s *s3) PutNew(ctx context.Context, name string, data []byte) error {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	err := s.put(ctx, name, data, ifNew, func() error { return tidemark.Existsf("s3://%s: %s is there already", s.bucket, name) })
	s.mu.Lock()
	tried := s.heeding
	s.mu.Unlock()
	if err != nil || tried {
		return err
	}
	_, _, err = s.do(ctx, s3Request{method: http.MethodPut, name: name, data: data, condition: ifNew})
	var is *s3Error
	switch {
	case errors.As(err, &is) && is.refused():
		s.mu.Lock()
		s.heeding = true
		s.mu.Unlock()
		return nil
	case err == nil:
		return hint.With(tidemark.Storagef("s3://%s: this storage has no conditional writes (If-None-Match), without which two machines may overwrite each other", s.bucket), "use another storage, or a newer version of it")
	}
	return s.fail(name, err)
}

// Replace expects what this machine last saw there, if it has seen anything: another
// one that writes under its name is noticed.
func (s *s3) Replace(ctx context.Context, name string, data []byte) error {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	var condition [2]string
	s.mu.Lock()
	tag, seen := s.tags[name]
	s.mu.Unlock()
	switch {
	case seen && tag == "":
		condition = ifNew
	case seen:
		condition = [2]string{"If-Match", tag}
	}
	return s.put(ctx, name, data, condition, func() error {
		return hint.With(tidemark.Storagef("s3://%s: %s: another store writes as this machine at this moment", s.bucket, name), "try again")
	})
}

// s3List is a page of a list.
type s3List struct {
	Contents              []struct{ Key string }
	IsTruncated           bool
	NextContinuationToken string
}

func (s *s3) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for token := ""; ; {
			query := url.Values{"list-type": {"2"}, "prefix": {s.prefix + prefix}}
			if token != "" {
				query.Set("continuation-token", token)
			}
			body, _, err := s.do(ctx, s3Request{method: http.MethodGet, query: query})
			var page s3List
			if err == nil {
				err = xml.Unmarshal(body, &page)
			}
			if err == nil && page.IsTruncated && (page.NextContinuationToken == "" || page.NextContinuationToken == token) {
				err = errors.New("a page of the list does not say where the next one begins")
			}
			if err != nil {
				yield("", s.fail("list", err))
				return
			}
			for _, c := range page.Contents {
				name, is := strings.CutPrefix(c.Key, s.prefix)
				if is && CheckName(name) == nil && strings.HasPrefix(name, prefix) && !yield(name, nil) {
					return
				}
			}
			if token = page.NextContinuationToken; !page.IsTruncated {
				return
			}
		}
	}
}

func (s *s3) Delete(ctx context.Context, name string) error {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	_, _, err := s.do(ctx, s3Request{method: http.MethodDelete, name: name})
	var is *s3Error
	if errors.As(err, &is) && is.Code == "NoSuchKey" {
		err = nil
	}
	if err == nil {
		s.remember(name, "")
	}
	return s.fail(name, err)
}

func (s *s3) Close() error {
	s.http.CloseIdleConnections()
	return nil
}
