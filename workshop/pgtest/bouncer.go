package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// bouncerFile is the configuration of a pooler that hands a server connection
// to another client after every transaction. Few connections for many clients
// make sure that it does. Settings that a driver requests at the start of a
// connection are refused, as they are by poolers that others run.
const bouncerFile = `[databases]
%[1]s = host=%[2]s port=5432 dbname=%[1]s
[pgbouncer]
unix_socket_dir = %[3]s
listen_port = 5432
auth_type = trust
auth_file = %[3]s/users
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
logfile = %[3]s/log
pidfile = %[3]s/pid
`

// Bouncer returns the URL of db, for the role of Server, through a pgbouncer
// in transaction mode that ends with the test. Without pgbouncer on this
// machine the test is skipped, or fails when the environment says CI=true.
func Bouncer(t testing.TB, db *Database) string {
	t.Helper()
	program := bouncerProgram()
	if program == "" {
		without(t, "there is no pgbouncer on this machine")
	}
	dir, err := folder(db.cluster.as, onDisk())
	if err != nil {
		t.Fatal(err)
	}
	guard, err := watch(dir, "KILL")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.end)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := db.cluster.as.own(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("users", fmt.Sprintf("%q \"\"\n", db.Role))
	cmd := command(db.cluster.as, dir, program, "-q", write("ini", fmt.Sprintf(bouncerFile, db.Name, db.cluster.dir, dir)))
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard.mind(cmd.Process.Pid)
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	there := address(dir, db.Role, db.Name)
	if err := bounces(there, ended); err != nil {
		guard.end()
		<-ended
		t.Fatalf("pgbouncer: %v\n%s", err, out.String())
	}
	return there
}

func bouncerProgram() string {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	return ""
}

// bounces waits until the pooler answers.
func bounces(there string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	u, err := url.Parse(there)
	if err != nil {
		return err
	}
	q := u.Query()
	q.Set("default_query_exec_mode", "simple_protocol")
	u.RawQuery = q.Encode()
	for {
		conn, err := pgx.Connect(ctx, u.String())
		if err == nil {
			_, err = conn.Exec(ctx, "select 1")
			conn.Close(ctx)
			if err == nil {
				return nil
			}
		}
		select {
		case <-ended:
			return fmt.Errorf("ended at once: %w", err)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
