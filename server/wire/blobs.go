package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// BlobQuota bounds the bytes of the blobs that each user keeps at a server for remotes.
// It counts what is there now and then, and in between adds what comes: another server
// over the same store may let a user pass the bound by what comes within recountEvery.
type BlobQuota struct {
	most  int64
	mu    sync.Mutex
	users map[string]*blobCount
}

// recountEvery is how long a count of the blobs of a user is believed.
const recountEvery = time.Minute

// blobCount is what one user keeps.
type blobCount struct {
	mu    sync.Mutex
	bytes int64
	at    time.Time // when they were counted; zero: never
}

// NewBlobQuota returns a quota of so many bytes for each user; nil for 0, which is none.
func NewBlobQuota(most int64) *BlobQuota {
	if most <= 0 {
		return nil
	}
	return &BlobQuota{most: most, users: make(map[string]*blobCount)}
}

func (q *BlobQuota) of(p tidemark.Principal) *blobCount {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := p.Tenant + "/" + p.User
	if q.users[name] == nil {
		q.users[name] = &blobCount{}
	}
	return q.users[name]
}

// admit reports why a batch is refused: the blobs that it puts do not fit, or do not
// say how large they are.
func (q *BlobQuota) admit(ctx context.Context, p tidemark.Principal, be tidemark.Backend, b tidemark.Batch) error {
	if q == nil {
		return nil
	}
	put, added, err := blobsIn(b)
	if len(put) == 0 || err != nil {
		return err
	}
	c := q.of(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes+added > q.most || time.Since(c.at) > recountEvery {
		if c.bytes, err = countBlobs(ctx, be, put); err != nil {
			return err
		}
		c.at = time.Now()
	}
	if c.bytes+added > q.most {
		err := &api.Problem{Status: http.StatusInsufficientStorage, Title: http.StatusText(http.StatusInsufficientStorage), Code: tidemark.CodeOf(tidemark.ErrStorage).Name,
			Detail: fmt.Sprintf("the server is full for this user: remotes have %d bytes there, and may have %d", c.bytes, q.most),
			Hint:   "what is kept on this machine is whole; tidemark remote check removes what nothing needs, and the operator can allow more (limit_user_blobs)"}
		c.at = time.Time{} // what is removed shall count at once
		return err
	}
	c.bytes += added
	return nil
}

// blobsIn returns the ids of the blobs that a batch puts, and their bytes. ErrInvalid:
// one is there without the record that lists it with its size.
func blobsIn(b tidemark.Batch) (put map[string]bool, bytes int64, err error) {
	put = make(map[string]bool)
	says := make(map[string]int64)
	for _, r := range b.Puts {
		if r.Kind != records.KindBlob {
			continue
		}
		n, err := sizeOf(r)
		if err != nil {
			return nil, 0, err
		}
		says[r.ID] = n
	}
	for _, r := range b.Puts {
		if r.Kind != records.KindBlobData {
			continue
		}
		if n, listed := says[r.ID]; !listed || n != int64(len(r.Body)) {
			return nil, 0, tidemark.Invalidf("blob %.80q: is not listed with its size", r.ID)
		}
		delete(says, r.ID)
		put[r.ID], bytes = true, bytes+int64(len(r.Body))
	}
	for id := range says {
		return nil, 0, tidemark.Invalidf("blob %.80q: is listed and does not come", id)
	}
	return put, bytes, nil
}

// sizeOf reads the record that lists a blob.
func sizeOf(r tidemark.Record) (int64, error) {
	var listed struct {
		Bytes int64 `json:"bytes"`
	}
	if err := json.Unmarshal(r.Body, &listed); err != nil || listed.Bytes < 0 {
		return 0, tidemark.Invalidf("blob %.80q: does not say how large it is", r.ID)
	}
	return listed.Bytes, nil
}

// countBlobs adds up what a user keeps, without those that are about to be replaced.
func countBlobs(ctx context.Context, be tidemark.Backend, without map[string]bool) (bytes int64, err error) {
	for r, err := range be.List(ctx, tidemark.Query{Kind: records.KindBlob, Order: tidemark.ByID}) {
		if err != nil {
			return 0, err
		}
		if r.Owner != "" || without[r.ID] {
			continue
		}
		if n, err := sizeOf(r); err == nil {
			bytes += n
		}
	}
	return bytes, nil
}
