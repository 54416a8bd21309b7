package tool

import (
	"slices"
	"strings"
)

// operands says what a form does with arguments that are not options.
type operands int

const (
	noOperands operands = iota // it takes none
	anyText                    // texts that are not names of files
	onlyFiles                  // files, which have to be in the workspace
	thenFiles                  // a pattern, then files
)

// form is a command that may be approved permanently: a program, with its
// subcommand, and the options that it may have. Every option that runs a
// program, writes or follows something, or takes names from a file is left
// out.
//
// In options a short one that takes a value ends in a colon, or in a question
// mark when the value has to be in the same word; a long one ends in an equals
// sign; "0" stands for a number after a dash.
type form struct {
	name     string
	options  string
	operands operands
	reason   string // why it only reads, and which options were left out
}

const (
	gitDiffs = "--stat --shortstat --numstat --name-only --name-status --summary --cached --staged --check --no-color --word-diff --unified= -w -b -M -U? "
	gitLogs  = gitDiffs + "--oneline --graph --decorate --all --branches --tags --remotes --format= --pretty --pretty= --since= --until= --after= --before= --author= --grep= " +
		"--no-merges --merges --reverse --follow --patch --max-count= --skip= --first-parent --abbrev-commit --date= --no-patch -p -s -n: -S: -G: -i 0"
)

// forms is the table. A command that is not here needs approval each time.
var forms = []form{
	{"git status", "--short --branch --long --porcelain --porcelain= --untracked-files= --ignored --show-stash -s -b -v", onlyFiles, "compares the folder with the index; what it could run comes from the configuration"},
	{"git diff", gitDiffs, onlyFiles, "prints changes; without --ext-diff, --textconv, --output and --no-index, which run or write or leave the repository"},
	{"git log", gitLogs, onlyFiles, "prints history; without --output, --ext-diff, --textconv and --show-signature"},
	{"git show", gitLogs, onlyFiles, "prints commits and files of them; the same options as log"},
	{"git branch", "--list --show-current --all --remotes -a -r -v", noOperands, "lists branches; with a name it would make one"},
	{"git tag", "--list -l", noOperands, "lists tags; with a name it would make one"},
	{"git remote", "-v --verbose", noOperands, "lists remotes; its subcommands change them or connect"},
	{"git rev-parse", "--short --abbrev-ref --show-toplevel --git-dir --is-inside-work-tree --verify", onlyFiles, "prints the name of a commit"},
	{"git ls-files", "--others --modified --cached --deleted --exclude-standard -m -o -c -d -s", onlyFiles, "lists files; without -X and --exclude-from"},
	{"git blame", "--porcelain -L: -w -s -e", onlyFiles, "prints who wrote a line; without --contents and --ignore-revs-file, which read other files"},
	{"git describe", "--tags --always --abbrev= --long --all", onlyFiles, "names a commit"},
	{"git shortlog", "--summary --numbered --email -s -n -e", onlyFiles, "counts commits"},
	{"ls", "--all --almost-all --human-readable -a -A -l -h -R -t -r -S -1 -d -F -p -i -s", onlyFiles, "lists names; without -L, which follows links"},
	{"cat", "--number -n -b -A -s -E -T -v", onlyFiles, "prints files"},
	{"head", "--lines= --bytes= -n: -c: -q -v 0", onlyFiles, "prints the beginning"},
	{"tail", "--lines= --bytes= -n: -c: -q -v 0", onlyFiles, "prints the end; without -f, which does not end"},
	{"wc", "--lines --words --bytes -l -w -c -m -L", onlyFiles, "counts; without --files0-from, which takes names from a file"},
	{"nl", "-b: -w:", onlyFiles, "numbers lines"},
	{"grep", "--color=never --line-number --ignore-case --count -n -i -r -l -L -c -v -w -x -E -F -o -H -h -s -q -A: -B: -C: -m:", thenFiles, "finds lines; without -R, which follows links, and -f"},
	{"rg", "--hidden --line-number --ignore-case --count --color=never -n -i -l -c -v -w -F -s -S -A: -B: -C: -m: -g: -t: -T:", thenFiles, "finds lines; without --pre, --hostname-bin and -z, which run programs, and -L, -f and --files"},
	{"sort", "--numeric-sort --reverse --unique -n -r -u -f -b -h -V -k: -t:", onlyFiles, "sorts; without -o, -T and --compress-program, which write and run"},
	{"uniq", "--count -c -d -u -i", noOperands, "counts lines of a pipe; a second operand would be written"},
	{"cut", "-d: -f: -c: -b: -s", onlyFiles, "prints columns"},
	{"tr", "-d -s -c", anyText, "replaces characters of a pipe"},
	{"cmp", "-s -l -b", onlyFiles, "compares bytes"},
	{"stat", "-c: -t", onlyFiles, "prints what is known of a file; without -L"},
	{"file", "-b -i", onlyFiles, "guesses a type; without -m, -f, -z and -C"},
	{"du", "--human-readable --summarize -s -h -a -c -d:", onlyFiles, "counts sizes; without --files0-from and -L"},
	{"sha256sum", "-b -t", onlyFiles, "prints a hash; without -c, which takes names from a file"},
	{"md5sum", "-b -t", onlyFiles, "prints a hash; without -c, which takes names from a file"},
	{"basename", "", anyText, "cuts a text"},
	{"dirname", "", anyText, "cuts a text"},
	{"which", "-a", anyText, "says where a program is"},
	{"echo", "-n", anyText, "prints its words, which nothing expands"},
	{"pwd", "", noOperands, "prints the folder"},
	{"true", "", noOperands, "does nothing"},
	{"false", "", noOperands, "does nothing"},
	{"whoami", "", noOperands, "prints a name"},
	{"nproc", "", noOperands, "prints a number"},
	{"uname", "-a -s -r -m", noOperands, "prints what system this is"},
	{"date", "-u -R", noOperands, "prints the time; an operand could set it"},
}

// VettedProgram reports whether a program has forms in the table.
func VettedProgram(name string) bool {
	for _, f := range forms {
		if program, _, _ := strings.Cut(f.name, " "); program == name {
			return true
		}
	}
	return false
}

// formOf returns the form of a simple command, "" when it has none.
func (s surroundings) formOf(words []string) string {
	for _, f := range forms {
		name := strings.Fields(f.name)
		if len(words) < len(name) || strings.Join(words[:len(name)], " ") != f.name {
			continue
		}
		if !f.takes(words[len(name):], s) || name[0] == "git" && !s.safeRepository() {
			return ""
		}
		return f.name
	}
	return ""
}

// takes reports whether the form accepts all these arguments. Options are
// matched in full only, although programs accept abbreviations.
func (f form) takes(args []string, s surroundings) bool {
	known := strings.Fields(f.options)
	var rest []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			rest, i = append(rest, args[i+1:]...), len(args)
		case strings.HasPrefix(a, "--"):
			option, value, valued := strings.Cut(a, "=")
			exact := slices.Contains(known, a) && !strings.HasSuffix(a, "=")
			if !exact && (!valued || !slices.Contains(known, option+"=") || runsGPG(value)) {
				return false
			}
		case len(a) > 1 && a[0] == '-':
			used, ok := short(known, a[1:], i+1 < len(args))
			if !ok {
				return false
			}
			i += used
		default:
			rest = append(rest, a)
		}
	}
	return f.works(rest, s)
}

// runsGPG reports whether a format may ask git for signatures, which gpg
// checks: %G, also with the modifiers that git accepts in between, as in
// %+G.
func runsGPG(format string) bool {
	_, behind, _ := strings.Cut(format, "%")
	return strings.Contains(behind, "G")
}

// short reads short options in one word, and returns how many of the
// following words belong to the last of them.
func short(known []string, letters string, more bool) (used int, ok bool) {
	if strings.Trim(letters, "0123456789") == "" && slices.Contains(known, "0") {
		return 0, true
	}
	for i := range len(letters) {
		option := "-" + letters[i:i+1]
		switch last := i+1 == len(letters); {
		case slices.Contains(known, option+"?"), slices.Contains(known, option+":") && !last:
			return 0, !last
		case slices.Contains(known, option+":"):
			return 1, more
		case !slices.Contains(known, option):
			return 0, false
		}
	}
	return 0, true
}

// works reports whether the form accepts these operands.
func (f form) works(rest []string, s surroundings) bool {
	switch f.operands {
	case noOperands:
		return len(rest) == 0
	case anyText:
		return true
	case thenFiles:
		if len(rest) > 0 {
			rest = rest[1:]
		}
	}
	for _, path := range rest {
		if path != "-" && !s.inside(path) {
			return false
		}
	}
	return true
}
