package files

import (
	"io"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// maxKeys bounds how many keys are remembered over all logs, some 100 bytes
// each.
const maxKeys = 200_000

// keyCache remembers the keys of the newest lines of logs that were appended
// to with keys, so that an append does not read them again.
type keyCache struct {
	mu    sync.Mutex
	logs  map[tidemark.Key]*keyWindow
	total int
}

// keyWindow is used only by the holder of its log's stripe.
type keyWindow struct {
	life string // of the log that was read
	end  int64  // where that reading ended
	seqs map[string]int64
}

func (c *keyCache) get(log tidemark.Key) *keyWindow {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logs[log]
}

func (c *keyCache) set(log tidemark.Key, w *keyWindow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total+len(w.seqs) > maxKeys || c.logs == nil {
		c.logs, c.total = make(map[tidemark.Key]*keyWindow), 0
	}
	c.logs[log] = w
	c.total += len(w.seqs)
}

func (c *keyCache) forget(log tidemark.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.logs, log)
}

// duplicates returns the lines whose keys the log already has.
func (b *Backend) duplicates(t *target, lines []tidemark.Line) (known []tidemark.Duplicate, err error) {
	var w *keyWindow
	for i := range lines {
		key := lines[i].Key
		if key == "" {
			continue
		}
		if w == nil {
			if w, err = b.window(t); err != nil {
				return nil, err
			}
		}
		if seq, ok := w.seqs[key]; ok {
			known = append(known, tidemark.Duplicate{Log: t.log, Key: key, Seq: seq})
		}
	}
	return known, nil
}

// window returns the keys of at least the newest tidemark.KeyWindow lines. It
// reads only what was added since it last looked.
func (b *Backend) window(t *target) (*keyWindow, error) {
	w := b.keys.get(t.log)
	if w != nil && w.life == t.st.life && w.end <= t.st.end && len(w.seqs) < 4*tidemark.KeyWindow {
		if w.end == t.st.end {
			return w, nil
		}
		return w, w.read(&forward{f: t.f, at: w.end, limit: t.st.end}, t)
	}
	w = &keyWindow{life: t.st.life, seqs: make(map[string]int64)}
	if t.st.Length > 0 {
		r, err := seek(t.f, t.log, &t.st, t.st.Length-tidemark.KeyWindow+1)
		if err != nil {
			return nil, err
		}
		if err := w.read(r, t); err != nil {
			return nil, err
		}
	}
	b.keys.set(t.log, w)
	return w, nil
}

func (w *keyWindow) read(r *forward, t *target) error {
	var l line
	for {
		row, err := r.next()
		if err == io.EOF {
			w.end = t.st.end
			return nil
		}
		if err != nil {
			return err
		}
		if parseLine(row.bytes, t.log, &l) == nil {
			w.add(l.Key, l.Seq)
			continue
		}
		for _, g := range salvage(row, t.log) {
			w.add(g.Key, g.Seq)
		}
	}
}

func (w *keyWindow) add(key string, seq int64) {
	if key != "" {
		w.seqs[key] = seq
	}
}

// appended adds what this process itself appended to the window.
func (b *Backend) appended(t *target, before state, lines []tidemark.Line) {
	w := b.keys.get(t.log)
	if w == nil {
		return
	}
	if w.end != before.end || w.life != before.life {
		b.keys.forget(t.log)
		return
	}
	for i := range lines {
		w.add(lines[i].Key, lines[i].Seq)
	}
	w.end, w.life = t.st.end, t.st.life
}
