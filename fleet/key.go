package fleet

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Key is the secret of a fleet. Nodes that share a store share it.
type Key []byte

// The key and its lock in the state folder of the user.
const (
	keyFile  = "fleet.key"
	keyLock  = "fleet.lock"
	KeyBytes = 32
)

// OpenKey reads the key of the fleet in a folder, and creates it if there is
// none. It refuses a key that other users can read or write.
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
		fresh := make([]byte, KeyBytes)
		rand.Read(fresh)
		_ = in.Remove(keyFile + ".tmp") // left by a process that died while writing; if this fails, Replace returns the error
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
	if err != nil || len(key) != KeyBytes {
		return nil, tidemark.Invalidf("%s is not the key of a fleet: want %d bytes in hexadecimal", name, KeyBytes)
	}
	return key, nil
}

// ReadKey reads the key of the fleet in a folder; nil if there is none, because
// no fleet has run here yet.
func ReadKey(dir string) (Key, error) {
	if _, err := os.Lstat(filepath.Join(dir, keyFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return OpenKey(dir)
}

// SignSchedule returns a schedule that is in no fleet file with its MAC. The MAC
// covers what runs and when, and leaves out what changes with every run.
func (k Key) SignSchedule(s tidemark.Schedule) tidemark.Schedule {
	s.MAC = k.MAC(scheduleText(s)...)
	return s
}

// SignedSchedule reports whether a person or an agent of this fleet made a
// schedule, or a person accepted it.
func (k Key) SignedSchedule(s tidemark.Schedule) bool {
	return k.Verify(s.MAC, scheduleText(s)...)
}

// Proposed reports whether a schedule was neither made by this fleet nor
// accepted. Without a key a MAC cannot be checked, so a signed schedule counts as
// accepted.
func (k Key) Proposed(s tidemark.Schedule) bool {
	return s.By != ByFile && (s.MAC == "" || k != nil) && !k.SignedSchedule(s)
}

func scheduleText(s tidemark.Schedule) []string {
	return []string{"tidemark schedule 1", s.Agent, s.Name, s.By, s.Type, s.Every, s.Cron, s.Zone, s.Jitter, s.Missed, s.Overlap, s.From,
		s.Prompt, s.Session, strconv.FormatBool(s.Resume), strconv.FormatBool(s.Once)}
}

// MAC authenticates a list of texts: only an owner of the key can make it. The
// first text names the kind of list.
func (k Key) MAC(texts ...string) string {
	// Lists that differ in any text also differ in JSON.
	encoded, err := json.Marshal(texts)
	if err != nil {
		return ""
	}
	h := hmac.New(sha256.New, k)
	h.Write(encoded)
	return hex.EncodeToString(h.Sum(nil))
}

// Verify reports whether mac is the MAC of a list of texts under this key. It is
// always false for a nil key.
func (k Key) Verify(mac string, texts ...string) bool {
	return len(k) == KeyBytes && hmac.Equal([]byte(mac), []byte(k.MAC(texts...)))
}
