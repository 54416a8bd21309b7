package render

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// HTML writes a session as one self-contained HTML page: no script, no font,
// no picture from elsewhere. It opens from a file, reads well on a phone, in
// the dark, on paper and aloud, and its own policy forbids the browser to run
// or load anything, should foreign text ever get through.
//
// Entries are written as they are read. A damaged one, whose error is
// ErrCorrupt, becomes a notice in its place; the first such error is returned
// when all is written. Any other error, of entries or of w, ends the page
// where it is and is returned.
func HTML(w io.Writer, d Document, entries iter.Seq2[tidemark.Entry, error]) error {
	h := newPage(buffered(w), &Transcript{Labels: d.Labels, Words: d.Words})
	h.callers, h.md.framed = d.callers(), d.Framed
	h.head(&d)
	if err := h.tree(d.Tree); err != nil {
		return err
	}
	h.workers(d.Workers)
	h.mix(`<main id="transcript" tabindex="-1" aria-label="`, h.s.Conversation, "\">\n")
	damage := transcribe(entries, h.entry, h.damaged, h.w)
	for i, worker := range d.Workers {
		if damage != nil && !errors.Is(damage, tidemark.ErrCorrupt) {
			return damage
		}
		damage = cmp.Or(damage, h.worker(i, worker))
	}
	if damage != nil && !errors.Is(damage, tidemark.ErrCorrupt) {
		return damage
	}
	h.foot(&d)
	if err := h.w.Flush(); err != nil {
		return err
	}
	return damage
}

// Transcript writes entries as HTML without a page around them, for pages with
// their own layout. They need Style to look right. The zero value has no
// labels and is in English.
type Transcript struct {
	Labels map[int64]string // by the seq of their entry
	Words  *Words           // nil: English
}

// Entries writes one <article> per entry. Errors are as those of HTML.
func (t *Transcript) Entries(w io.Writer, entries iter.Seq2[tidemark.Entry, error]) error {
	h := newPage(buffered(w), t)
	return transcribe(entries, h.entry, h.damaged, h.w)
}

// Entry writes e as one <article>. The error is that of w.
func (t *Transcript) Entry(w io.Writer, e tidemark.Entry) error {
	h := newPage(bufio.NewWriter(w), t)
	h.entry(e)
	return h.w.Flush()
}

//go:embed style.css
var style string

// Style is the style sheet of the pages and of transcripts.
func Style() string { return style }

// StyleHash is the source that a content security policy names to allow Style
// on a page.
var StyleHash = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
})

// htmlPage is a page while it is written.
type htmlPage struct {
	w      *bufio.Writer
	s      *Words
	labels map[int64]string
	md     mdHTML
	json   []byte

	used    map[string]usedTool
	callers map[string]int // the calls that started workers, with the workers' indexes
	within  string         // prefix of ids; "" for the session itself
}

func newPage(w *bufio.Writer, t *Transcript) *htmlPage {
	s := wordsOr(t.Words)
	return &htmlPage{w: w, s: s, labels: t.Labels, md: mdHTML{w: w, s: s}}
}

// say writes HTML: tags and numbers.
func (h *htmlPage) say(parts ...string) {
	for _, p := range parts {
		h.w.WriteString(p)
	}
}

// line writes text of one line.
func (h *htmlPage) line(s string) { escape(h.w, CleanLine(s)) }

// mix writes tags and text alternately, tags first.
func (h *htmlPage) mix(parts ...string) {
	for i, p := range parts {
		if i%2 == 0 {
			h.w.WriteString(p)
		} else {
			h.line(p)
		}
	}
}

func (h *htmlPage) head(d *Document) {
	title := d.title(h.s)
	h.mix("<!doctype html>\n<html lang=\"", h.s.Lang, "\">\n<head>\n<meta charset=\"utf-8\">\n")
	baseURI, base := "'none'", ""
	if d.Framed {
		// Links to entries would lead to the address of the page around it.
		baseURI, base = "about:", `<base href="about:srcdoc">`+"\n"
	}
	h.say(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src `, StyleHash(),
		`; img-src data:; base-uri `, baseURI, `; form-action 'none'">`, "\n", base,
		`<meta name="viewport" content="width=device-width, initial-scale=1">`, "\n",
		`<meta name="referrer" content="no-referrer">`, "\n",
		`<meta name="color-scheme" content="light dark">`, "\n")
	h.mix("<title>", title, "</title>\n")
	h.say("<style>", style, "</style>\n</head>\n<body>\n")
	h.mix(`<a class="skip" href="#transcript">`, h.s.Skip, "</a>\n<header class=\"top\">\n<h1 dir=\"auto\">", title, "</h1>\n")
	if facts := d.facts(h.s); len(facts) > 0 {
		h.say("<dl>\n")
		for _, f := range facts {
			h.mix("<div><dt>", f.name, "</dt><dd><bdi>", f.value, "</bdi></dd></div>\n")
		}
		h.say("</dl>\n")
	}
	h.say("</header>\n")
}

// openTree is the largest tree that is shown unfolded.
const openTree = 30

// tree draws the nodes as Tree does, with links to their entries. Screen
// readers skip the lines of the drawing.
func (h *htmlPage) tree(nodes []Node) error {
	if len(nodes) == 0 {
		return nil
	}
	open := ""
	if len(nodes) <= openTree {
		open = " open"
	}
	h.mix("<nav aria-label=\"", h.s.Branches, "\">\n<details class=\"tree\""+open+"><summary>", h.s.Branches,
		" ("+strconv.Itoa(len(nodes))+")</summary>\n<pre tabindex=\"0\">")
	d := newDrawing(h.w, &documentTree)
	d.name, d.text = func(n *Node) { h.nodeName(n, d.labelOf(n)) }, h.line
	if err := d.drawAll(nodes); err != nil {
		return err
	}
	h.say("</pre>\n</details>\n</nav>\n")
	return nil
}

// workers lists the workers, with links to their transcripts.
func (h *htmlPage) workers(all []Worker) {
	if len(all) == 0 {
		return
	}
	h.mix("<nav aria-label=\"", h.s.Workers, "\">\n<details class=\"tree\" open><summary>", h.s.Workers,
		" ("+strconv.Itoa(len(all))+")</summary>\n<ul>\n")
	for i, w := range all {
		h.mix(`<li><a href="#`+workerID(i)+`"><bdi>`, w.Name, "</bdi></a></li>\n")
	}
	h.say("</ul>\n</details>\n</nav>\n")
}

// workerID is the id of the transcript of the worker at i.
func workerID(i int) string { return "w" + strconv.Itoa(i+1) }

// worker writes the transcript of a worker.
func (h *htmlPage) worker(i int, w Worker) error {
	id := workerID(i)
	h.mix(`<section class="worker" id="`+id+`" aria-labelledby="`+id+`h">`+"\n<h2 id=\""+id+`h">`, h.s.Worker+" "+w.Name, "</h2>\n")
	h.within, h.labels = id, nil
	err := transcribe(w.Entries, h.entry, h.damaged, h.w)
	h.say("</section>\n")
	return err
}

func (h *htmlPage) nodeName(n *Node, label string) {
	name := "n" + strconv.FormatInt(n.Number, 10)
	if n.Seq > 0 {
		h.say(`<a href="#e`, strconv.FormatInt(n.Seq, 10), `">`, name, "</a>")
	} else {
		h.say(name)
	}
	if n.Label != "" {
		h.mix(" [<bdi>", label, "</bdi>]")
	}
}

func (h *htmlPage) foot(d *Document) {
	h.mix("</main>\n<footer>", h.s.Footer, "")
	if at := clock(d.ExportedAt); at != "" {
		h.say(" · ", at)
	}
	h.say("</footer>\n</body>\n</html>\n")
}

// roleClass is the class that colours an entry. The role's name is also
// shown as text.
func roleClass(r tidemark.Role) string {
	if r.Valid() {
		return string(r)
	}
	return "other"
}

// begin opens an entry and its head.
func (h *htmlPage) begin(seq int64, class, who string) {
	n, level := strconv.FormatInt(seq, 10), "h2"
	if h.within != "" {
		level = "h3"
	}
	id := h.within + "e" + n
	h.mix(`<article class="entry `+class+`" id="`+id+`" aria-labelledby="`+h.within+`h`+n+"\">\n<header><"+level+` id="`+h.within+"h"+n+`">`, who,
		"</"+level+`> <a class="seq" href="#`+id+`" aria-label="`, h.s.Permalink+" "+n, `">#`+n+"</a>")
}

func (h *htmlPage) entry(e tidemark.Entry) {
	if e.Empty() { // there is nothing to see, but a link may lead to it
		h.say(`<span id="`, h.within, "e", strconv.FormatInt(e.Seq, 10), "\"></span>\n")
		return
	}
	h.begin(e.Seq, roleClass(e.Role), h.s.who(&e))
	if label := h.labels[e.Seq]; label != "" {
		h.mix(` <span class="label"><span class="quiet">`, h.s.Label, "</span> <bdi>", label, "</bdi></span>")
	}
	if !e.At.IsZero() {
		h.say(` <time datetime="`, e.At.UTC().Format(time.RFC3339), `">`, clock(e.At), "</time>")
	}
	for _, s := range []string{e.Model, h.s.cost(e.Usage), h.s.draft(&e)} {
		if s != "" {
			h.mix(` <span class="fact"><bdi>`, s, "</bdi></span>")
		}
	}
	h.say("</header>\n")
	h.body(e)
	h.say("</article>\n")
}

// body writes what an entry is and holds.
func (h *htmlPage) body(e tidemark.Entry) {
	switch e.Kind {
	case tidemark.KindBranch:
		n := strconv.FormatInt(e.Parent, 10)
		h.mix(`<p class="note">`, h.s.BranchFrom, ` <a href="#`+h.within+"e"+n+`">#`+n+"</a></p>\n")
	case tidemark.KindGap:
		h.note(h.s.GapText)
	}
	h.blocks(e)
}

// blocks writes the content of an entry; context added by a tool is folded.
func (h *htmlPage) blocks(e tidemark.Entry) {
	if e.Context() {
		h.folded(gist(e.Text()), e.Blocks)
		return
	}
	for i, b := range e.Blocks {
		said, context := tidemark.Spoken(b.Text)
		if e.Role != tidemark.User || b.Type != tidemark.BlockText || len(context) == 0 {
			h.block(&e.Blocks[i], 0)
			continue
		}
		b.Text = said
		h.block(&b, 0)
		for _, c := range context {
			h.folded(gist(c), []tidemark.Block{tidemark.Text(c)})
		}
	}
}

func (h *htmlPage) folded(gist string, blocks []tidemark.Block) {
	h.say(`<details class="context">`)
	h.summary(h.s.Context, "", hint(gist))
	for i := range blocks {
		if b := &blocks[i]; b.Type == tidemark.BlockText {
			h.pre(b.Text) // it is not prose, and full of tags
		} else {
			h.block(b, 0)
		}
	}
	h.say("</details>\n")
}

func (h *htmlPage) damaged(e tidemark.Entry, err error) {
	h.begin(e.Seq, "damaged", h.s.Damaged)
	h.mix("</header>\n<p class=\"note\">⚠ ", h.s.DamagedText, " <bdi>", err.Error(), "</bdi></p>\n</article>\n")
}
