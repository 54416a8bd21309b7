package sync

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// Remote is a place that this store shares its sessions by, as a list shows it.
type Remote struct {
	Name     string    `json:"name"`
	URL      string    `json:"url"`
	MetAt    time.Time `json:"met_at,omitzero"` // when it was last read or written without a fault
	Machines []Machine `json:"machines"`
}

// Machine is one store that shares its sessions by a remote.
type Machine struct {
	ID   string    `json:"id"`
	Name string    `json:"name"`
	At   time.Time `json:"at,omitzero"` // when it last wrote, by its clock
	This bool      `json:"this,omitempty"`
}

// Row is a remote as a table shows it; when says a time.
func (r Remote) Row(when func(time.Time) string) []string {
	var names []string
	for _, m := range r.Machines {
		alike := 0
		for _, other := range r.Machines {
			alike += btoi(other.Name == m.Name)
		}
		name := m.Name
		if alike > 1 { // what tells them apart, also to forget one
			name += fmt.Sprintf(" (%.8s)", m.ID)
		}
		names = append(names, name)
	}
	met := "never"
	if !r.MetAt.IsZero() {
		met = when(r.MetAt)
	}
	return []string{r.Name, met, strings.Join(names, ", "), r.URL}
}

// machineBytes is the length of the id of a machine.
const machineBytes = 8

// thisMachine is the record of what this store is called at its first remote. The id
// is another one after the store was restored from a backup, and at each other remote.
type thisMachine struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

var machineKey = records.MachineKey

// settings is the record of a remote: where it is, what opens it, and what was last
// seen there, which a remote that shows less has lost or hides.
type settings struct {
	Name     string           `json:"name"`
	URL      string           `json:"url"`
	Identity string           `json:"identity"` // opens the keyring
	Store    string           `json:"store"`    // the id of the keyring
	Ring     int64            `json:"ring"`     // the newest keyring that was seen
	Machine  string           `json:"machine"`  // what this store is called there
	Own      point            `json:"own"`
	Under    string           `json:"under,omitempty"`   // the key of the keyring that it was sealed with
	Pending  *point           `json:"pending,omitempty"` // the head that was about to be written
	Again    bool             `json:"again,omitempty"`   // what is there of this machine is damaged
	Peers    map[string]*peer `json:"peers,omitempty"`
	MetAt    time.Time        `json:"met_at,omitzero"`

	version int64
}

// named adds to an error of a place which remote that is.
func (c *settings) named(err error) error { return fmt.Errorf("remote %s: %w", c.Name, err) }

// point is one head of a machine.
type point struct {
	Generation int64  `json:"generation"`
	Hash       string `json:"hash"`
}

// peer is what was seen of another machine.
type peer struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	point
	Shards map[int]string `json:"shards"` // those of which nothing waits
}

// Remotes manages the remotes of a store.
type Remotes struct {
	k      *records.Kernel
	host   string
	places *remote.Options
}

// Of returns the remotes of a store; host is what other machines call this one, and
// places is what opens them.
func Of(k *records.Kernel, host string, places *remote.Options) *Remotes {
	return &Remotes{k: k, host: host, places: places}
}

func (r *Remotes) key(name string) tidemark.Key {
	return tidemark.Key{Kind: records.KindRemote, ID: "r" + r.k.Hash("remote", name)}
}

// checkName returns ErrInvalid for a name that no remote can have.
func checkName(name string) error {
	if len(name) > 40 || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return tidemark.Invalidf("remote %.40q: want lower-case letters, digits and dashes", name)
	}
	return nil
}

func noRemote() error {
	return hint.With(tidemark.NotFoundf("this store has no remote"), "add one: tidemark remote add home file:/media/stick/tidemark")
}

// names returns the remote that is named, or all of them where none is: ErrNotFound.
func (r *Remotes) names(ctx context.Context, name string) (names []string, err error) {
	if name != "" {
		c, err := r.load(ctx, name)
		return []string{c.Name}, err
	}
	for c, err := range r.all(ctx) {
		if err != nil {
			return nil, err
		}
		names = append(names, c.Name)
	}
	if slices.Sort(names); len(names) == 0 {
		return nil, noRemote()
	}
	return names, nil
}

// load returns the settings of a remote; "" means the only one. ErrNotFound.
func (r *Remotes) load(ctx context.Context, name string) (*settings, error) {
	if name == "" {
		all, err := r.List(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(all) == 0:
			return nil, noRemote()
		case len(all) > 1:
			return nil, hint.With(tidemark.Invalidf("this store has %d remotes", len(all)), "name one of them, such as: %s", all[0].Name)
		}
		name = all[0].Name
	}
	var c settings
	rec, err := r.k.Get(ctx, r.key(name), &c)
	if err == nil && rec.Version == 0 {
		err = hint.With(tidemark.NotFoundf("there is no remote %.40q", name), "see which there are: tidemark remote ls")
	}
	c.version = rec.Version
	return &c, err
}

func (r *Remotes) save(ctx context.Context, c *settings) error {
	rec, err := records.Put(r.key(c.Name), c.version, c)
	if err == nil {
		_, err = r.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{rec}})
	}
	if err == nil {
		c.version++
	}
	return err
}

// noteMachines remembers the machines of a remote, and when it was last met, where
// others look for it.
func (r *Remotes) noteMachines(ctx context.Context, c *settings) error {
	me, err := r.machine(ctx)
	if err != nil {
		return err
	}
	return r.changeMachines(ctx, func(m *store.Machines) {
		m.This, m.Names[me.ID] = me.ID, me.Name
		if c.Machine != "" && c.Machine != me.ID && !slices.Contains(m.Others, c.Machine) {
			m.Others = append(m.Others, c.Machine)
		}
		if c.Machine != "" {
			m.Names[c.Machine] = me.Name
		}
		for id, p := range c.Peers {
			m.Names[id] = cmp.Or(p.Name, m.Names[id])
		}
		if !c.MetAt.IsZero() {
			m.Met[c.Name] = c.MetAt
		}
	})
}

func (r *Remotes) changeMachines(ctx context.Context, change func(*store.Machines)) error {
	return records.Retry(ctx, func() error {
		m := store.Machines{}
		old, err := r.k.Get(ctx, records.MachinesKey, &m)
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if m.Names == nil {
			m.Names = make(map[string]string)
		}
		if m.Met == nil {
			m.Met = make(map[string]time.Time)
		}
		change(&m)
		rec, err := records.Put(records.MachinesKey, old.Version, m)
		if err == nil {
			_, err = r.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{rec}})
		}
		return err
	})
}

// machine returns what this store is called, which it decides when it is first asked.
func (r *Remotes) machine(ctx context.Context) (m thisMachine, err error) {
	err = records.Retry(ctx, func() error {
		rec, err := r.k.Get(ctx, machineKey, &m)
		if err != nil || rec.Version > 0 {
			return err
		}
		m, err = r.rename(ctx, 0)
		return err
	})
	return m, err
}

// machineAt returns what this store is called at a remote, and notes it in c. No two
// remotes have the same id. A store that was restored from a backup finds out at a
// remote where there is more under its id than it knows of; one that keeps less would
// let it give names that are taken elsewhere.
func (r *Remotes) machineAt(ctx context.Context, c *settings) (thisMachine, error) {
	me, err := r.machine(ctx)
	if err != nil {
		return me, err
	}
	id, taken := cmp.Or(c.Machine, me.ID), false
	for other, err := range r.all(ctx) {
		if err != nil {
			return me, err
		}
		// Earlier programs used one id everywhere: the first remote keeps it.
		taken = taken || other.Machine == id && other.Name != c.Name && (c.Machine == "" || other.Name < c.Name)
	}
	if taken {
		id, c.Own, c.Pending = newMachineID(), point{}, nil
	}
	c.Machine, me.ID = id, id
	return me, nil
}

func newMachineID() string {
	var id [machineBytes]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// rename gives this store another id.
func (r *Remotes) rename(ctx context.Context, version int64) (thisMachine, error) {
	m := thisMachine{ID: newMachineID(), Name: cmp.Or(r.host, "machine")}
	if len(m.Name) > maxName {
		m.Name = m.Name[:maxName]
	}
	rec, err := records.Put(machineKey, version, m)
	if err == nil {
		_, err = r.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{rec}})
	}
	return m, err
}

// List returns the remotes, by name.
func (r *Remotes) List(ctx context.Context) ([]Remote, error) {
	var all []Remote
	me := thisMachine{}
	if _, err := r.k.Get(ctx, machineKey, &me); err != nil {
		return nil, err
	}
	for c, err := range r.all(ctx) {
		if err != nil {
			return nil, err
		}
		one := Remote{Name: c.Name, URL: c.URL, MetAt: c.MetAt, Machines: []Machine{{ID: cmp.Or(c.Machine, me.ID), Name: me.Name, At: c.MetAt, This: true}}}
		for id, p := range c.Peers {
			one.Machines = append(one.Machines, Machine{ID: id, Name: p.Name, At: p.At})
		}
		slices.SortFunc(one.Machines[1:], func(a, b Machine) int { return cmp.Compare(a.ID, b.ID) })
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Remote) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// all yields the settings of the remotes.
func (r *Remotes) all(ctx context.Context) iter.Seq2[*settings, error] {
	return func(yield func(*settings, error) bool) {
		for rec, err := range r.k.Backend().List(ctx, tidemark.Query{Kind: records.KindRemote, Prefix: "r", Order: tidemark.ByID}) {
			if err == nil && (strings.Contains(rec.ID, ".") || rec.Owner != "") {
				continue
			}
			c := &settings{version: rec.Version}
			if err == nil {
				err = records.Decode(rec, c)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// URLs returns where the remotes are.
func (r *Remotes) URLs(ctx context.Context) (urls []string, err error) {
	all, err := r.List(ctx)
	for _, one := range all {
		urls = append(urls, one.URL)
	}
	return urls, err
}

// Add makes a remote known to this store. An empty place becomes a remote. One that
// others made opens with code: what Pair returned there, or any age identity or
// recovery key that they let in. ErrSealed: it opens with something else.
func (r *Remotes) Add(ctx context.Context, name, url, code string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if has, err := r.k.Has(ctx, r.key(name)); err != nil || has {
		return cmp.Or(err, hint.With(tidemark.Existsf("there is a remote %s already", name), "give this one another name, or leave the other: tidemark remote rm %s", name))
	}
	blobs, err := remote.Open(ctx, url, r.places)
	if err != nil {
		return err
	}
	defer blobs.Close()
	c := &settings{Name: name, URL: url}
	m, err := r.machineAt(ctx, c)
	if err != nil {
		return err
	}
	identity, slot, err := seal.NewIdentity(m.ID)
	if err != nil {
		return err
	}
	c.Identity = identity
	version, body, err := newestRing(ctx, blobs)
	var ring *seal.Ring
	switch {
	case err != nil:
		return err
	case version == 0:
		ring, err = seal.NewRing(slot)
	case code == "":
		return hint.With(tidemark.Errorf(tidemark.ErrSealed, "%s: others use it already, and nothing was given that opens it", url),
			"on one of their machines: tidemark remote pair; then here: tidemark remote add %s %s --code-file FILE", name, url)
	default:
		if ring, err = letIn(ctx, body, code, slot); err != nil {
			err = fmt.Errorf("%s: %w", url, err)
		}
	}
	if err != nil {
		return err
	}
	if err := putRing(ctx, blobs, version+1, ring); err != nil {
		return err
	}
	c.Ring, c.Store = version+1, ring.Header().Store
	return r.save(ctx, c)
}

// Remove makes this store forget a remote. What is there stays there.
func (r *Remotes) Remove(ctx context.Context, name string) error {
	c, err := r.load(ctx, name)
	if err != nil {
		return err
	}
	b := tidemark.Batch{Deletes: []tidemark.Precondition{{Key: r.key(c.Name), Version: c.version}}}
	for rec, err := range r.k.Backend().List(ctx, tidemark.Query{Kind: records.KindRemote, Prefix: r.key(c.Name).ID + ".", Order: tidemark.ByID}) {
		if err != nil {
			return err
		}
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: rec.Key, Version: rec.Version})
	}
	if _, err := r.k.Commit(ctx, b); err != nil {
		return err
	}
	return r.changeMachines(ctx, func(m *store.Machines) { delete(m.Met, c.Name) })
}

// Where returns the name and the URL of a remote, as another machine adds it; "" means
// the only one.
func (r *Remotes) Where(ctx context.Context, name string) (string, error) {
	c, err := r.load(ctx, name)
	if err != nil {
		return "", err
	}
	return c.Name + " " + c.URL, nil
}
