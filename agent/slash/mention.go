package slash

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/tool"
)

const (
	// maxMentions is how many files a message can bring along by naming them.
	maxMentions = 20
	// maxOffered is how many files are offered for a name that is being typed.
	maxOffered = 20
)

// projectFiles are the files of the project, as of when somebody began to type
// the name of one.
type projectFiles struct {
	mu   sync.Mutex
	list []string
}

// completeFile offers files of the project for @name at the end of a line.
func (c *Conversation) completeFile(ctx context.Context, word string) (found []string) {
	query := strings.Trim(strings.TrimPrefix(word, "@"), `"`)
	c.files.mu.Lock()
	if query == "" || c.files.list == nil {
		// The next key cancels what is looked up for this one. A list that was cut
		// off then would be taken for the whole; it is finished, and the next key
		// waits for it.
		c.files.list = project.Files(context.WithoutCancel(ctx), c.Options.Project, c.Setup.Environ)
	}
	list := c.files.list
	c.files.mu.Unlock()
	for _, name := range project.Match(list, query, maxOffered) {
		if mention := "@" + name + " "; !strings.ContainsAny(name, " \t\n\"") {
			found = append(found, mention)
		} else if !strings.ContainsAny(name, "\n\"") {
			found = append(found, `@"`+name+`" `)
		}
	}
	return found
}

// mentions returns the names of files in a message: words that begin with @,
// with quotes where a name has blanks.
func mentions(text string) (names []string) {
	for i := 0; i < len(text) && len(names) < maxMentions; i++ {
		if text[i] != '@' || i > 0 && !strings.ContainsRune(" \t\n([{'\"`", rune(text[i-1])) {
			continue
		}
		rest := text[i+1:]
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			if name, _, closed := strings.Cut(quoted, `"`); closed && name != "" && !strings.Contains(name, "\n") {
				names = append(names, name)
				i += len(name) + 2
			}
			continue
		}
		end := strings.IndexAny(rest, " \t\n")
		if end < 0 {
			end = len(rest)
		}
		if name := strings.TrimRight(rest[:end], ",.;:!?)]}'\"`"); name != "" {
			names = append(names, name)
			i += len(name)
		}
	}
	return names
}

// Mentioned returns the files of the project that a message names with @, as
// documents and images that are sent with it, and says which. A word that names none is just a
// word; nothing outside the project is read.
func (c *Conversation) Mentioned(text string) (documents []tidemark.Block) {
	names := mentions(text)
	if len(names) == 0 {
		return nil
	}
	w, err := durable.OpenWorkspace(c.Options.Project)
	if err != nil {
		return nil
	}
	defer w.Close()
	for _, name := range names {
		name = strings.TrimSuffix(filepath.ToSlash(filepath.Clean(name)), "/")
		f, err := w.ReadOnly().Open(name)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			f.Close()
			continue
		}
		b, err := io.ReadAll(io.LimitReader(f, max(maxDocument, tool.MaxImage)+1))
		f.Close()
		if image, no := imageBlock(path.Base(name), b); err == nil && no == nil {
			documents = append(documents, image)
			c.note("Sent with it: %s", imageSign(image, 0))
			continue
		}
		if err != nil || len(b) > maxDocument {
			c.note("@%s is over %d bytes: only its name is sent.", name, maxDocument)
			continue
		}
		documents = append(documents, documentBlock(filepath.Join(c.Options.Project, filepath.FromSlash(name)), b))
		c.note("Sent with it: %s (%d lines)", name, strings.Count(string(b), "\n"))
	}
	return documents
}

// documentBlock is a document as it is sent.
func documentBlock(path string, content []byte) tidemark.Block {
	return tidemark.Text(fmt.Sprintf("<document path=%q>\n%s\n</document>", path, strings.ToValidUTF8(string(content), "\uFFFD")))
}
