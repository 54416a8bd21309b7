package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/jackc/pgx/v5"
)

// bareServer is the least that a server with a database can be, and so the limit
// of the machine: a handler that reads a body and answers when it is in a table.
// Whatever waits at the same time is one INSERT over one connection. Nobody is
// authenticated, nothing is decoded, and no rule is kept.
type bareServer struct {
	*httptest.Server
	conn *pgx.Conn

	mu      sync.Mutex
	waiting [][]byte
	done    *insert // what those who wait now wait for
	busy    bool
}

// insert is one INSERT; err is set when ready is closed.
type insert struct {
	ready chan struct{}
	err   error
}

const barelyServed = "a bare handler and a bare INSERT of what waits"

// serveBare starts one; the caller closes it.
func (t *teamPlace) serveBare(ctx context.Context) (*bareServer, error) {
	conn, err := pgx.Connect(ctx, t.db.Super)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, tables); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	s := &bareServer{conn: conn}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = s.keep(ctx, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"seqs":[1]}`))
	}))
	return s, nil
}

// keep returns when a body is durable.
func (s *bareServer) keep(ctx context.Context, body []byte) error {
	s.mu.Lock()
	if s.done == nil {
		s.done = &insert{ready: make(chan struct{})}
	}
	mine := s.done
	s.waiting = append(s.waiting, body)
	if !s.busy {
		s.busy = true
		go s.insert(ctx)
	}
	s.mu.Unlock()
	<-mine.ready
	return mine.err
}

// insert inserts until nothing waits.
func (s *bareServer) insert(ctx context.Context) {
	for {
		s.mu.Lock()
		bodies, one := s.waiting, s.done
		s.waiting, s.done = nil, nil
		s.busy = one != nil
		s.mu.Unlock()
		if one == nil {
			return
		}
		_, one.err = s.conn.Exec(ctx, `insert into bare (log, body) select 0, unnest($1::bytea[])`, bodies)
		close(one.ready)
	}
}

func (s *bareServer) close() {
	s.Close()
	s.conn.Close(context.Background())
}
