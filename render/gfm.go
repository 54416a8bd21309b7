package render

import (
	"bytes"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// What people and models write beyond plain Markdown: struck text and tables.
// goldmark has both in its extensions, but linking those costs every start of
// the program 0.7 ms, and their tables take time and memory for cells that
// nobody wrote. Task lists and bare addresses are found when text is written.

var (
	kindStrike = ast.NewNodeKind("Strike")
	kindTable  = ast.NewNodeKind("Table")
	kindRow    = ast.NewNodeKind("Row")
	kindCell   = ast.NewNodeKind("Cell")
)

type strike struct{ ast.BaseInline }

func (*strike) Kind() ast.NodeKind { return kindStrike }

func (s *strike) Dump(source []byte, level int) { ast.DumpHelper(s, source, level, nil, nil) }

// strikeParser finds ~~struck~~ text.
type strikeParser struct{}

func (strikeParser) Trigger() []byte { return []byte{'~'} }

func (strikeParser) IsDelimiter(c byte) bool { return c == '~' }

func (strikeParser) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (strikeParser) OnMatch(int) ast.Node { return &strike{} }

func (p strikeParser) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	d := parser.ScanDelimiter(line, before, 2, p)
	if d == nil || d.OriginalLength != 2 || before == '~' {
		return nil
	}
	d.Segment = segment.WithStop(segment.Start + 2)
	block.Advance(2)
	pc.PushDelimiter(d)
	return d
}

// tableNode is a table, a row of it or a cell, distinguished by its kind.
type tableNode struct {
	ast.BaseBlock
	kind  ast.NodeKind
	head  bool
	align byte // alignment of a cell: l, c, r, or 0
}

func (n *tableNode) Kind() ast.NodeKind { return n.kind }

func (n *tableNode) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// maxColumns bounds the width of a table. Nobody reads a wider one, and
// the dashes below the head would cost more than they show.
const maxColumns = 100

// tables turns the end of a paragraph whose lines look like a table into one.
type tables struct{}

func (tables) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	lines, source := p.Lines(), reader.Source()
	for i := 1; i < lines.Len(); i++ {
		at := lines.At(i)
		aligns := alignments(at.Value(source))
		if aligns == nil {
			continue
		}
		head := row(lines.At(i-1), source, aligns, true)
		if head.ChildCount() != len(aligns) {
			return
		}
		table := &tableNode{kind: kindTable}
		table.AppendChild(table, head)
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, row(lines.At(j), source, aligns, false))
		}
		p.Parent().InsertAfter(p.Parent(), p, table)
		lines.SetSliced(0, i-1)
		if i == 1 {
			p.Parent().RemoveChild(p.Parent(), p)
		}
		return
	}
}

// alignments reads the line of dashes below a table's head, and returns nil
// for any other line.
func alignments(line []byte) []byte {
	if bytes.IndexByte(line, '|') < 0 || bytes.IndexByte(line, '-') < 0 {
		return nil
	}
	line = bytes.TrimSpace(line)
	line = bytes.TrimSuffix(bytes.TrimPrefix(line, []byte{'|'}), []byte{'|'})
	if bytes.Count(line, []byte{'|'}) >= maxColumns {
		return nil
	}
	var all []byte
	for cell := range bytes.SplitSeq(line, []byte{'|'}) {
		cell = bytes.TrimSpace(cell)
		dashes, left := bytes.CutPrefix(cell, []byte{':'})
		dashes, right := bytes.CutSuffix(dashes, []byte{':'})
		if len(dashes) == 0 || len(bytes.Trim(dashes, "-")) > 0 {
			return nil
		}
		switch {
		case left && right:
			all = append(all, 'c')
		case right:
			all = append(all, 'r')
		case left:
			all = append(all, 'l')
		default:
			all = append(all, 0)
		}
	}
	return all
}

// row splits a line into cells; those beyond the table's columns are left
// out, except in the head, which defines how many there are.
func row(line text.Segment, source []byte, aligns []byte, head bool) *tableNode {
	line = line.TrimLeftSpace(source)
	line = line.TrimRightSpace(source)
	s := line.Value(source)
	r := &tableNode{kind: kindRow, head: head}
	at := len(s) - len(bytes.TrimPrefix(s, []byte{'|'}))
	for column := 0; at < len(s) && column < len(aligns)+1; column++ {
		end := at
		for end < len(s) && (s[end] != '|' || end > 0 && s[end-1] == '\\') {
			end++
		}
		if column == len(aligns) && !head {
			break
		}
		cell := &tableNode{kind: kindCell, head: head}
		if column < len(aligns) {
			cell.align = aligns[column]
		}
		part := text.NewSegment(line.Start+at, line.Start+end)
		part = part.TrimLeftSpace(source)
		part = part.TrimRightSpace(source)
		cell.Lines().Append(part)
		r.AppendChild(r, cell)
		at = end + 1
	}
	return r
}

// newParser returns a parser for Markdown as it is written in conversations.
func newParser() parser.Parser {
	return parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithInlineParsers(util.Prioritized(strikeParser{}, 500)),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithParagraphTransformers(util.Prioritized(tables{}, 200)),
	)
}
