package extension

import (
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/text"
)

// skillFolders are where a project has its skills, a folder each.
var skillFolders = []string{".tidemark/skills", ".claude/skills"}

// skillFile is what makes a folder a skill.
const skillFile = "SKILL.md"

const maxDescription = 400

// Skill is a text about how to do something, which the agent loads when it has
// to.
type Skill struct {
	Name        string
	Description string // when to use it, in one line
	File        string // relative to the project, or absolute for the person's own
	Own         bool   // the person wrote it, and not the project's authors
	Text        string
}

// Skills returns all skills, by name; the person's own count more than those of
// the project. What cannot be read is left out.
func Skills(o Options) []Skill {
	return find(o, "skills", skillFolders, func(rel string) bool { return path.Base(rel) == skillFile && strings.Count(rel, "/") == 1 }, func(f file) (Skill, string) {
		s := ParseSkill(f.read())
		if !nameOf().MatchString(s.Name) {
			s.Name = path.Dir(f.rel)
		}
		if s.Text == "" {
			s.Name = ""
		}
		s.File, s.Own = f.shown, f.own
		return s, s.Name
	})
}

// ParseSkill reads the content of a file: a head, of which name and description
// count, and the text.
func ParseSkill(content string) Skill {
	head, body := split(content)
	return Skill{Name: head["name"], Description: text.ShortLine(head["description"], maxDescription), Text: body}
}
