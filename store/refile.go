package store

import (
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Refile returns a record of another store with the key, group and state that it
// has in this one: names, projects, checkpoints, handovers, files and items are found by
// hashes, and a sealed store hashes with a key of its own. Other records are
// returned unchanged. The zero Record means that the record is not to be copied.
func (s *Store) Refile(r tidemark.Record) (tidemark.Record, error) {
	switch id, more := sessionOf(r.Key); {
	case r.Kind == kindPlain:
		return tidemark.Record{}, nil // whether this store is plain was decided when it was made
	case r.Kind == kindSource || r.Kind == kindUnit || r.Kind == kindBookmark || r.Kind == records.KindWatch || r.Kind == records.KindRemote:
		return tidemark.Record{}, nil // the next import, watcher or sync of this store keeps its own
	case r.Kind == kindName:
		var n name
		if err := records.Decode(r, &n); err != nil {
			return r, err
		}
		r.Key, r.Group = s.nameKey(n), s.nameGroup(n.Class, n.Text)
	case r.Kind == kindSession:
		var sess tidemark.Session
		if err := records.Decode(r, &sess); err != nil {
			return r, err
		}
		r.Group = s.projectGroup(sess.Project)
	case r.Kind == kindCheckpoint && more != "":
		var c Checkpoint
		if err := records.Decode(r, &c); err != nil {
			return r, err
		}
		r.Key = s.checkpointKey(id, c.Name)
	case r.Kind == kindHandover:
		var err error
		if r, err = s.refileHandover(r); err != nil {
			return r, err
		}
	case r.Kind == kindProject:
		var p project
		if err := records.Decode(r, &p); err != nil {
			return r, err
		}
		r.Key = s.projectKey(p.Mark)
	case r.Kind == kindMemory:
		var m Memory
		if err := records.Decode(r, &m); err != nil {
			return r, err
		}
		r.Group = s.projectGroup(m.Project)
	case strings.HasPrefix(r.Kind, kindItem):
		var err error
		if r, err = s.refileItem(r); err != nil {
			return r, err
		}
	case r.Kind == kindFile:
		var f File
		if err := records.Decode(r, &f); err != nil {
			return r, err
		}
		if r.State != filling && r.State != tallying {
			r.Key = s.fileKey(id, f.Name)
		}
	}
	r.Sum = r.Checksum()
	return r, nil
}

// refileItem is Refile for an item.
func (s *Store) refileItem(r tidemark.Record) (tidemark.Record, error) {
	var i Item
	if err := records.Decode(r, &i); err != nil {
		return r, err
	}
	key, err := s.itemKey(i.Kind, i.ID)
	if err != nil {
		return r, &tidemark.Damage{Key: r.Key, What: err.Error()}
	}
	r.Key, r.Group, r.State = key, s.itemGroup(i.Parent), s.itemState(i.Session)
	return r, nil
}
