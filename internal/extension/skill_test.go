package extension_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/internal/extension"
)

func TestSkillsAreFoldersWithAFile(t *testing.T) {
	project := write(t, t.TempDir(), map[string]string{
		".claude/skills/pdf/SKILL.md":         "---\nname: pdf-forms\ndescription: >\n  Fills in\n  forms.\nallowed-tools: Bash\n---\nRead it first.",
		".claude/skills/pdf/reference.md":     "not a skill",
		".claude/skills/pdf/more/SKILL.md":    "not a skill either",
		".claude/skills/no head/SKILL.md":     "x",
		".claude/skills/plain/SKILL.md":       "Just text.",
		".claude/skills/empty/SKILL.md":       "---\nname: empty\n---\n",
		".claude/skills/odd/SKILL.md":         "---\nname: ../../x\ndescription: odd\n---\ny",
		".tidemark/skills/plain/SKILL.md":     "Ours.",
		".claude/skills/SKILL.md":             "in no folder",
		".claude/skills/mine/SKILL.md":        "Theirs.",
		".claude/skills/loud/SKILL.md":        "---\ndescription: " + strings.Repeat("long ", 500) + "\n---\nz",
		".claude/skills/binary/SKILL.md":      "a\x00b",
		".claude/commands/skills/SKILL.md":    "a command",
		".claude/skills/pdf/scripts/fill.py":  "print()",
		".claude/skills/pdf/examples/one.txt": "x",
	})
	own := write(t, t.TempDir(), map[string]string{"skills/mine/SKILL.md": "Mine."})
	got := make(map[string]string)
	for _, s := range extension.Skills(extension.Options{Project: project, Own: own}) {
		if len(s.Description) > 410 {
			t.Errorf("%s: %d bytes", s.Name, len(s.Description))
		}
		got[s.Name] = fmt.Sprintf("%.10s|%s|%t", s.Description, s.Text, s.Own)
	}
	want := map[string]string{"pdf-forms": "Fills in f|Read it first.|false", "plain": "|Ours.|false", "odd": "odd|y|false", "mine": "|Mine.|true", "loud": "long long |z|false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAgentsHaveAPromptAndTools(t *testing.T) {
	project := write(t, t.TempDir(), map[string]string{
		".claude/agents/reviewer.md":     "---\nname: code-reviewer\ndescription: Reviews.\ntools: Read, Grep, Bash(git diff:*)\nmodel: opus\n---\nYou review.",
		".claude/agents/team/list.md":    "---\ntools:\n  - Read\n  - \"Glob\"\n---\nYou list.",
		".claude/agents/brackets.md":     "---\ntools: [Read, 'Write']\ndisallowedTools: Write, Bash\n---\nYou write.",
		".claude/agents/all.md":          "---\ndescription: has all\nmodel: inherit\n---\nYou do.",
		".claude/agents/none.md":         "---\ntools:\n---\nYou think.",
		".claude/agents/empty.md":        "---\nname: empty\n---\n",
		".claude/agents/not an agent.md": "x",
	})
	got := make(map[string]string)
	for _, a := range extension.Agents(extension.Options{Project: project}) {
		got[a.Name] = fmt.Sprintf("%s|%q|%s", a.Description, a.Tools, a.Text) + strings.Join(a.Without, "+") + a.Model
	}
	want := map[string]string{"code-reviewer": `Reviews.|["Read" "Grep" "Bash(git diff:*)"]|You review.opus`, "list": `|["Read" "Glob"]|You list.`, "brackets": `|["Read" "Write"]|You write.Write+Bash`,
		"all": `has all|[]|You do.`, "none": `|["none"]|You think.`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoLinkOfSkillsAndAgentsLeadsOutOfTheProject(t *testing.T) {
	outside := write(t, t.TempDir(), map[string]string{"x/SKILL.md": "SECRET", "a.md": "SECRET"})
	project := write(t, t.TempDir(), map[string]string{".claude/skills/real/SKILL.md": "a", ".claude/agents/real.md": "a"})
	for link, to := range map[string]string{".claude/skills/x": filepath.Join(outside, "x"), ".claude/agents/a.md": filepath.Join(outside, "a.md"), ".tidemark": outside} {
		if err := os.Symlink(to, filepath.Join(project, link)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	o := extension.Options{Project: project}
	if skills, agents := extension.Skills(o), extension.Agents(o); len(skills) != 1 || len(agents) != 1 {
		t.Errorf("%+v %+v", skills, agents)
	}
}

func FuzzHead(f *testing.F) {
	for _, s := range []string{"", "---\nname: x\ntools: [a, b]\n---\ny", "---\ndescription: |\n  a\n\n- b\n---\n", "---\n:\n  x\n---\n", "---\ntools: ,,,\n---\nz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		a, s := extension.ParseAgent(content), extension.ParseSkill(content)
		if len(a.Description) > 410 || strings.Contains(a.Description+s.Description, "\n") || len(a.Tools) > 128 || a.Text != s.Text || len(a.Text) > len(content) {
			t.Fatalf("%+v %+v", a, s)
		}
		for _, name := range a.Tools {
			if name == "" {
				t.Fatalf("%q", a.Tools)
			}
		}
	})
}
