package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// An approval of a command covers either a form in the table of vetted
// commands, such as git status with options that only read, or exactly this
// command. A form covers commands that nobody has seen yet, so a command that
// is not understood to the last byte has none.

const (
	// vettedPrefix begins a scope of forms, exactPrefix the scope of one exact
	// command. Scopes of earlier releases begin with neither: they named a
	// program with any arguments, and cover nothing any more.
	vettedPrefix = "vetted: "
	exactPrefix  = "exactly: "
	formsBetween = ", "
)

// Forms returns the forms of a scope of bash, such as "git status" and
// "head" for git status | head; none when the scope is for an exact
// command.
func Forms(scope string) []string {
	forms, ok := strings.CutPrefix(scope, vettedPrefix)
	if !ok {
		return nil
	}
	return strings.Split(forms, formsBetween)
}

// FormScope is the scope of a command of one form.
func FormScope(form string) string { return vettedPrefix + form }

// ExactScope is the scope of one exact command, in the folder where the shell
// of a session starts. Long commands are named by their hash, because scopes
// are kept with the session; so are commands that read like the scope of
// another one.
func ExactScope(command string) string {
	const most = 500
	if len(command) <= most && !strings.HasPrefix(command, hashedPrefix) && !strings.HasPrefix(command, elsewherePrefix) {
		return exactPrefix + command
	}
	sum := sha256.Sum256([]byte(command))
	return exactPrefix + hashedPrefix + hex.EncodeToString(sum[:])
}

// Beginnings of exact scopes that are not the command itself.
const (
	hashedPrefix    = "the command with the SHA-256 "
	elsewherePrefix = "in \""
)

// surroundings are what the meaning of a command depends on besides its text.
type surroundings struct {
	root, dir string // the workspace, and the shell's directory
	fenced    bool   // in a sandbox; each shell has its own
}

// scopeIn returns what an approval of a command covers. The same text in
// another folder is another command: make runs what the folder says.
func (s surroundings) scopeIn(command string) string {
	if forms := s.vetted(command); forms != nil {
		return vettedPrefix + strings.Join(forms, formsBetween)
	}
	if rel, ok := below(s.root, s.dir); !ok || rel != "." {
		// Quoting makes the end of the folder unambiguous.
		return exactPrefix + "in " + strconv.Quote(s.dir) + ": " + strings.TrimPrefix(ExactScope(command), exactPrefix)
	}
	return ExactScope(command)
}

// maxVetted bounds a command that may have a form: longer ones are scripts.
const maxVetted = 4 << 10

// vetted returns the forms of all simple commands in a command, sorted; nil
// when one of them has none, or when the command contains anything else.
func (s surroundings) vetted(command string) []string {
	if _, inside := below(s.root, s.dir); s.fenced && !inside {
		return nil // another shell would not find what this one left there
	}
	file := parsed(command)
	if info, err := os.Stat(s.dir); file == nil || len(file.Stmts) == 0 || err != nil || !info.IsDir() || filepath.Dir(s.root) == s.root {
		return nil
	}
	if !s.inside(".") {
		return nil // many programs read the current folder when no file is named
	}
	var forms []string
	ok := eachSimple(file.Stmts, func(words []string) bool {
		form := s.formOf(words)
		forms = append(forms, form)
		return form != ""
	})
	if !ok {
		return nil
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// parsed returns a command as bash reads it, nil when it does not parse or
// contains characters that shells, terminals and people read differently.
func parsed(command string) *syntax.File {
	if len(command) > maxVetted || strings.ContainsFunc(command, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f || r == '\uFFFD' }) {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Last) > 0 {
		return nil
	}
	return file
}

// eachSimple calls f for each simple command in pipes and lists. It returns
// false when there is anything else, or f returned false.
func eachSimple(all []*syntax.Stmt, f func(words []string) bool) bool {
	for _, st := range all {
		if len(st.Comments) > 0 || st.Negated || st.Background || st.Coprocess || st.Disown || !harmless(st.Redirs) {
			return false
		}
		switch c := st.Cmd.(type) {
		case *syntax.CallExpr:
			words, ok := fixedWords(c)
			if !ok || !f(words) {
				return false
			}
		case *syntax.BinaryCmd:
			if c.Op != syntax.Pipe && c.Op != syntax.AndStmt && c.Op != syntax.OrStmt || !eachSimple([]*syntax.Stmt{c.X, c.Y}, f) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// harmless reports whether redirections write no file: only to /dev/null,
// and of errors to the output.
func harmless(redirects []*syntax.Redirect) bool {
	for _, r := range redirects {
		if r.Word == nil || r.Hdoc != nil {
			return false
		}
		fd := ""
		if r.N != nil {
			fd = r.N.Value
		}
		to := r.Word.Lit()
		switch {
		case r.Op == syntax.RdrOut && to == "/dev/null" && (fd == "" || fd == "1" || fd == "2"):
		case r.Op == syntax.DplOut && fd == "2" && to == "1":
		default:
			return false
		}
	}
	return true
}

// fixedWords returns the words of a call that are literal: nothing in them
// is expanded, and nothing is assigned before them.
func fixedWords(c *syntax.CallExpr) ([]string, bool) {
	if len(c.Assigns) > 0 || len(c.Args) == 0 {
		return nil, false
	}
	words := make([]string, len(c.Args))
	for i, w := range c.Args {
		var b strings.Builder
		for _, part := range w.Parts {
			text, ok := fixedPart(part, b.String())
			if !ok {
				return nil, false
			}
			b.WriteString(text)
		}
		words[i] = b.String()
		if _, quoted := w.Parts[0].(*syntax.Lit); i == 0 && (len(w.Parts) != 1 || !quoted) {
			return nil, false // quoting the name of a program hides it
		}
	}
	return words, true
}

func fixedPart(part syntax.WordPart, before string) (text string, ok bool) {
	switch p := part.(type) {
	case *syntax.SglQuoted:
		return p.Value, !p.Dollar
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			lit, ok := inner.(*syntax.Lit)
			if !ok || strings.ContainsAny(lit.Value, "$`\\!") {
				return "", false
			}
			text += lit.Value
		}
		return text, !p.Dollar
	case *syntax.Lit:
		return p.Value, bare(p.Value, before)
	}
	return "", false
}

// bare reports whether the shell leaves an unquoted text alone. A tilde
// after a letter or a digit is left alone: HEAD~2. Globs are not: a file may
// be named like an option.
func bare(text, before string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case isLetter(c), c >= '0' && c <= '9', strings.IndexByte("_-./=:@,+%^", c) >= 0:
		case c == '~' && i > 0 && (isLetter(text[i-1]) || text[i-1] >= '0' && text[i-1] <= '9' || text[i-1] == '^'):
		default:
			return false
		}
	}
	return text != "" || before != ""
}

// Programs returns the programs that a command names, wherever they are, and
// whether it runs nothing else: then it is one program with literal words, and
// not one that runs its arguments. It is meant for denials: nothing is allowed
// because of it.
func Programs(command string) (names []string, all bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, false
	}
	base := func(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() != "" {
			names = append(names, base(c.Args[0].Lit()))
		}
		return true
	})
	if len(file.Stmts) != 1 || parsed(command) == nil {
		return names, false
	}
	call, simple := file.Stmts[0].Cmd.(*syntax.CallExpr)
	if !simple {
		return names, false
	}
	words, fixed := fixedWords(call)
	return names, fixed && eachSimple(file.Stmts, func([]string) bool { return true }) && !strings.Contains(runsOthers, " "+base(words[0])+" ")
}

// runsOthers are programs that run what their arguments name.
const runsOthers = " " +
	"bash sh dash zsh ksh fish busybox env exec eval command builtin source . trap coproc alias sudo doas su chroot " +
	"unshare nsenter setsid setpriv runuser xargs parallel find fd time timeout nice nohup stdbuf watch strace " +
	"script ssh awk gawk mawk sed perl python python3 ruby node php lua tclsh expect if while until for case select " +
	"function then do else ! [[ let declare export local readonly typeset set shopt enable hash " +
	"printf test [ read mapfile readarray getopts unset "

// inside reports whether a path that a command names stays in the workspace,
// also through links. A path that does not exist is allowed.
func (s surroundings) inside(path string) bool {
	if filepath.IsAbs(path) || strings.HasPrefix(path, "~") || slices.Contains(strings.Split(filepath.ToSlash(path), "/"), "..") {
		return false
	}
	for at := filepath.Join(s.dir, path); ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			root, err := filepath.EvalSymlinks(s.root)
			if err != nil {
				return false
			}
			_, ok := below(root, real)
			return ok
		}
		if at == filepath.Dir(at) || at == s.dir {
			return false
		}
	}
}
