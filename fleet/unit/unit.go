// Package unit writes what an operating system needs to keep a fleet running: a
// unit of systemd or a property list of launchd.
//
// It reads nothing of the system and installs nothing. It escapes every word that
// it is given, so that no character of it has a special meaning in the result.
//
//	text := unit.Service{Command: command, User: "ada", Dir: "/srv/fleet"}.Systemd()
package unit

import (
	_ "embed"
	"encoding/xml"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Service is what the unit runs.
type Service struct {
	Command []string // absolute
	User    string
	Dir     string   // of the fleet file
	Environ []string // NAME=VALUE: PATH, by which agents find their programs, and variables that name folders
	Writes  []string // folders that the fleet writes to
}

var (
	//go:embed systemd.service
	systemd string
	//go:embed launchd.plist
	launchd string
)

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

// Systemd returns a unit of systemd.
func (s Service) Systemd() string {
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
		"{environ}", strings.Join(environ, "\n"), "{writes}", strings.Join(writes, "\n")).Replace(systemd)
}

// Launchd returns a property list of launchd.
func (s Service) Launchd() string {
	text := func(s string) string {
		var b strings.Builder
		xml.EscapeText(&b, []byte(s)) // writing to a Builder never fails
		return "<string>" + b.String() + "</string>"
	}
	var command, environ strings.Builder
	for _, word := range s.Command {
		command.WriteString("\n    " + text(word))
	}
	for _, v := range s.Environ {
		name, value, _ := strings.Cut(v, "=")
		environ.WriteString("\n    <key>" + name + "</key>\n    " + text(value))
	}
	return strings.NewReplacer("{command}", command.String(), "{dir}", text(s.Dir), "{environ}", environ.String()).Replace(launchd)
}
