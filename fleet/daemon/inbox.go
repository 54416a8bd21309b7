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

// An agent with a schedule of type chat has an inbox, the folder inbox/AGENT: each
// file NAME.txt or NAME.md in it becomes a job. No crash may lose a file or make two
// jobs of it, so this takes three steps:
//
//  1. The file is renamed to NAME.txt.TOKEN.taken, and that is synced. From here on
//     the token, which is new, identifies this message.
//  2. A job is created that has the token as its delivery, unless there is one.
//  3. The file is renamed to NAME.txt.TOKEN.processed, and not looked at again.
//
// A crash between two steps leaves a .taken file, and the next round continues at
// step 2. Several daemons may share the folder: a rename succeeds only for one of
// them, and so does step 2.
const (
	endTaken     = ".taken"
	endProcessed = ".processed"
	endRefused   = ".refused" // it cannot become a job
	endSkipped   = ".skipped" // the schedule's overlap setting skipped it
)

const (
	// settles is how long a file has to be unchanged before it is taken, since
	// somebody may still be writing it. To be safe, people move a complete file
	// into the inbox.
	settles = time.Second
	// maxInboxName bounds how much of a file's name is kept, to leave room for the
	// token.
	maxInboxName = 180
)

// inbox creates jobs for the files in the inboxes below a folder, and creates the
// inboxes of agents that have a schedule of type chat in the file. An error with one
// inbox does not stop the others, and the same error as in the last round is not
// returned again. The store is not read while the inboxes are empty.
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
			err = g.takeMessages(ctx, filepath.Join(dir, a.Name), a.Name)
		case slices.ContainsFunc(a.Schedules, func(s file.Schedule) bool { return s.Type == fleet.TypeChat }):
			err = durable.MakeDir(filepath.Join(dir, a.Name))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("inbox of %s: %w", a.Name, err))
		}
	}
	return errors.Join(errs...)
}

// takeMessages creates jobs for the files in one inbox. If the agent has no chat
// schedule, or that is disabled or not trusted, the files stay where they are.
func (g *endpoints) takeMessages(ctx context.Context, folder, agent string) error {
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
	if _, ok := g.of.trusted(s); !ok {
		return nil
	}
	var errs []error
	for _, f := range files {
		if err := g.takeFile(ctx, box, f, s); err != nil && !errors.Is(err, fs.ErrNotExist) { // another daemon was quicker
			errs = append(errs, fmt.Errorf("%s: %w", f.Name(), err))
		}
	}
	return errors.Join(errs...)
}

func isMessage(name string) bool { return path.Ext(name) == ".txt" || path.Ext(name) == ".md" }

// takeFile does the steps that are left for one file of an inbox.
func (g *endpoints) takeFile(ctx context.Context, box *durable.Dir, f fs.DirEntry, s tidemark.Schedule) error {
	taken := f.Name()
	look := 0 // search all jobs: a .taken file may have been left at any time
	if isMessage(taken) {
		info, err := f.Info()
		if err != nil {
			return err
		}
		if age := g.of.o.Now().Sub(info.ModTime()); age >= 0 && age < settles {
			return nil
		}
		taken = shortName(f.Name()) + "." + rand.Text() + endTaken
		if err := box.Rename(f.Name(), taken); err != nil {
			return err
		}
		// If a power cut undid the rename after the job was created, the same file
		// would be taken again under another token.
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

// deliver creates a job for a file that was taken, and renames the file accordingly.
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

// shortName cuts a name that is too long for more endings, and keeps its extension.
func shortName(name string) string {
	ext := path.Ext(name)
	if len(name) <= maxInboxName || len(ext) > maxInboxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxInboxName-len(ext)], "") + ext
}
