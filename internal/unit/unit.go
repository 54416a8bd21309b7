// Package unit fills in what operating systems need to keep a program running: a
// unit of systemd, a property list of launchd, a task of Windows.
//
// It reads nothing of the system and installs nothing. It escapes every word that
// it is given, so that no character of it has a special meaning in the result.
//
//	text := unit.Service{Command: command, User: "ada", Dir: "/srv/fleet"}.Systemd(template)
package unit

import (
	"encoding/xml"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Service is what is kept running. A template has {command}, {user}, {dir},
// {environ} and {writes} where these go.
type Service struct {
	Command []string // absolute
	User    string
	Dir     string   // in which it runs
	Environ []string // NAME=VALUE: PATH, by which it finds programs, and variables that name folders
	Writes  []string // folders that it writes to
}

// Outermost returns dirs, sorted, without those inside another one, and without "".
func Outermost(dirs []string) []string {
	slices.Sort(dirs)
	var all []string
	for _, dir := range dirs {
		inside := slices.ContainsFunc(all, func(outer string) bool {
			below, err := filepath.Rel(outer, dir)
			return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
		})
		if dir != "" && !inside {
			all = append(all, dir)
		}
	}
	return all
}

// Check refuses words with characters that a unit cannot hold.
func (s Service) Check() error {
	for _, word := range slices.Concat(s.Command, s.Writes, s.Environ, []string{s.User, s.Dir}) {
		if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
			return tidemark.Invalidf("%q: has signs that a unit cannot hold", word)
		}
	}
	return nil
}

// systemdWord escapes a word so that systemd takes it literally.
func systemdWord(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(s)
	if s == "" || strings.ContainsAny(s, " ';\\\"") {
		return `"` + s + `"`
	}
	return s
}

// Systemd fills in a unit of systemd.
func (s Service) Systemd(template string) string {
	var command, environ, writes []string
	for _, word := range s.Command {
		command = append(command, strings.ReplaceAll(systemdWord(word), "$", "$$"))
	}
	for _, v := range s.Environ {
		environ = append(environ, "Environment="+systemdWord(v))
	}
	for _, dir := range s.Writes {
		writes = append(writes, "ReadWritePaths="+systemdWord(dir))
	}
	return strings.NewReplacer("{command}", strings.Join(command, " "), "{user}", systemdWord(s.User), "{dir}", strings.ReplaceAll(s.Dir, "%", "%%"),
		"{environ}", strings.Join(environ, "\n"), "{writes}", strings.Join(writes, "\n")).Replace(template)
}

// escaped is a word as text of XML.
func escaped(word string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(word)) // writing to a Builder never fails
	return b.String()
}

// Launchd fills in a property list of launchd.
func (s Service) Launchd(template string) string {
	text := func(word string) string { return "<string>" + escaped(word) + "</string>" }
	var command, environ strings.Builder
	for _, word := range s.Command {
		command.WriteString("\n    " + text(word))
	}
	for _, v := range s.Environ {
		name, value, _ := strings.Cut(v, "=")
		environ.WriteString("\n    <key>" + escaped(name) + "</key>\n    " + text(value))
	}
	return strings.NewReplacer("{command}", command.String(), "{dir}", text(s.Dir), "{environ}", environ.String()).Replace(template)
}

// Task fills in a task of Windows, whose program and arguments are apart:
// {program} and {arguments}. A task has no environment of its own.
func (s Service) Task(template string) string {
	var program string
	var arguments []string
	for i, word := range s.Command {
		if i == 0 {
			program = word
			continue
		}
		arguments = append(arguments, windowsWord(word))
	}
	return strings.NewReplacer("{program}", escaped(program), "{arguments}", escaped(strings.Join(arguments, " ")), "{dir}", escaped(s.Dir), "{user}", escaped(s.User)).Replace(template)
}

// windowsWord quotes a word so that programs of Windows take it as one: backslashes
// count only before a quotation mark.
func windowsWord(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\"") {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	slashes := 0
	for _, r := range word {
		switch r {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1))
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteRune(r)
	}
	b.WriteString(strings.Repeat(`\`, slashes) + `"`)
	return b.String()
}
