package tidemark

import (
	"slices"
	"strings"
)

// The kinds of entries that other tools have, too, and that searching and
// showing treat differently from what was said.
const (
	KindContext     = "context"     // what a tool told the model in addition to what the person said
	KindInterrupted = "interrupted" // a turn that ended early
	KindCompaction  = "compaction"  // a summary that stands for what was before when the model is asked
	KindCommand     = "command"     // a command that a person gave to the tool or to the shell
	KindError       = "error"       // an error on the way to the model
)

// Context reports whether e is something a tool told the model and no person
// said: a system prompt, an entry of kind context, or a user's message that
// consists of such blocks only. A person who reads a conversation wants to know
// that it is there, and seldom what it says.
func (e Entry) Context() bool {
	switch {
	case slices.ContainsFunc(e.Blocks, func(b Block) bool { return b.Type == BlockImage || b.Type == BlockFile }):
		return false // somebody put it there to be seen
	case e.Kind == KindContext || e.Role == System:
		return true
	case e.Role != User:
		return false
	}
	found := false
	for _, b := range e.Blocks {
		said, context := Spoken(b.Text)
		if b.Type != BlockText || said != "" {
			return false
		}
		found = found || len(context) > 0
	}
	return found
}

// Empty reports whether there is nothing in e to read. Such entries are kept for
// programs: a call is about to run, a setting was changed.
func (e Entry) Empty() bool {
	if e.Kind == KindBranch || e.Kind == KindGap {
		return false
	}
	return !slices.ContainsFunc(e.Blocks, func(b Block) bool {
		spoken := b.Type == BlockText || b.Type == BlockThinking
		return !spoken || strings.TrimSpace(b.Text) != "" || b.Raw != ""
	})
}

// Said is the text of e without the blocks that a tool put around it. It is the
// whole text when e holds nothing but such blocks.
func (e Entry) Said() string {
	text := e.Text()
	if said, _ := Spoken(text); said != "" && e.Role == User {
		return said
	}
	return text
}

// injected are the elements that tools wrap around what they tell the model in a
// user's message.
var injected = []string{
	"system-reminder", "task-notification", "local-command-caveat", "user-prompt-submit-hook", // Claude Code
	"ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics",
	"environment_context", "user_instructions", "INSTRUCTIONS", "permissions instructions", "skills_instructions", // Codex
	"collaboration_mode", "apps_instructions", "plugins_instructions", "personality_spec", "model_switch", "turn_aborted", "subagent_notification",
	"session_context", "hook_context", // Gemini CLI, Qwen Code
	"environment_details", "explicit_instructions", // Cline
	"current_datetime", "reminderInstructions", "editorContext", "environment_info", "workspace_info", // Copilot
}

// agentsFile is how the text begins that Codex makes of a file AGENTS.md.
const agentsFile = "# AGENTS.md instructions for "

// Spoken separates what a person said from the blocks that a tool put before and
// after it. A text without such blocks comes back as it is, apart from white
// space around it.
func Spoken(text string) (said string, context []string) {
	text = strings.TrimSpace(text)
	for {
		end := leading(text)
		if end == 0 {
			break
		}
		context = append(context, strings.TrimSpace(text[:end]))
		text = strings.TrimSpace(text[end:])
	}
	for {
		at := trailing(text)
		if at < 0 {
			return text, context
		}
		context = append(context, text[at:])
		text = strings.TrimSpace(text[:at])
	}
}

// leading returns where the block at the start of text ends, or 0 when there is
// none.
func leading(text string) int {
	if strings.HasPrefix(text, agentsFile) {
		if end := strings.Index(text, "</INSTRUCTIONS>"); end > 0 {
			return end + len("</INSTRUCTIONS>")
		}
		return 0
	}
	if !strings.HasPrefix(text, "<") {
		return 0
	}
	for _, name := range injected {
		if !opens(text, name) {
			continue
		}
		if end := strings.Index(text, "</"+name+">"); end > 0 {
			return end + len("</"+name+">")
		}
	}
	return 0
}

// trailing returns where the block at the end of text begins, or -1 when there
// is none.
func trailing(text string) int {
	if !strings.HasSuffix(text, ">") {
		return -1
	}
	for _, name := range injected {
		if !strings.HasSuffix(text, "</"+name+">") {
			continue
		}
		if at := strings.LastIndex(text, "<"+name); at >= 0 && opens(text[at:], name) {
			return at
		}
	}
	return -1
}

// opens reports whether text begins with the tag of an element, which may have
// attributes.
func opens(text, name string) bool {
	rest, ok := strings.CutPrefix(text, "<"+name)
	return ok && rest != "" && strings.ContainsRune("> \n", rune(rest[0]))
}

// Gist is how a block of context begins, without its tags: the name of the
// element, "" for none, and its words on one line.
func Gist(text string) (element, words string) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, agentsFile) {
		line, _, _ := strings.Cut(text, "\n")
		return "AGENTS.md", strings.TrimPrefix(line, "# AGENTS.md ")
	}
	for _, name := range injected {
		if opens(text, name) {
			_, text, _ = strings.Cut(text, ">")
			element = name
			break
		}
	}
	const enough = 400 // bytes; nobody shows more of it on a line
	if cut := text; len(cut) > enough {
		text = strings.ToValidUTF8(cut[:enough], "")
	}
	text, _, _ = strings.Cut(text, "</"+element)
	return element, strings.Join(strings.Fields(text), " ")
}
