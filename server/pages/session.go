package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
	"github.com/tidemark-sessions/tidemark/store/rewind"
	"github.com/tidemark-sessions/tidemark/transfer/resume"
)

const (
	// treeAtOnce is the number of entries up to which a page draws the tree of
	// a session itself: of some sessions all has to be read for it, and the page
	// should open first.
	treeAtOnce = 1000
	// shownForks and findHits bound what is shown beside a session.
	shownForks = 20
	findHits   = 100
	// shortestRef is how much of an id has to be there, as on the command line.
	shortestRef = 4
)

// looking is a viewer of a session, and what they look at.
type looking struct {
	st     *store.Store
	v      *store.View // the session
	log    *store.View // what is shown: the session, or a worker of it
	worker string
	node   string // the end of the branch, as requested
	tip    int64  // and its entry, 0 for the head
	at     int64  // the requested entry
	before int64  // entries before this one were requested
	later  int64  // entries after this one were requested
	onward int64  // entries from this one on were requested
	none   string // what was to be jumped to, and does not follow
	size   int    // how many entries are shown at once
	find   string
	hits   string       // the cursor of what was found before, of which more is wanted
	found  *hits.Answer // to find; nil: it was not looked for yet
	mine   bool
}

// look reads what the address of a page requests.
func (s *Site) look(r *http.Request) (*looking, error) {
	ctx, q := r.Context(), r.URL.Query()
	st, v, err := s.api.View(ctx, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	l := &looking{st: st, v: v, log: v, size: pageEntries, worker: q.Get("worker"), node: q.Get("node"), find: strings.TrimSpace(q.Get("find")), hits: q.Get("hits")}
	if l.worker != "" {
		if l.log, err = v.Worker(ctx, l.worker); err != nil {
			return nil, err
		}
	}
	if l.node != "" {
		if l.tip, err = l.log.At(ctx, l.node); err != nil {
			return nil, err
		}
	}
	if at := q.Get("at"); at != "" {
		if l.at, err = l.log.At(ctx, at); err != nil {
			return nil, err
		}
	}
	if err := l.jump(ctx, q); err != nil {
		return nil, err
	}
	for name, seq := range map[string]*int64{"before": &l.before, "later": &l.later, "onward": &l.onward} {
		if value := q.Get(name); value != "" {
			if *seq, err = strconv.ParseInt(value, 10, 64); err != nil || *seq < 1 {
				return nil, tidemark.Invalidf("%s %.20q: want the number of an entry", name, value)
			}
		}
	}
	l.mine = v.Owner == ""
	return l, nil
}

// atEnd reports whether the newest entry is shown, where more may come.
func (l *looking) atEnd() bool { return l.node == "" && l.unplaced() }

// unplaced reports whether no place in the log was requested: its end is shown.
func (l *looking) unplaced() bool { return l.at == 0 && l.before == 0 && l.later == 0 && l.onward == 0 }

// path is the address of the page with what it shows, except for the position.
func (l *looking) path(name string, value int64) string {
	q := url.Values{}
	for k, text := range map[string]string{"worker": l.worker, "node": l.node, "find": l.find, "hits": l.hits} {
		if text != "" {
			q.Set(k, text)
		}
	}
	text := ""
	if value > 0 {
		text = strconv.FormatInt(value, 10)
	}
	return address("/sessions/"+l.v.Name(), q, name, text)
}

// sessionPageOf shows one session.
func (s *Site) sessionPageOf(r *http.Request) (view, error) {
	ctx := r.Context()
	l, err := s.look(r)
	if err != nil {
		return view{}, s.meant(r, err)
	}
	problem, err := l.lookFor(ctx)
	if err != nil {
		return view{}, err
	}
	i := l.v.Info
	v := web.SessionView{Problem: problem, ID: string(i.ID), Name: i.Name(), Title: render.CleanLine(i.Title), Project: render.CleanLine(i.Project), Agent: render.CleanLine(i.Agent),
		Model: render.CleanLine(i.Model), Mode: i.Mode, ForeignID: render.CleanLine(i.ForeignID), Tags: cleanAll(i.Tags), State: i.State,
		Pinned: i.Pinned, OnHold: i.OnHold, Gone: !i.Gone.IsZero(), CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, Turns: i.Nodes, Messages: i.Messages, Length: i.Entries,
		Worker: render.CleanLine(l.worker), Node: render.CleanLine(l.node), At: l.at, NoneFollows: l.none, Find: render.CleanLine(l.find), Mine: l.mine, Formats: s.o.Formats, Agents: resume.Tools()}
	if v.Part, err = s.part(ctx, l, &v.Beside); err != nil {
		return view{}, err
	}
	if l.atEnd() && i.State == store.Live {
		v.Live = s.livePath(l, v.Part)
		if i.Tool != "" {
			v.Growing = l.path("at", 0)
		}
	}
	if v.From = max(l.at, 1); l.at == 0 && len(v.Part.Entries) > 0 {
		v.From = v.Part.Entries[0].Seq
	}
	for _, gather := range []func(context.Context, *looking, *web.SessionView) error{s.gatherEnd, gatherKin, s.gatherTree, gatherKept, gatherFound, gatherShare} {
		err := gather(ctx, l, &v)
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			v.Damage = append(v.Damage, render.CleanLine(err.Error()))
			err = nil
		case errors.Is(err, tidemark.ErrColdAway):
			v.ColdAway, err = true, nil // what is here is shown
		}
		if err != nil {
			return view{}, err
		}
	}
	if err := s.gatherTalk(r, l, &v); err != nil {
		return view{}, err
	}
	shown := []store.Info{i}
	if err := l.st.SetMachines(ctx, shown); err != nil {
		return view{}, err
	}
	v.Machine = render.CleanLine(shown[0].Machine)
	if v.Met, v.Writer, err = meetings(ctx, l.st, i.ID); err != nil {
		return view{}, err
	}
	f := s.frame(r, "session")
	if f.Title = v.Title; f.Title == "" {
		f.Title = v.ID[:8]
	}
	return view{f, v}, nil
}

// meant is where the session is that an address names by the beginning of its id
// or by its id in another tool, as on the command line; the error itself, if there is no
// such session, or there are several.
func (s *Site) meant(r *http.Request, err error) error {
	name := r.PathValue("id")
	if _, id := tidemark.CutOwner(name); !errors.Is(err, tidemark.ErrNotFound) || len(id) < shortestRef {
		return err
	}
	if _, _, found := s.api.View(r.Context(), name); found == nil {
		return err // something else is not there
	}
	st, opened := s.stores.Mine(r.Context())
	if opened != nil {
		return err
	}
	p, refused := st.Resolve(r.Context(), name, "")
	if errors.Is(refused, tidemark.ErrInvalid) {
		return refused // it says what it could mean
	}
	if refused != nil || p.Seq > 0 {
		return err
	}
	return elsewhere(address("/sessions/"+p.Name(), r.URL.Query(), "", ""))
}

// gatherEnd adds how the session ended and what it used.
func (s *Site) gatherEnd(ctx context.Context, l *looking, v *web.SessionView) error {
	lease, err := l.st.Lease(ctx, l.v.ID)
	if err != nil {
		return err
	}
	if v.End, err = sessionEnd(ctx, l.st, l.v, lease); err != nil {
		return err
	}
	s.asks(ctx, string(l.v.ID), &v.End)
	v.Usage, err = s.usedByNow(ctx, l.v)
	return err
}

// gatherKin adds the session's source, its forks, and its workers.
func gatherKin(ctx context.Context, l *looking, v *web.SessionView) error {
	title := func(id tidemark.SessionID) (string, bool) {
		i, err := l.st.Session(ctx, id)
		return render.CleanLine(i.Title), err == nil
	}
	if b := l.v.Base; b != nil {
		v.Base = sessionRef(l.v.Owner, b.Session)
		v.Base.Seq = b.Seq
		if t, there := title(b.Session); there {
			v.Base.Title = t
		} else {
			v.Base.ID = "" // it is gone; its past is kept with this one
		}
	}
	var err error
	if v.Workers, err = l.v.Workers(ctx); err != nil {
		return err
	}
	forks, err := l.v.Forks(ctx, shownForks)
	for _, id := range forks {
		if t, there := title(id); there {
			fork := sessionRef(l.v.Owner, id)
			fork.Title = t
			v.Forks = append(v.Forks, *fork)
		}
	}
	return err
}

// gatherTree draws the tree, if that is fast.
func (s *Site) gatherTree(ctx context.Context, l *looking, v *web.SessionView) error {
	if l.worker != "" || l.v.Nodes < 1 {
		return nil
	}
	if v.TreeLater = l.v.Entries > treeAtOnce; v.TreeLater {
		return nil
	}
	var err error
	v.Tree, err = l.tree(ctx, false, 0)
	return err
}

// tree draws the branches of the session, and lists its turns but for the newest
// skipped ones.
func (l *looking) tree(ctx context.Context, all bool, skipped int) (*web.TreeView, error) {
	sketch, err := l.v.Sketch(ctx)
	if err != nil {
		return nil, err
	}
	drawn := make([]web.TreeNode, len(sketch.Nodes))
	for i, n := range sketch.Nodes {
		drawn[i] = web.TreeNode{Number: n.Number, Parent: n.Parent, Label: render.CleanLine(n.Label), Current: n.Current}
		if n.Moved {
			drawn[i].Machine = web.Shorten(render.CleanLine(n.Machine))
		}
	}
	shown := int64(-1)
	if l.tip > 0 {
		if shown, err = sketch.NodeAt(ctx, l.tip); err != nil {
			return nil, err
		}
	}
	t, err := web.DrawTree(drawn, shown, all, skipped, func(places []int) error {
		// What belongs to the turn before cannot be told without that.
		read := slices.Clone(places)
		for _, i := range places {
			read = append(read, max(i-1, 0))
		}
		if err := sketch.Describe(ctx, read); err != nil {
			return err
		}
		for _, i := range places {
			describeTurn(&drawn[i], sketch.Nodes, i)
		}
		return nil
	})
	if err == nil {
		t.Asked = render.CleanLine(l.node)
	}
	return t, err
}

// describeTurn says what is read of a node. A command that the person ran is one turn with
// what it put out.
func describeTurn(to *web.TreeNode, nodes []store.Node, i int) {
	n := &nodes[i]
	words := n.Text
	if command, ok := rewind.TypedWords(words); ok {
		words = "! " + command
	} else if i > 0 && n.Parent == nodes[i-1].Number && rewind.PutOutWords(words) {
		var before string
		if before, to.Rest = rewind.TypedWords(nodes[i-1].Text); to.Rest {
			words = "! " + before
		}
	}
	to.Messages, to.First, to.At, to.Text = n.Messages, n.First, n.At, render.CleanLine(words)
	if n.Summary {
		to.Text = web.Say("", "session.outline.summary", to.Text)
	}
}

// treePage is only the picture of the branches.
func (s *Site) treePage(r *http.Request) (view, error) {
	l, err := s.look(r)
	if err != nil {
		return view{}, err
	}
	v := web.TreePage{ID: string(l.v.ID), Name: l.v.Name(), Title: render.CleanLine(l.v.Title)}
	q := r.URL.Query()
	skipped := 0
	if text := q.Get("skip"); text != "" {
		if skipped, err = strconv.Atoi(text); err != nil || skipped < 0 {
			return view{}, tidemark.Invalidf("skip %.20q: want a number of turns", text)
		}
	}
	if v.Tree, err = l.tree(r.Context(), q.Get("tree") == "all", skipped); err != nil {
		return view{}, err
	}
	return view{s.frame(r, "tree"), v}, nil
}

// gatherKept adds what is kept with the session.
func gatherKept(ctx context.Context, l *looking, v *web.SessionView) error {
	points, err := l.st.Checkpoints(ctx, l.v.ID)
	if err != nil {
		return err
	}
	for _, c := range points {
		v.Checkpoints = append(v.Checkpoints, web.CheckpointRow{Name: render.CleanLine(c.Name), Reason: render.CleanLine(c.Reason), Seq: c.Seq, SavedAt: c.SavedAt})
	}
	files, err := l.st.Files(ctx, l.v.ID)
	for _, f := range files {
		v.Files = append(v.Files, web.FileRow{Name: render.CleanLine(f.Name), Path: "/api/v1/sessions/" + l.v.Name() + "/files/" + url.PathEscape(f.Name),
			Size: f.Size, ModifiedAt: f.ModifiedAt})
	}
	return err
}

// lookFor searches the session for what is to be found in it. Without a place the page
// is that of the newest hit. The problem is what is wrong with the question.
func (l *looking) lookFor(ctx context.Context) (problem string, err error) {
	if l.find == "" {
		return "", nil
	}
	answer, err := ask(ctx, l.st, l.find, store.Question{Session: l.v.ID, Role: store.RoleAny, Trash: l.v.State != store.Live, Limit: findHits, After: l.hits})
	if errors.Is(err, tidemark.ErrInvalid) {
		return render.CleanLine(err.Error()), nil
	}
	if err != nil {
		return "", err
	}
	l.found = &answer
	if l.unplaced() {
		for _, h := range answer.Hits {
			if h.Worker == l.worker && !h.Draft {
				l.at = max(l.at, h.Seq)
			}
		}
	}
	return "", nil
}

// gatherFound tells what was found in the session.
func gatherFound(_ context.Context, l *looking, v *web.SessionView) error {
	answer := l.found
	if answer == nil {
		return nil
	}
	if v.Cut = answer.Cut; answer.Next != "" {
		v.MoreHits = address("/sessions/"+l.v.Name(), url.Values{"find": {l.find}, "worker": {l.worker}, "node": {l.node}}, "hits", answer.Next)
	}
	for _, found := range answer.Hits {
		if found.Seq == 0 {
			continue // the title is on the page
		}
		h := foundHit(found)
		h.Here = h.Seq == l.at && h.Worker == l.worker
		v.Hits = append(v.Hits, h)
	}
	sort.SliceStable(v.Hits, func(i, j int) bool { return v.Hits[i].Seq < v.Hits[j].Seq })
	for _, h := range v.Hits {
		switch {
		case h.Worker != l.worker || h.Draft:
		case l.at == 0 || h.Seq < l.at:
			v.Previous = h.Seq // the newest before what is shown
		case h.Seq > l.at && v.Next == 0:
			v.Next = h.Seq
		}
	}
	return nil
}

// gatherShare adds who else may read the session.
func gatherShare(ctx context.Context, l *looking, v *web.SessionView) error {
	with, owner, err := l.st.Shared(ctx, l.v.ID)
	if errors.Is(err, tidemark.ErrUnsupported) || err == nil && owner == "" {
		return nil // nobody else could read it
	}
	v.Share = &web.ShareView{With: with.With, Workspace: with.Workspace, Workspaces: request.CallerOf(ctx).Workspaces}
	return err
}
