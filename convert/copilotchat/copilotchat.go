// Package copilotchat imports the chats of VS Code and the editors made from it:
// GitHub Copilot Chat, and other models in the same panel. A chat is a file, JSON
// in earlier versions and later a log of changes to it. It reads chats and the
// names of their workspaces, and neither settings nor secrets, and writes nothing.
// It was built from the source of VS Code and descriptions, without chats to
// compare with.
//
//	for s, err := range copilotchat.Tool().Import(ctx, place) { … }
package copilotchat

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"iter"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// name is the name of the tool, and its key in Extra.
const name = "copilot-chat"

// Tool returns the converter of chats in VS Code.
func Tool() convert.Tool {
	return convert.Tool{Name: name, Title: "VS Code Copilot Chat", Homes: homes(), Detect: detect, Import: importAll, Files: convert.FilesLike(listed()...)}
}

// homes are the user folders of the editors that keep chats in the same way, on
// Linux, macOS and Windows, and on the far side of a remote window.
func homes() (all []string) {
	for _, editor := range []string{"Code", "Code - Insiders", "VSCodium", "Positron"} {
		all = append(all, ".config/"+editor+"/User", "Library/Application Support/"+editor+"/User", "AppData/Roaming/"+editor+"/User")
	}
	return append(all, ".vscode-server/data/User")
}

// folders are where chats are in a user folder, or below it.
var folders = []string{"workspaceStorage/*/chatSessions", "globalStorage/emptyWindowChatSessions", "globalStorage/transferredChatSessions", "*/chatSessions", "chatSessions"}

// places are where a Source may have chats.
func places() []string {
	all := slices.Clone(folders)
	for _, home := range homes() {
		for _, folder := range folders[:3] {
			all = append(all, path.Join(home, folder))
		}
	}
	return append(all, ".")
}

// listed are the chats in all these places, and beside their folders the names of
// the workspaces.
func listed() (patterns []string) {
	for _, place := range places() {
		patterns = append(patterns, path.Join(place, "*.json*"))
		if strings.HasSuffix(place, "/chatSessions") {
			patterns = append(patterns, path.Join(path.Dir(place), "workspace.json"))
		}
	}
	return append(patterns, "workspace.json")
}

// find returns the files of a Source: a home folder, a user folder, one below it,
// the folder of a workspace, of chats, or one file. A chat that is there in both
// forms is taken from the later one.
func find(p convert.Source) (files []string, skips []error) {
	if convert.IsFile(p.FS, p.Path) {
		return []string{p.Path}, nil
	}
	chosen := map[string]string{}
	for _, pattern := range places() {
		found, bad := convert.Match(p.FS, p.Path, path.Join(pattern, "*.json*"))
		skips = append(skips, bad...)
		for _, file := range found {
			if pattern == "." && !begins(p.FS, file) {
				continue // it may be any folder
			}
			stem := strings.TrimSuffix(strings.TrimSuffix(file, ".jsonl"), ".json")
			if ext := path.Ext(file); ext == ".jsonl" || ext == ".json" && chosen[stem] == "" {
				chosen[stem] = file
			}
		}
	}
	for _, file := range chosen {
		files = append(files, file)
	}
	slices.Sort(files)
	return files, skips
}

// begins reports whether a file begins like a chat.
func begins(fsys fs.FS, file string) bool {
	b, err := convert.Head(fsys, file, 256<<10)
	b = bytes.TrimSpace(b)
	return err == nil && bytes.HasPrefix(b, []byte("{")) && bytes.Contains(b, []byte(`"sessionId"`)) && bytes.Contains(b, []byte(`"requests"`)) &&
		(bytes.HasPrefix(b, []byte(`{"kind":0,`)) || path.Ext(file) == ".json")
}

func detect(_ context.Context, p convert.Source) bool {
	files, _ := find(p)
	return convert.Sniff(files, func(file string) bool { return begins(p.FS, file) })
}

// chat is a chat as its file leaves it.
type chat struct {
	file, id string
	fields   convert.Object
	created  time.Time
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	look := func(file string) (*chat, error) { return look(ctx, p.FS, file) }
	return convert.Survey(ctx, p, find, look, func(found []*chat) iter.Seq[*convert.Session] {
		found = convert.InOrder(found, func(c *chat) convert.Identity { return convert.Identity{ID: c.id, CreatedAt: c.created} })
		return convert.Each(found, func(c *chat) *convert.Session { return c.session(ctx, p.FS) })
	})
}

// look reads a chat for what must be known before its entries; its requests are
// read again for those.
func look(ctx context.Context, fsys fs.FS, file string) (*chat, error) {
	log, err := replay(ctx, fsys, file)
	if err != nil {
		return nil, err
	}
	c := &chat{file: file, fields: log.fields}
	if c.id = c.fields.Text("sessionId"); c.id == "" {
		return nil, tidemark.Invalidf("is no chat")
	}
	c.created = convert.Milli(c.fields.Number("creationDate"))
	if list := c.fields.List("requests"); len(list) > 0 {
		last := asObject(list[len(list)-1])
		c.fields.Set("model", modelOf(last))
	}
	delete(c.fields, "requests")
	return c, tidemark.CheckID(c.id)
}

func (c *chat) session(ctx context.Context, fsys fs.FS) *convert.Session {
	provider, _, _ := strings.Cut(c.fields.Text("model"), "/")
	s := &convert.Session{
		Session: tidemark.Session{ForeignID: c.id, Agent: name, Title: c.fields.Text("customTitle"), Model: c.fields.Text("model"), Mode: convert.ModeOf(provider), Project: workspace(fsys, c.file), CreatedAt: c.created,
			// What is typed and not sent, and who typed it, is nobody's business here.
			Extra: convert.Keep(name, c.fields.Without("sessionId", "customTitle", "creationDate", "lastMessageDate", "requests", "inputState", "requesterUsername", "requesterAvatarIconUri", "model"))},
		UpdatedAt: cmp.Or(convert.Milli(c.fields.Number("lastMessageDate")), c.created),
	}
	s.Entries = func(yield func(convert.Entry, error) bool) {
		log, err := replay(ctx, fsys, c.file)
		if err != nil {
			yield(convert.Entry{}, &convert.Skip{What: c.file, Why: err})
			return
		}
		for _, skip := range log.skips {
			if !yield(convert.Entry{}, skip) {
				return
			}
		}
		for _, e := range entries(log) {
			if !yield(e, nil) {
				return
			}
		}
	}
	return s
}

// workspace returns the folder that a chat was about; "": none, or several.
func workspace(fsys fs.FS, file string) string {
	b, err := convert.ReadFile(fsys, path.Join(path.Dir(path.Dir(file)), "workspace.json"))
	if err != nil {
		return ""
	}
	u, err := url.Parse(convert.Field(b, "folder"))
	if err != nil || u.Scheme != "file" {
		return ""
	}
	if drive := strings.TrimPrefix(u.Path, "/"); len(drive) > 1 && drive[1] == ':' {
		return strings.ReplaceAll(drive, "/", `\`)
	}
	return u.Path
}
