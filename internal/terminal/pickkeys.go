package terminal

import (
	"slices"
)

// mode is what the keys currently mean.
type mode int

const (
	browsing mode = iota
	renaming      // the line at the bottom is a title
	asking        // y moves a session to the trash
	helping       // any key goes back
)

// pickKeys are all keys, as the help shows them.
var pickKeys = []struct{ key, does string }{
	{"type", "filter by title, agent, project, tag and content"},
	{"↑ ↓  ^P ^N", "move; PgUp PgDn Home End too"},
	{"Enter", "pick the session"},
	{"Esc", "clear the filter, then leave; ^C leaves at once"},
	{"Tab", "show or hide the preview"},
	{"^A", "all projects, or this one"},
	{"^G", "all agents, or that of the session"},
	{"^T", "the trash, or what is not in it"},
	{"^R", "rename the session"},
	{"^D  Del", "move the session to the trash"},
	{"^Z", "undo that; in the trash, restore the session"},
	{"^W ^U", "delete a word, or all, of the filter"},
	{"?", "this help, while nothing is typed"},
}

func (m *picker) key(k key) command {
	if k.name == "ctrl+c" {
		return m.leave()
	}
	if m.leaving {
		return nil
	}
	m.status = ""
	switch m.mode {
	case helping:
		m.mode = browsing
		return nil
	case asking:
		return m.answer(k.text)
	case renaming:
		return m.title(k.name, k.text)
	}
	if cmd, known := m.move(k.name); known {
		return cmd
	}
	if cmd, known := m.act(k.name); known {
		return cmd
	}
	if was := m.input.String(); m.input.edit(k.name) {
		if m.input.String() == was {
			return nil
		}
		return m.refilter()
	}
	if k.text == "?" && len(m.input.text) == 0 {
		m.mode = helping
		return nil
	}
	return m.typed(k.text)
}

// typed handles text from the keyboard or the clipboard.
func (m *picker) typed(text string) command {
	switch {
	case text == "" || m.leaving:
		return nil
	case m.mode == renaming:
		m.name.insert(text)
		return nil
	case m.mode != browsing:
		return nil
	}
	m.input.insert(text)
	return m.refilter()
}

// move handles the keys that move through the list.
func (m *picker) move(name string) (cmd command, known bool) {
	page := max(m.layout().rows-1, 1)
	switch name {
	case "up", "ctrl+p":
		return m.goTo(m.cursor - 1), true
	case "down", "ctrl+n":
		return m.goTo(m.cursor + 1), true
	case "pgup":
		return m.goTo(m.cursor - page), true
	case "pgdown":
		return m.goTo(m.cursor + page), true
	case "home":
		return m.goTo(0), true
	case "end":
		return m.goTo(m.list.len() - 1), true
	}
	return nil, false
}

// act handles the keys that do something.
func (m *picker) act(name string) (cmd command, known bool) {
	switch name {
	case "enter":
		return m.pick(), true
	case "esc":
		if len(m.input.text) > 0 {
			m.input = field{}
			return m.refilter(), true
		}
		return m.leave(), true
	case "tab":
		m.hidden = !m.hidden
		return m.preview(), true
	case "ctrl+a":
		return m.turnProject(), true
	case "ctrl+g":
		return m.turnAgent(), true
	case "ctrl+t":
		s := m.scope
		s.Trash = !s.Trash
		return m.turn(s), true
	case "ctrl+r":
		if r := m.selected(); r != nil {
			m.mode, m.subject = renaming, r.Item
			m.name = newField(r.Title)
		}
	case "ctrl+d", "delete":
		m.ask()
	case "ctrl+z":
		return m.undo(), true
	default:
		return nil, false
	}
	return nil, true
}

func (m *picker) turnProject() command {
	s := m.scope
	switch {
	case s.Project != "":
		s.Project = ""
	case m.o.Project != "":
		s.Project = m.o.Project
	default:
		m.status = "These are all projects; you are in none."
		return nil
	}
	return m.turn(s)
}

func (m *picker) turnAgent() command {
	s := m.scope
	r := m.selected()
	switch {
	case s.Agent != "":
		s.Agent = ""
	case r != nil && r.Agent != "":
		s.Agent = r.Agent
	default:
		m.status = "This session names no agent."
		return nil
	}
	return m.turn(s)
}

// ask asks for confirmation before a session is moved to the trash.
func (m *picker) ask() {
	r := m.selected()
	switch {
	case r == nil:
	case m.scope.Trash:
		m.status = "It is in the trash already; ^Z restores it."
	default:
		m.mode, m.subject = asking, r.Item
	}
}

func (m *picker) answer(text string) command {
	m.mode = browsing
	if text != "y" && text != "Y" {
		m.status = "Left where it is."
		return nil
	}
	it := m.subject
	return m.write(func() writtenMsg {
		return writtenMsg{item: it, did: trashed, err: m.src.Trash(m.ctx, it)}
	})
}

// undo restores the last trashed session or, in the trash, the selected one.
func (m *picker) undo() command {
	var it Item
	switch r := m.selected(); {
	case m.scope.Trash && r != nil:
		it = r.Item
		m.trashed = slices.DeleteFunc(m.trashed, func(t Item) bool { return t.ID == it.ID })
	case !m.scope.Trash && len(m.trashed) > 0:
		last := len(m.trashed) - 1
		it, m.trashed = m.trashed[last], m.trashed[:last]
	default:
		m.status = "There is nothing to undo."
		return nil
	}
	return m.write(func() writtenMsg {
		return writtenMsg{item: it, did: restored, err: m.src.Restore(m.ctx, it)}
	})
}

// title handles the keys while a session is being renamed.
func (m *picker) title(name, text string) command {
	switch {
	case name == "esc":
		m.mode = browsing
	case name == "home" || name == "ctrl+a":
		m.name.at = 0
	case name == "end" || name == "ctrl+e":
		m.name.at = len(m.name.text)
	case name == "enter":
		return m.rename()
	case m.name.edit(name):
	default:
		return m.typed(text)
	}
	return nil
}

func (m *picker) rename() command {
	m.mode = browsing
	it, to := m.subject, m.name.String()
	switch to {
	case "":
		m.status = "A title has at least one character; the old one stays."
		return nil
	case it.Title:
		return nil
	}
	return m.write(func() writtenMsg {
		return writtenMsg{item: it, did: renamed, title: to, err: m.src.Rename(m.ctx, it, to)}
	})
}

func (m *picker) pick() command {
	r := m.selected()
	if r == nil {
		return nil
	}
	m.picked, m.ok = r.Item, true
	return m.leave()
}

// leave ends the picker once confirmed changes are kept. A second call does
// not wait any longer.
func (m *picker) leave() command {
	if m.writing > 0 && !m.leaving {
		m.leaving = true
		m.status = "Finishing; ^C leaves at once."
		return nil
	}
	return m.end()
}

// end ends the picker at once.
func (m *picker) end() command {
	m.over = true
	return nil
}
