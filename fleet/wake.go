package fleet

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
)

// A fleet goes on by itself with two kinds of sessions: with what its own
// agents asked for while they ran, which it knows by a MAC under its key; and
// with chats of the person whose fleet it is, whose wakes that person granted.
// What anybody else wrote into the store wakes nobody. Schedules that are not in
// its file are known by the same key.

// Key is the secret of a fleet. Nodes that share a store share it.
type Key []byte

// The key and its lock in the state folder of the user.
const (
	keyFile  = "fleet.key"
	keyLock  = "fleet.lock"
	keyBytes = 32
)

// OpenKey reads the key of the fleet in a folder, and makes one where there is
// none. One that others can read or write is refused.
func OpenKey(dir string) (Key, error) {
	if err := durable.MakeDir(dir); err != nil {
		return nil, tidemark.Storagef("the key of the fleet: %w", err)
	}
	lock, err := durable.OpenLock(filepath.Join(dir, keyLock))
	if err != nil {
		return nil, tidemark.Storagef("the key of the fleet: %w", err)
	}
	defer lock.Close()
	if err := lock.Acquire(context.Background()); err != nil {
		return nil, err
	}
	in, err := durable.OpenDir(dir)
	if err != nil {
		return nil, tidemark.Storagef("the key of the fleet: %w", err)
	}
	defer in.Close()
	name := filepath.Join(dir, keyFile)
	err = durable.OursAlone(name)
	if errors.Is(err, fs.ErrNotExist) {
		fresh := make([]byte, keyBytes)
		rand.Read(fresh)
		_ = in.Remove(keyFile + ".tmp") // of one who died while writing; Replace says what is in its way
		err = durable.Replace(in, keyFile+".tmp", keyFile, []byte(hex.EncodeToString(fresh)+"\n"))
		if err != nil {
			return nil, tidemark.Storagef("the key of the fleet: %w", err)
		}
	} else if err != nil {
		return nil, tidemark.Deniedf("the key of the fleet: %w", err)
	}
	text, err := durable.ReadFile(in, keyFile)
	if err != nil {
		return nil, tidemark.Storagef("the key of the fleet: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, tidemark.Invalidf("%s is not the key of a fleet: want %d bytes in hexadecimal", name, keyBytes)
	}
	return key, nil
}

// ReadKey reads the key of the fleet in a folder; nil where no fleet was up yet.
func ReadKey(dir string) (Key, error) {
	if _, err := os.Lstat(filepath.Join(dir, keyFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return OpenKey(dir)
}

// Sign returns a wake with its MAC.
func (k Key) Sign(w store.Wake) store.Wake {
	w.At = w.At.UTC().Truncate(time.Second)
	w.MAC = k.mac(w)
	return w
}

// Signed reports whether this fleet made a wake.
func (k Key) Signed(w store.Wake) bool {
	return len(k) == keyBytes && hmac.Equal([]byte(w.MAC), []byte(k.mac(w)))
}

func (k Key) mac(w store.Wake) string {
	return k.over("tidemark wake 1", string(w.Session), w.Agent, w.At.UTC().Format(time.RFC3339Nano))
}

// SignSchedule returns a schedule that no file has with its MAC. It covers what
// is done and how often; where it stands changes with every run.
func (k Key) SignSchedule(s tidemark.Schedule) tidemark.Schedule {
	s.MAC = k.scheduleMAC(s)
	return s
}

// SignedSchedule reports whether a person or an agent of this fleet made a
// schedule, or a person accepted it.
func (k Key) SignedSchedule(s tidemark.Schedule) bool {
	return len(k) == keyBytes && hmac.Equal([]byte(s.MAC), []byte(k.scheduleMAC(s)))
}

func (k Key) scheduleMAC(s tidemark.Schedule) string {
	return k.over("tidemark schedule 1", s.Agent, s.Name, s.By, s.Type, s.Every, s.Cron, s.Zone, s.Jitter, s.Missed, s.Overlap, s.From,
		s.Prompt, s.Session, strconv.FormatBool(s.Resume), strconv.FormatBool(s.Once))
}

func (k Key) over(texts ...string) string {
	// A list of texts is the same in JSON only when each of them is.
	said, err := json.Marshal(texts)
	if err != nil {
		return ""
	}
	h := hmac.New(sha256.New, k)
	h.Write(said)
	return hex.EncodeToString(h.Sum(nil))
}

// wokenPrompt is what an agent is told whose timer fired.
const wokenPrompt = "The timer that you set has fired. Go on with what you were at."

// wakeAgents makes jobs of the wakes that agents of this fleet asked for: they
// run as every job does, with the permissions, the environment and the folder
// of their agent.
func (d *Daemon) wakeAgents(ctx context.Context, now time.Time) error {
	if d.o.Key == nil {
		return nil
	}
	due, err := d.o.Store.DueWakes(ctx, now)
	if err != nil {
		return err
	}
	for _, w := range due {
		// When the row says it is due is not signed, and the wake's own time is.
		if _, ok := d.agent(w.Agent); !ok || !d.o.Key.Signed(w) || w.At.After(now) {
			continue // that of another fleet, or of nobody, or not yet
		}
		j := tidemark.Job{Agent: w.Agent, Trigger: tidemark.TriggerSchedule, Prompt: wokenPrompt, SessionID: string(w.Session)}
		if d.wentOn(ctx, w) {
			j = tidemark.Job{}
		}
		j, err := d.o.Store.TakeWake(ctx, w, j)
		switch {
		case errors.Is(err, tidemark.ErrConflict):
			continue // another daemon was quicker
		case err != nil:
			return err
		case j.Agent == "":
			continue
		}
		d.o.Tell(w.Agent, fmt.Sprintf("session %.8s is woken as %s", w.Session, j.ID))
		if err := d.o.Dispatch.Added(ctx, []tidemark.Job{j}); err != nil {
			return err
		}
	}
	return nil
}

// wentOn reports whether a session was gone on with since its timer fired: then
// the wake was done, and is here once more because somebody put it back.
func (d *Daemon) wentOn(ctx context.Context, w store.Wake) bool {
	for j, err := range d.o.Store.Jobs(ctx, store.JobFilter{Agent: w.Agent, Limit: recentJobs}) {
		if err == nil && j.SessionID == string(w.Session) && !j.StartedAt.Before(w.At) {
			return true
		}
	}
	return false
}
