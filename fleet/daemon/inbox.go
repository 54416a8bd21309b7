package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// An agent with a schedule of type chat has an inbox, the folder inbox/AGENT: a
// file NAME.txt or NAME.md in it becomes a job. No crash may lose one or make
// two jobs of it, so it goes three steps:
//
//  1. It is renamed to NAME.txt.TOKEN.taken, and that is synced. From here on
//     the token, which was never used before, stands for this one message.
//  2. A job is made that has the token as its delivery, unless there is one.
//  3. It is renamed to NAME.txt.TOKEN.processed, and is not looked at again.
//
// A crash between two steps leaves a .taken file, with which the next round
// goes on at step 2. Daemons that share the folder do no harm to each other: a
// rename succeeds once, and so does step 2.
const (
	endTaken     = ".taken"
	endProcessed = ".processed"
	endRefused   = ".refused" // what cannot become a job
	endSkipped   = ".skipped" // what the overlap of the schedule skips
)

const (
	// settles is how long a file must have been left alone before it is
	// taken, for those who write into the inbox itself. Who moves a finished
	// file there needs no such luck.
	settles = time.Second
	// maxInboxName bounds what is kept of a file's name, so that there is room
	// for the token.
	maxInboxName = 180
)

// inbox makes jobs of the files in the inboxes below a folder, and makes the
// inboxes of agents that the file gives a schedule of type chat. An inbox with
// which something is wrong does not keep it from the others; what was returned
// in the last round already is not returned again. No store is asked while
// there is nothing in the inboxes.
func (g *endpoints) inbox(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	err := g.inboxes(ctx, filepath.Join(dir, "inbox"))
	before := g.lastInbox
	if g.lastInbox = ""; err != nil {
		g.lastInbox = err.Error()
	}
	if g.lastInbox == before {
		return nil
	}
	return err
}

func (g *endpoints) inboxes(ctx context.Context, dir string) error {
	g.of.mu.Lock()
	agents := g.of.file.Agents
	g.of.mu.Unlock()
	found, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := make(map[string]bool)
	for _, f := range found {
		there[f.Name()] = true
	}
	var errs []error
	for _, a := range agents {
		var err error
		switch {
		case there[a.Name]:
			err = g.empty(ctx, filepath.Join(dir, a.Name), a.Name)
		case slices.ContainsFunc(a.Schedules, func(s file.Schedule) bool { return s.Type == fleet.TypeChat }):
			err = durable.MakeDir(filepath.Join(dir, a.Name))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("inbox of %s: %w", a.Name, err))
		}
	}
	return errors.Join(errs...)
}

// empty makes jobs of the files in one inbox. Those of an agent that nobody can
// write to stay where they are.
func (g *endpoints) empty(ctx context.Context, folder, agent string) error {
	box, err := durable.OpenDir(folder)
	if err != nil {
		return err
	}
	defer box.Close()
	files, err := fs.ReadDir(box.ReadOnly(), ".")
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool {
		return !f.Type().IsRegular() || strings.HasPrefix(f.Name(), ".") || !isMessage(f.Name()) && !strings.HasSuffix(f.Name(), endTaken)
	})
	if len(files) == 0 {
		return nil
	}
	s, err := g.of.o.Store.ChatSchedule(ctx, agent)
	if err != nil || s.Name == "" || s.Status == tidemark.Disabled {
		return err
	}
	if _, ok := g.of.held(s); !ok {
		return nil
	}
	var errs []error
	for _, f := range files {
		if err := g.file(ctx, box, f, s); err != nil && !errors.Is(err, fs.ErrNotExist) { // another daemon was quicker
			errs = append(errs, fmt.Errorf("%s: %w", f.Name(), err))
		}
	}
	return errors.Join(errs...)
}

func isMessage(name string) bool { return path.Ext(name) == ".txt" || path.Ext(name) == ".md" }

// file does what there is to do with one file of an inbox.
func (g *endpoints) file(ctx context.Context, box *durable.Dir, f fs.DirEntry, s tidemark.Schedule) error {
	taken := f.Name()
	look := 0 // it may have been left at any time
	if isMessage(taken) {
		info, err := f.Info()
		if err != nil {
			return err
		}
		if age := g.of.o.Now().Sub(info.ModTime()); age >= 0 && age < settles {
			return nil
		}
		taken = short(f.Name()) + "." + rand.Text() + endTaken
		if err := box.Rename(f.Name(), taken); err != nil {
			return err
		}
		// Were the rename undone by a power cut after the job was made, the
		// same file would be taken again under another token.
		if err := box.SyncDir("."); err != nil {
			return err
		}
		look = deliveriesKept
	}
	stem, isTaken := strings.CutSuffix(taken, endTaken)
	token := strings.TrimPrefix(path.Ext(stem), ".")
	if !isTaken || len(token) != len(rand.Text()) {
		return nil // not a name of ours
	}
	return g.deliver(ctx, box, stem, token, look, s)
}

// deliver makes a job of a file that was taken, and puts the file away.
func (g *endpoints) deliver(ctx context.Context, box *durable.Dir, stem, token string, look int, s tidemark.Schedule) error {
	info, err := box.Stat(stem + endTaken)
	if err != nil {
		return err
	}
	if info.Size > maxIncoming {
		g.of.o.Tell(s.Agent, fmt.Sprintf("inbox: %s has %d bytes, at most %d are allowed; it is %s now", stem, info.Size, maxIncoming, stem+endRefused))
		return box.Rename(stem+endTaken, stem+endRefused)
	}
	text, err := durable.ReadFile(box, stem+endTaken)
	if err != nil {
		return err
	}
	in := fleet.Trigger{Agent: s.Agent, Schedule: s.Name, Type: tidemark.TriggerChat, Look: look,
		Text: func(prompt string) string { return fleet.Message(prompt, strings.ToValidUTF8(string(text), "\uFFFD")) },
		ID:   token, File: strings.ToValidUTF8(strings.TrimSuffix(stem, "."+token), "\uFFFD")}
	got, err := g.receive(ctx, in)
	switch {
	case err != nil:
		return err
	case got.Skipped != "":
		return box.Rename(stem+endTaken, stem+endSkipped)
	}
	return box.Rename(stem+endTaken, stem+endProcessed)
}

// short cuts a name that is too long to get an ending, and keeps its own.
func short(name string) string {
	ext := path.Ext(name)
	if len(name) <= maxInboxName || len(ext) > maxInboxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxInboxName-len(ext)], "") + ext
}
