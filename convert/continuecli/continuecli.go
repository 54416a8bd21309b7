// Package continuecli imports the sessions of Continue and its command line cn.
// It reads the folder sessions, and never the configuration beside it, which
// holds keys.
//
//	for s, err := range continuecli.Tool().Import(ctx, place) { … }
package continuecli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const name = "continue"

// Tool is Continue. It only imports.
func Tool() convert.Tool {
	return convert.Tool{
		Name: name, Title: "Continue", Homes: []string{".continue"},
		Detect: detect, Import: imports, Files: convert.FilesLike(".continue/sessions/*.json", "sessions/*.json", "*.json"),
	}
}

func detect(_ context.Context, p convert.Source) bool {
	files, _ := find(p)
	return convert.Sniff(files, func(file string) bool { return begins(p.FS, file) == nil })
}

// index is the list that the tool keeps beside its sessions.
const index = "sessions.json"

// find returns the session files below a folder: a home, its .continue, or the
// sessions in it. A file stands for itself.
func find(p convert.Source) (files []string, skips []error) {
	if !convert.IsDir(p.FS, p.Path) {
		return []string{p.Path}, nil
	}
	for _, below := range []string{".continue/sessions", "sessions", "."} {
		dir := path.Join(p.Path, below)
		list, err := fs.ReadDir(p.FS, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, []error{&convert.Skip{What: dir, Why: err}}
		}
		for _, d := range list {
			f := path.Join(dir, d.Name())
			if d.Type().IsRegular() && path.Ext(f) == ".json" && d.Name() != index && (below != "." || isOurs(f)) {
				files = append(files, f)
			}
		}
		if len(files) > 0 {
			break
		}
	}
	return files, skips
}

// isOurs reports, by its name, whether a file in an arbitrary folder is a
// session. Files of other names are not opened: one may hold a key.
func isOurs(file string) bool {
	_, err := tidemark.ParseSessionID(strings.TrimSuffix(path.Base(file), ".json"))
	return err == nil || path.Base(path.Dir(file)) == "sessions"
}

// begins returns, from its first bytes, why a file is not a session.
func begins(fsys fs.FS, file string) error {
	b, err := convert.Head(fsys, file, 1<<12)
	if err != nil {
		return err
	}
	if b = bytes.TrimSpace(b); b[0] != '{' || !bytes.Contains(b, []byte(`"sessionId"`)) ||
		!bytes.Contains(b, []byte(`"workspaceDirectory"`)) && !bytes.Contains(b, []byte(`"history"`)) {
		return tidemark.Invalidf("does not begin like a session of Continue")
	}
	return nil
}

// session is a file as the tool writes it.
type session struct {
	SessionID          string          `json:"sessionId"`
	Title              string          `json:"title"`
	WorkspaceDirectory string          `json:"workspaceDirectory"`
	History            []item          `json:"history"`
	Usage              json.RawMessage `json:"usage"`
}

func read(fsys fs.FS, file string) (*session, map[string]json.RawMessage, error) {
	if err := begins(fsys, file); err != nil {
		return nil, nil, err
	}
	b, err := convert.ReadFile(fsys, file)
	if err != nil {
		return nil, nil, err
	}
	var s session
	if err := convert.Loose(b, &s); err != nil {
		return nil, nil, tidemark.Invalidf("not JSON: %w", err)
	}
	if s.SessionID == "" {
		return nil, nil, tidemark.Invalidf("has no session id")
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, nil, tidemark.Invalidf("not JSON: %w", err)
	}
	for _, k := range []string{"sessionId", "title", "workspaceDirectory", "history"} {
		delete(fields, k)
	}
	return &s, fields, nil
}

// survey is what one reading of a file tells about the session.
type survey struct {
	file             string
	created, updated time.Time
	out              *convert.Session
	sums             [][32]byte // of the items of the history
	inherited        int        // items whose cost the session does not count as its own
}

func imports(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	// All files of a Source are in one folder, and so is their list.
	made := map[string]map[string]time.Time{}
	look := func(file string) (*survey, error) {
		list := path.Join(path.Dir(file), index)
		if _, ok := made[list]; !ok {
			made[list] = dates(p.FS, list)
		}
		return look(p.FS, file, made[list])
	}
	return convert.Survey(ctx, p, find, look, func(found []*survey) iter.Seq[*convert.Session] {
		return convert.Each(link(found), func(s *survey) *convert.Session { return s.out })
	})
}

// dates reads the creation times of sessions, which are not in the sessions
// themselves.
func dates(fsys fs.FS, file string) map[string]time.Time {
	b, err := convert.ReadFile(fsys, file)
	if err != nil {
		return nil
	}
	var list []struct {
		SessionID   string
		DateCreated json.RawMessage
	}
	if convert.Loose(b, &list) != nil {
		return nil
	}
	all := map[string]time.Time{}
	for _, l := range list {
		ms, err := strconv.ParseInt(strings.Trim(string(l.DateCreated), `"`), 10, 64)
		if t := time.UnixMilli(ms).UTC(); err == nil && ms > 0 && t.Year() < 10000 {
			all[l.SessionID] = t
		}
	}
	return all
}

func look(fsys fs.FS, file string, dates map[string]time.Time) (*survey, error) {
	in, fields, err := read(fsys, file)
	if err != nil {
		return nil, err
	}
	s := &survey{file: file, created: dates[in.SessionID], out: &convert.Session{}}
	if info, err := fs.Stat(fsys, file); err == nil {
		s.updated = info.ModTime().UTC().Truncate(time.Microsecond)
	}
	for _, it := range in.History {
		s.sums = append(s.sums, sha256.Sum256(it.Message))
	}
	s.inherited = inherited(in)
	out := s.out
	out.ForeignID, out.Agent, out.Title, out.Project = in.SessionID, name, in.Title, folder(in.WorkspaceDirectory)
	if out.Title == "Untitled Session" {
		out.Title = "" // the tool's name for every session without a title
	}
	out.CreatedAt, out.UpdatedAt = s.created, s.updated
	if out.CreatedAt.IsZero() {
		out.CreatedAt = s.updated
	}
	for _, it := range slices.Backward(in.History) {
		if m := it.parse(); m.Usage.Model != "" {
			out.Model = m.Usage.Model
			break
		}
	}
	if len(fields) > 0 {
		out.Extra, _ = json.Marshal(map[string]any{name: fields})
	}
	out.Entries = s.entries(fsys)
	return s, nil
}

// folder is a path: an editor gives it as a URL.
func folder(dir string) string {
	if u, err := url.Parse(dir); err == nil && u.Scheme == "file" {
		return u.Path
	}
	return dir
}

// inherited counts the items at the beginning that another session has paid for.
// A fork copies the history of its source, without a link, but counts only its
// own tokens.
func inherited(in *session) int {
	var total struct{ PromptTokens, CompletionTokens int64 }
	if convert.Loose(in.Usage, &total) != nil || total.PromptTokens <= 0 {
		return 0
	}
	var prompt, completion int64
	for n, it := range slices.Backward(in.History) {
		u := it.parse().Usage
		prompt += u.PromptTokens
		completion += u.CompletionTokens
		if u.PromptTokens > 0 && prompt == total.PromptTokens && completion == total.CompletionTokens {
			for n > 0 && it.parse().Role != "user" {
				n--
				it = in.History[n]
			}
			return n
		}
	}
	return 0
}

// link finds the sources of forks, and puts them first. The last item that a
// fork inherited is its source's own, so a source has inherited less.
func link(found []*survey) []*survey {
	slices.SortStableFunc(found, func(a, b *survey) int {
		return cmp.Or(cmp.Compare(a.inherited, b.inherited), a.created.Compare(b.created), cmp.Compare(a.file, b.file))
	})
	byStart := map[[32]byte][]*survey{}
	seen := map[string]bool{}
	var all []*survey
	for _, s := range found {
		if seen[s.out.ForeignID] {
			continue
		}
		seen[s.out.ForeignID] = true
		all = append(all, s)
		if len(s.sums) == 0 {
			continue
		}
		for _, source := range byStart[s.sums[0]] {
			if source.inherited < s.inherited && len(source.sums) >= s.inherited &&
				slices.Equal(source.sums[:s.inherited], s.sums[:s.inherited]) {
				s.out.Copied = source.out.ForeignID
				break
			}
		}
		byStart[s.sums[0]] = append(byStart[s.sums[0]], s)
	}
	return all
}
