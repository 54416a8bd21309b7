package project

import (
	"bufio"
	"bytes"
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	// maxFiles bounds how many files of a project are listed: more than people
	// complete names of, and few enough to match at each key.
	maxFiles = 200_000
	// filesTimeout bounds how long a list of files takes; what was found until
	// then is the list.
	filesTimeout = 2 * time.Second
)

// Files lists the files of a project by their paths below it, with slashes: in a
// work tree those that git has or would take, elsewhere all but those in hidden
// folders. environ is passed to git as for Marks.
func Files(ctx context.Context, folder string, environ []string) []string {
	ctx, stop := context.WithTimeout(ctx, filesTimeout)
	defer stop()
	if hasGit(folder) {
		if files, ok := gitFiles(ctx, folder, environ); ok {
			return files
		}
	}
	return walkedFiles(ctx, folder)
}

// gitFiles are the files that git has, and new ones that it does not ignore.
func gitFiles(ctx context.Context, folder string, environ []string) (files []string, ok bool) {
	cmd := gitCommand(ctx, folder, environ, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil, false
	}
	names := bufio.NewScanner(out)
	names.Split(byZero)
	for len(files) < maxFiles && names.Scan() {
		files = append(files, names.Text())
	}
	if len(files) == maxFiles {
		_ = cmd.Process.Kill() // its list is long enough
	}
	err = cmd.Wait()
	return files, err == nil || len(files) == maxFiles || ctx.Err() != nil && len(files) > 0
}

// byZero splits at zero bytes.
func byZero(data []byte, end bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil // what is cut off at the end is no name
}

func walkedFiles(ctx context.Context, folder string) (files []string) {
	_ = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil || len(files) >= maxFiles:
			return fs.SkipAll
		case err != nil || name == folder:
			return nil // what cannot be read is left out
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if below, err := filepath.Rel(folder, name); err == nil {
			files = append(files, filepath.ToSlash(below))
		}
		return nil
	})
	return files
}

// Match returns the paths that have the letters of a query in their order, at most
// most of them and the best first: where the letters are together, begin words
// and are in the name of the file rather than of a folder. Upper case is the same
// as lower case. Paths that match equally well come in the order in which they
// are given, shorter ones first.
func Match(paths []string, query string, most int) []string {
	if most <= 0 {
		return nil
	}
	query = strings.ToLower(query)
	var best []match
	for _, p := range paths {
		score, ok := fit(p, query)
		if !ok {
			continue
		}
		m := match{p, score}
		if len(best) == most && !m.before(best[len(best)-1]) {
			continue
		}
		if len(best) < most {
			best = append(best, m)
		} else {
			best[len(best)-1] = m
		}
		for i := len(best) - 1; i > 0 && best[i].before(best[i-1]); i-- {
			best[i], best[i-1] = best[i-1], best[i]
		}
	}
	found := make([]string, len(best))
	for i, m := range best {
		found[i] = m.path
	}
	return found
}

type match struct {
	path  string
	score int
}

func (m match) before(o match) bool {
	if m.score != o.score {
		return m.score > o.score
	}
	return len(m.path) < len(o.path)
}

// What makes a match better: the query as it is in the name of the file, or its
// letters side by side or at the beginnings of words.
const (
	scoreBegins   = 200 // the name begins with the query
	scoreTogether = 100 // the query is in one piece
	scoreInName   = 50  // all of it is in the name of the file
	scoreNext     = 5   // a letter follows the one before
	scoreWord     = 8   // a letter begins a word
)

// fit returns how well a path fits a query in lower case, and whether it does.
func fit(p, query string) (score int, ok bool) {
	if query == "" {
		return 0, true
	}
	name := path.Base(p)
	if s, in := inOrder(name, query); in {
		if len(name) >= len(query) && strings.EqualFold(name[:len(query)], query) {
			s += scoreBegins
		}
		return s + scoreInName, true
	}
	return inOrder(p, query)
}

// inOrder reports whether the letters of a query occur in a text, and how close
// together. It compares bytes: a letter outside ASCII has to be typed as it is.
func inOrder(text, query string) (score int, ok bool) {
	at, last := 0, -2
	for i := 0; i < len(text) && at < len(query); i++ {
		if lower(text[i]) != query[at] {
			continue
		}
		if i == last+1 {
			score += scoreNext
		}
		if i == 0 || !isLetter(text[i-1]) || isLetter(text[i]) && text[i-1] >= 'a' && text[i] <= 'Z' {
			score += scoreWord
		}
		last = i
		at++
	}
	if at < len(query) {
		return 0, false
	}
	if len(query) > 1 && containsFold(text, query) {
		score += scoreTogether
	}
	return score, true
}

func containsFold(text, query string) bool {
	for i := 0; i+len(query) <= len(text); i++ {
		if lower(text[i]) == query[0] && strings.EqualFold(text[i:i+len(query)], query) {
			return true
		}
	}
	return false
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func isLetter(b byte) bool { return b >= '0' && b <= '9' || lower(b) >= 'a' && lower(b) <= 'z' }
