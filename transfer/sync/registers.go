package sync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/store"
)

// What people say about a session is kept in registers: one for its title, its pin,
// its hold and its trash, one for each tag, each label and each mark. Of two values
// the one with the higher version counts, of one version that of the higher machine:
// no clock decides. A version is one more than the highest that its writer had seen
// of the session. Joining registers in any order, any number of times, gives the
// same, and so all machines end with the same.

// register is one value, nil when there is none any more.
type register struct {
	Version int64           `json:"version"`
	Machine string          `json:"machine"`
	Value   json.RawMessage `json:"value,omitempty"`
}

// beats reports whether r counts and not other.
func (r register) beats(other register) bool {
	if r.Version != other.Version {
		return r.Version > other.Version
	}
	if r.Machine != other.Machine {
		return r.Machine > other.Machine
	}
	return bytes.Compare(r.Value, other.Value) > 0
}

// join adds registers to others, and reports whether anything changed.
func join(into, from map[string]register) (changed bool) {
	for key, r := range from {
		if have, ok := into[key]; !ok || r.beats(have) {
			into[key], changed = r, true
		}
	}
	return changed
}

// masked returns what another machine says of a session without the secrets that
// are masked here: the title as this machine gives it anew, and no tag or label that
// has one, whose name would have to be kept to be taken back.
func (y *syncer) masked(all map[string]register) map[string]register {
	out := make(map[string]register, len(all))
	for key, r := range all {
		if y.k.Mask(key) != key {
			continue
		}
		var title string
		if key == regTitle && json.Unmarshal(r.Value, &title) == nil {
			if masked := y.k.Mask(title); masked != title {
				value, _ := records.Encode(masked)
				r = register{Version: r.Version + 1, Machine: y.me.ID, Value: value}
			}
		}
		out[key] = r
	}
	return out
}

// The keys of registers.
const (
	regTitle = "title"
	regPin   = "pin"
	regHold  = "hold"
	regTrash = "trash"
	regTag   = "tag/"
	regLabel = "label/"
	regMask  = "mask/"
)

var yes = json.RawMessage("true")

// mask is the value of a register of a mark: what is masked in an entry.
type mask struct {
	Name    Name           `json:"name"`
	Worker  string         `json:"worker,omitempty"`
	Secrets []store.Secret `json:"secrets"`
}

// maxVersion bounds a version, so that no machine can use them up.
const maxVersion = 1 << 53

// checkRegisters returns ErrCorrupt for registers that nobody could have written.
func checkRegisters(all map[string]register) error {
	for key, r := range all {
		ok := r.Version > 0 && r.Version < maxVersion && isMachine(r.Machine) && len(key) <= 2*records.MaxTextBytes
		switch text := new(string); {
		case r.Value == nil:
		case key == regTitle:
			ok = ok && json.Unmarshal(r.Value, text) == nil
		case key == regPin || key == regHold || key == regTrash || strings.HasPrefix(key, regTag):
			ok = ok && bytes.Equal(r.Value, yes)
		case strings.HasPrefix(key, regLabel):
			var n Name
			ok = ok && json.Unmarshal(r.Value, &n) == nil && n.ok()
		case strings.HasPrefix(key, regMask):
			var m mask
			ok = ok && json.Unmarshal(r.Value, &m) == nil && m.Name.ok()
		}
		if !ok {
			return corruptf("register %.40q: not one", key)
		}
	}
	return nil
}

// said returns what is said about a session here, in the form of registers.
func (y *syncer) said(ctx context.Context, i store.Info, o *origins) (map[string]json.RawMessage, error) {
	now := make(map[string]json.RawMessage)
	if i.Title != "" {
		now[regTitle], _ = records.Encode(i.Title)
	}
	for key, is := range map[string]bool{regPin: i.Pinned, regHold: i.OnHold, regTrash: i.State == store.Trash} {
		if is {
			now[key] = yes
		}
	}
	for _, tag := range i.Tags {
		now[regTag+tag] = yes
	}
	v, err := y.s.ViewOf(i)
	if err != nil {
		return nil, err
	}
	masks, err := y.seenMasks(ctx, i.ID, o)
	if err != nil {
		return nil, err
	}
	labels := make(map[string]int64)
	for n, err := range v.Notes(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		switch n.Kind {
		case store.NoteLabel:
			labels[n.Text] = n.Seq
		case store.NoteMask:
			m := mask{Worker: n.Worker, Secrets: n.Secrets}
			if key, known := masks[m.at(n.Seq)]; known {
				now[key] = o.Seen[key]
			} else if m.Name, err = y.nameIn(ctx, i.ID, n.Worker, n.Seq); err == nil {
				value, _ := records.Encode(m)
				now[regMask+hashOf(value)] = value
			} else if !isAbsent(err) {
				return nil, err
			}
		}
	}
	for text, seq := range labels {
		if at, ours := o.Branches[text]; ours && at == seq {
			continue
		}
		// An entry that two machines imported has a name of each. What was agreed on
		// stays, or each would correct the other.
		var n Name
		if old := o.Seen[regLabel+text]; old != nil && json.Unmarshal(old, &n) == nil {
			if at, err := y.seqOf(ctx, n); err == nil && at == seq {
				now[regLabel+text] = old
				continue
			}
		}
		n, err := y.nameOf(ctx, i.ID, seq)
		if isAbsent(err) {
			continue // it gets its name when its entry is pushed
		}
		if err != nil {
			return nil, err
		}
		now[regLabel+text], _ = records.Encode(n)
	}
	return now, nil
}

// at tells whether two marks are the same here, where the entry has this seq.
func (m mask) at(seq int64) string {
	text, _ := records.Encode([]any{m.Worker, seq, m.Secrets})
	return string(text)
}

// seenMasks returns the keys of the marks that were agreed on.
func (y *syncer) seenMasks(ctx context.Context, id tidemark.SessionID, o *origins) (map[string]string, error) {
	keys := make(map[string]string)
	for key, value := range o.Seen {
		var m mask
		if !strings.HasPrefix(key, regMask) || json.Unmarshal(value, &m) != nil {
			continue
		}
		seq, err := y.seqIn(ctx, id, m.Worker, m.Name)
		if err != nil && !isAbsent(err) {
			return nil, err
		}
		if err == nil {
			keys[m.at(seq)] = key
		}
	}
	return keys, nil
}

// seqIn is seqOf for an entry of a worker's log, too.
func (y *syncer) seqIn(ctx context.Context, id tidemark.SessionID, worker string, n Name) (int64, error) {
	if worker == "" {
		return y.seqOf(ctx, n)
	}
	o, err := loadOrigins(ctx, y.k, id, worker)
	if err != nil {
		return 0, err
	}
	seq, ok := o.find(n.Machine, n.Line)
	if !ok {
		err = tidemark.NotFoundf("line %d of machine %s: not here", n.Line, n.Machine)
	}
	return seq, err
}

// nameIn is nameOf for an entry of a worker's log, too.
func (y *syncer) nameIn(ctx context.Context, id tidemark.SessionID, worker string, seq int64) (Name, error) {
	if worker == "" {
		return y.nameOf(ctx, id, seq)
	}
	o, err := loadOrigins(ctx, y.k, id, worker)
	if err != nil {
		return Name{}, err
	}
	n, ok := o.born(seq)
	if !ok {
		return n, tidemark.NotFoundf("entry %d of worker %s: has no name yet", seq, worker)
	}
	return n, nil
}

// stamp gives what was changed here since it was last compared a version of this
// machine.
func (o *origins) stamp(now map[string]json.RawMessage, machine string) {
	version := int64(0)
	for _, r := range o.Registers {
		version = max(version, r.Version)
	}
	version++
	keys := maps.Clone(now)
	maps.Copy(keys, o.Seen)
	for key := range keys {
		if bytes.Equal(now[key], o.Seen[key]) {
			continue
		}
		if o.Registers == nil {
			o.Registers = make(map[string]register)
		}
		o.Registers[key] = register{Version: version, Machine: machine, Value: now[key]}
		o.changed = true
	}
	o.Seen = now
}

// wanted returns what the registers say together: a hold keeps a session out of the
// trash.
func wanted(all map[string]register) map[string]json.RawMessage {
	want := make(map[string]json.RawMessage)
	for key, r := range all {
		if r.Value != nil {
			want[key] = r.Value
		}
	}
	if want[regHold] != nil {
		delete(want, regTrash)
	}
	return want
}

// settle makes the session say what the registers say, and remembers that in o.Seen.
// What cannot be done yet stays to be done, and waiting says why.
func (y *syncer) settle(ctx context.Context, id tidemark.SessionID, o *origins) (waiting string, err error) {
	want := wanted(o.Registers)
	differs := func(key string) bool { return !bytes.Equal(want[key], o.Seen[key]) }
	did := func(key string) {
		o.changed = true
		if want[key] == nil {
			delete(o.Seen, key)
		} else {
			o.Seen[key] = want[key]
		}
	}
	if o.Seen == nil {
		o.Seen = make(map[string]json.RawMessage)
	}
	if err := y.settlePatch(ctx, id, want, differs, did); err != nil {
		return "", err
	}
	if differs(regTrash) {
		move := y.s.Restore
		if want[regTrash] != nil {
			move = y.s.Trash
		}
		switch err := move(ctx, id); {
		case errors.Is(err, tidemark.ErrHeld):
			return "it is open here, and goes to the trash when it is closed", nil
		case err != nil:
			return "", err
		}
		did(regTrash)
	}
	return y.settleEntries(ctx, id, want, differs, did)
}

// settlePatch settles title, pin, hold and tags.
func (y *syncer) settlePatch(ctx context.Context, id tidemark.SessionID, want map[string]json.RawMessage, differs func(string) bool, did func(string)) error {
	var p store.Patch
	var done []string
	if differs(regTitle) && want[regTitle] != nil {
		var title string
		if err := json.Unmarshal(want[regTitle], &title); err != nil {
			return corruptf("a title that is none")
		}
		p.Title, done = &title, append(done, regTitle)
	}
	for key, field := range map[string]**bool{regPin: &p.Pinned, regHold: &p.OnHold} {
		if differs(key) {
			is := want[key] != nil
			*field, done = &is, append(done, key)
		}
	}
	i, err := y.s.Session(ctx, id)
	if err != nil {
		return err
	}
	tags, changed := slices.Clone(i.Tags), false
	keys := maps.Clone(want)
	for _, tag := range i.Tags {
		keys[regTag+tag] = nil
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		tag, is := strings.CutPrefix(key, regTag)
		if !is || !differs(key) {
			continue
		}
		tags = slices.DeleteFunc(tags, func(t string) bool { return t == tag })
		if want[key] != nil {
			tags = append(tags, tag)
		}
		changed, done = true, append(done, key)
	}
	if changed {
		p.Tags = &tags
	}
	if len(done) == 0 {
		return nil
	}
	if _, err := y.s.Change(ctx, id, p); err != nil {
		return err
	}
	for _, key := range done {
		did(key)
	}
	return nil
}

// settleEntries settles labels and marks. Those of entries that are not here yet wait.
func (y *syncer) settleEntries(ctx context.Context, id tidemark.SessionID, want map[string]json.RawMessage, differs func(string) bool, did func(string)) (waiting string, err error) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		text, isLabel := strings.CutPrefix(key, regLabel)
		if isMask := strings.HasPrefix(key, regMask); !isLabel && !isMask || !differs(key) {
			continue
		}
		if isLabel {
			var n Name
			if json.Unmarshal(want[key], &n) != nil {
				return "", corruptf("a label of nothing")
			}
			var seq int64
			if seq, err = y.seqOf(ctx, n); err == nil {
				err = y.s.Label(ctx, id, seq, text)
			}
		} else {
			err = y.settleMask(ctx, id, want[key])
		}
		if isAbsent(err) {
			waiting = "a label or mark waits for its entry"
			continue
		}
		if err != nil {
			return "", err
		}
		did(key)
	}
	return waiting, nil
}

func (y *syncer) settleMask(ctx context.Context, id tidemark.SessionID, value json.RawMessage) error {
	var m mask
	if json.Unmarshal(value, &m) != nil {
		return corruptf("a mark of nothing")
	}
	v, err := y.s.View(ctx, id)
	if err != nil {
		return err
	}
	if m.Worker != "" {
		if v, err = v.Worker(ctx, m.Worker); err != nil {
			return err
		}
	}
	seq, err := y.seqIn(ctx, id, m.Worker, m.Name)
	if err != nil {
		return err
	}
	return v.MarkSecrets(ctx, seq, m.Secrets)
}
