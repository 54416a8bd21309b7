package agentsfleet

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// noMigrate asks agents-fleet to leave the transcript inside the session file.
const noMigrate = "AGENTS_FLEET_NO_MIGRATE"

// lineKeys come first on a line, as agents-fleet has them.
var lineKeys = []string{"role", "content", "name", "args", "timestamp"}

// export writes the workers, the transcript and last the session file, so that a
// session file always has everything that it names. The transcript is both in
// that file and beside it: an older agents-fleet reads the one, a newer the
// other.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	id := s.ForeignID
	if checkName(id) != nil {
		id = string(s.ID)
	}
	if err := checkName(id); err != nil {
		return nil, tidemark.Invalidf("session %.80q: %w", s.ForeignID, err)
	}
	fields, own := kept(s.Extra)
	w := &writer{ctx: ctx, out: out, id: id, lost: convert.Losses{}}
	w.listLost(s, own)
	known := rosterOf(fields["workers"])
	roster, err := w.workers(s.Workers, known)
	if err != nil {
		return nil, err
	}
	if len(roster) > len(known) {
		fields.set("workers", roster)
	}
	if n := fields.number("schemaVersion"); n > version {
		w.lost.Add(fmt.Sprintf("schema version %v: version %d was written, with all its fields", n, version))
	}
	fields.set("schemaVersion", version)
	fields.describe(s, id)
	// A path that is not clearly this session's might be another session's file.
	sibling := fields.text("transcriptPath")
	if checkName(sibling) != nil || !strings.HasPrefix(sibling, id+".") || !strings.HasSuffix(sibling, workerEnd) {
		sibling = id + siblingEnd
	}
	delete(fields, "transcriptPath")
	if v := out.Getenv(noMigrate); v != "" && v != "0" {
		sibling = ""
	} else {
		fields.set("transcriptPath", sibling)
	}
	if err := w.session(s, fields, sibling); err != nil {
		return nil, err
	}
	return w.lost.List(), nil
}

// describe adds the fields of the session itself.
func (o object) describe(s *convert.Session, id string) {
	o.offer("sessionId", id)
	if s.Title != "" && s.Title != o.text("title") {
		o.set("name", s.Title)
	}
	if s.Model != "" {
		o.set("model", s.Model)
	}
	if _, hidden := o[untimed]; !hidden && !s.CreatedAt.IsZero() {
		o.offer("createdAt", s.CreatedAt.UTC().Format(stamp))
	}
	_, unsaved := o[unsaid]
	delete(o, untimed)
	delete(o, unsaid)
	// Fields that were not in the file are made up only for a session that has
	// been continued.
	changed, _ := parseTime(o["updatedAt"])
	if !s.UpdatedAt.IsZero() && !s.UpdatedAt.Equal(changed) && !(unsaved && s.UpdatedAt.Equal(s.CreatedAt)) {
		o.set("updatedAt", s.UpdatedAt.UTC().Format(stamp))
	}
	if s.Project != "" && o["workingDirectory"] == nil && o["projectPath"] == nil {
		o.offer("cwd", s.Project)
	}
}

type writer struct {
	ctx  context.Context
	out  convert.Out
	id   string
	lost convert.Losses
}

func (w *writer) listLost(s *convert.Session, own bool) {
	for what, there := range map[string]bool{
		"labels":                                 len(s.Labels) > 0,
		"the checkpoint":                         len(s.Checkpoint) > 0,
		"files":                                  len(s.Files) > 0,
		"tags":                                   len(s.Tags) > 0,
		"mode " + s.Mode:                         s.Mode == tidemark.ModeRemote,
		"agent " + s.Agent:                       s.Agent != "" && s.Agent != toolName,
		"where it was forked":                    s.Fork != nil || s.Copied != "",
		"what other tools keep with the session": !own && saysSomething(s.Extra),
	} {
		if there {
			w.lost.Add(what)
		}
	}
}

// session writes the session file and the transcript beside it, "" for none.
func (w *writer) session(s *convert.Session, fields object, sibling string) error {
	var aside *sink
	if sibling != "" {
		var err error
		if aside, err = w.create(sibling); err != nil {
			return err
		}
	}
	file, err := w.create(w.id + jsonEnd)
	if err != nil {
		return aside.close(err)
	}
	err = w.fill(file, aside, s, fields)
	return file.close(aside.close(err))
}

func (w *writer) fill(file, aside *sink, s *convert.Session, fields object) error {
	roster := fields["workers"]
	delete(fields, "workers")
	open, err := fields.appendLine(nil, "schemaVersion", "sessionId", "name", "createdAt", "updatedAt", "model")
	if err != nil {
		return err
	}
	file.Write(open[:len(open)-1])
	file.WriteString(`,"transcript":[`)
	n := 0
	for line, err := range w.path(s.Entries, s.Head) {
		if err != nil {
			return err
		}
		if n > 0 {
			file.WriteString(",")
		}
		file.WriteString("\n")
		if _, err := file.Write(line); err != nil {
			return err
		}
		if aside != nil {
			aside.Write(line)
			aside.WriteByte('\n')
		}
		n++
	}
	file.WriteString(`],"msgCount":` + strconv.Itoa(n))
	if roster != nil {
		file.WriteString(`,"workers":`)
		file.Write(roster)
	}
	file.WriteString("}\n")
	return nil
}

// sink is a file being written. Its writer remembers the first error.
type sink struct {
	*bufio.Writer
	file convert.File
}

func (w *writer) create(name string) (*sink, error) {
	f, err := w.out.Create(name)
	if err != nil {
		return nil, err
	}
	return &sink{bufio.NewWriter(f), f}, nil
}

// close gives the file its name, or discards it when err is not nil. A nil sink
// passes err on.
func (s *sink) close(err error) error {
	if s == nil {
		return err
	}
	if err == nil {
		err = s.Flush()
	}
	if err != nil {
		s.file.CloseWithError(err)
		return err
	}
	return s.file.Close()
}

// path yields the lines of the entries on the path to head. A transcript here
// has one path; the others are counted as lost.
func (w *writer) path(entries iter.Seq2[convert.Entry, error], head string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		on, err := pathTo(entries, head)
		if err != nil {
			yield(nil, err)
			return
		}
		n := 0
		var line []byte
		for e, err := range entries {
			if err == nil {
				err = w.ctx.Err()
			}
			if convert.IsSkip(err) {
				w.lost.Add("damaged entries")
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			n++
			switch {
			case e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap:
				continue
			case on != nil && !on[n]:
				w.lost.Add("entries of other branches")
				continue
			}
			for _, o := range linesOf(e.Entry, w.lost) {
				line, err = o.appendLine(line[:0], lineKeys...)
				if err != nil {
					err = fmt.Errorf("entry %s: %w", e.ID, err)
				}
				if !yield(line, err) || err != nil {
					return
				}
			}
		}
	}
}

// pathTo returns the numbers of the entries on the path to head, nil for all.
func pathTo(entries iter.Seq2[convert.Entry, error], head string) (map[int]bool, error) {
	number, parents := map[string]int{}, []int{0}
	straight := true
	for e, err := range entries {
		if convert.IsSkip(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n := len(parents)
		parent := n - 1
		if e.Parent == convert.Root {
			parent = 0
		} else if p, known := number[e.Parent]; known {
			parent = p
		}
		straight = straight && parent == n-1
		number[e.ID] = n
		parents = append(parents, parent)
	}
	at, known := number[head]
	if !known {
		at = len(parents) - 1
	}
	if straight && at == len(parents)-1 {
		return nil, nil
	}
	on := map[int]bool{}
	for ; at > 0; at = parents[at] {
		on[at] = true
	}
	return on, nil
}

// workers writes the transcripts of the workers and returns the roster with all
// of them. Existing elements of the roster stay in it.
func (w *writer) workers(all []convert.Worker, roster []object) ([]object, error) {
	taken := map[string]bool{}
	at, names := map[string]int{}, names{}
	for i, r := range roster {
		if file := r.file(); checkName(file) == nil && !taken[file] {
			taken[file] = true
			at[names.unique(r.name(i))] = i
		}
	}
	for _, worker := range all {
		var file string
		if i, known := at[worker.Name]; known {
			file = roster[i].file()
			delete(at, worker.Name)
		} else {
			file = fileFor(worker.Name, taken)
			o := object{}
			o.set("agentId", worker.Name)
			o.set("transcriptPath", file)
			if worker.Call != "" {
				o.set("toolCallId", worker.Call)
			}
			roster = append(roster, o)
		}
		if err := w.worker(file, worker); err != nil {
			return nil, fmt.Errorf("worker %s: %w", worker.Name, err)
		}
	}
	return roster, nil
}

func (w *writer) worker(name string, worker convert.Worker) error {
	file, err := w.create(path.Join(w.id+workersEnd, name))
	if err != nil {
		return err
	}
	for line, lineErr := range w.path(worker.Entries, "") {
		if err = lineErr; err != nil {
			break
		}
		file.Write(line)
		file.WriteByte('\n')
	}
	return file.close(err)
}

// fileFor returns a file name for a worker that no other one has.
func fileFor(worker string, taken map[string]bool) string {
	file := fit(worker) + workerEnd
	for i := 2; taken[file]; i++ {
		file = fit(worker) + "-" + strconv.Itoa(i) + workerEnd
	}
	taken[file] = true
	return file
}
