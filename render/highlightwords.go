package render

import (
	"slices"
	"strings"
	"sync"
)

// form is the way in which a language is read.
type form byte

const (
	codeForm form = iota
	styleForm
	markupForm
	diffForm
)

// grammar is what is known of a language.
type grammar struct {
	form      form
	comments  []string // signs of comments up to the end of the line
	blocks    []quote  // comments with an end; they are tried first
	quotes    []quote
	words     map[string]bool
	wordSigns string // what a word may contain besides letters, digits, _ and $
	key       byte   // what follows the key at the front of a line, 0 if there are no keys
	fold      bool   // keywords are recognised in capitals, too
	apart     bool   // a comment begins only after a blank
	directive bool   // a # at the front of a line begins a directive
	section   bool   // a line in brackets is the head of a section
	pairs     bool   // a string before a colon is a key

	leads [256]bool // the first bytes of comments and strings
}

// quote is a kind of string, or of comments.
type quote struct {
	open, close string
	escape      bool // a backslash escapes the character after it
	lines       bool // it may span several lines
	single      bool // it holds one character; other apostrophes mean something else
}

// languages is built when the first code with a language is rendered.
var languages = sync.OnceValue(newLanguages)

func newLanguages() map[string]*grammar {
	all := map[string]*grammar{}
	add := func(names, words string, g grammar) {
		g.words = map[string]bool{}
		for word := range strings.FieldsSeq(words) {
			g.words[word] = true
		}
		for _, q := range slices.Concat(g.blocks, g.quotes) {
			g.leads[q.open[0]] = true
		}
		for _, sign := range g.comments {
			g.leads[sign[0]] = true
		}
		for name := range strings.FieldsSeq(names) {
			all[name] = &g
		}
	}
	addBraces(add)
	addHashes(add)
	addDashes(add)
	addData(add)
	return all
}

var (
	double     = quote{open: `"`, close: `"`, escape: true}
	apostrophe = quote{open: `'`, close: `'`, escape: true}
	character  = quote{open: `'`, single: true}
	backquote  = quote{open: "`", close: "`", escape: true, lines: true}
	triple     = quote{open: `"""`, close: `"""`, escape: true, lines: true}
	slashStar  = quote{open: "/*", close: "*/", lines: true}
)

// addBraces adds the languages that look like C.
func addBraces(add func(names, words string, g grammar)) {
	braces := func(names, words string, quotes ...quote) {
		add(names, words, grammar{comments: []string{"//"}, blocks: []quote{slashStar}, quotes: quotes})
	}
	const ofC = "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false NULL "
	c := grammar{comments: []string{"//"}, blocks: []quote{slashStar}, quotes: []quote{double, character}, directive: true}
	add("c h objc objective-c", ofC+"self nil id", c)
	c.quotes = []quote{{open: `R"(`, close: `)"`, lines: true}, double, character}
	add("cpp c++ cc cxx hpp cuda", ofC+"alignas alignof catch class concept consteval constexpr const_cast co_await co_return co_yield decltype delete dynamic_cast explicit export final friend mutable namespace new noexcept nullptr operator override private protected public reinterpret_cast requires static_assert static_cast template this thread_local throw try typeid typename using virtual", c)
	c.quotes = []quote{triple, {open: `@"`, close: `"`, lines: true}, double, character}
	add("csharp cs c#", "abstract as async await base bool break byte case catch char checked class const continue decimal default delegate do double else enum event explicit extern false finally fixed float for foreach get goto if implicit in init int interface internal is lock long namespace new null object operator out override params private protected public readonly record ref return sbyte sealed set short sizeof stackalloc static string struct switch this throw true try typeof uint ulong unchecked unsafe ushort using var virtual void volatile when where while with yield", c)
	c.quotes = []quote{triple, double}
	add("swift", "actor any as associatedtype async await break case catch class continue default defer deinit do else enum extension fallthrough false fileprivate final for func guard if import in init inout internal is lazy let mutating nil nonisolated open operator override private protocol public repeat rethrows return self Self some static struct subscript super switch throw throws true try typealias unowned var weak where while", c)

	braces("go golang", "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false iota",
		quote{open: "`", close: "`", lines: true}, double, character)
	braces("java", "abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for goto if implements import instanceof int interface long native new null package permits private protected public record return sealed short static strictfp super switch synchronized this throw throws transient true false try var void volatile while yield",
		triple, double, character)
	braces("kotlin kt kts", "abstract actual annotation as break by catch class companion const constructor continue crossinline data do else enum expect external false final finally for fun get if import in infix init inline inner interface internal is lateinit noinline null object open operator out override package private protected public reified return sealed set super suspend tailrec this throw true try typealias val var vararg when where while",
		triple, double, character)
	braces("scala groovy gradle", "abstract case catch class def do else enum export extends extension false final finally for given if implicit import in lazy match new null object override package private protected return sealed super switch then this throw trait true try type using val var void while with yield",
		triple, double, character)
	braces("rust rs", "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use where while bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize",
		quote{open: `r#"`, close: `"#`, lines: true}, quote{open: `"`, close: `"`, escape: true, lines: true}, character)
	const ofJS = "as async await break case catch class const continue debugger default delete do else export extends false finally for from function get if import in instanceof let new null of return set static super switch this throw true try typeof undefined var void while with yield "
	braces("js javascript jsx mjs cjs node", ofJS, backquote, double, apostrophe)
	braces("ts typescript tsx mts", ofJS+"abstract any asserts bigint boolean declare enum implements infer interface is keyof module namespace never number object override private protected public readonly satisfies string symbol type unique unknown", backquote, double, apostrophe)
	braces("dart", "abstract as assert async await base break case catch class const continue covariant default deferred do dynamic else enum export extends extension external factory false final finally for get hide if implements import in interface is late library mixin new null on operator part required rethrow return sealed set show static super switch sync this throw true try typedef var void when while with yield",
		triple, quote{open: "'''", close: "'''", escape: true, lines: true}, double, apostrophe)
	braces("proto protobuf", "bool bytes double enum extend extensions fixed32 fixed64 float import int32 int64 map message oneof option optional package public repeated required reserved returns rpc service sint32 sint64 stream string syntax true false uint32 uint64", double, apostrophe)
	add("php", "abstract and array as break callable case catch class clone const continue declare default do echo else elseif empty enum extends final finally fn for foreach function global goto if implements include include_once instanceof insteadof interface isset list match namespace new null or print private protected public readonly require require_once return self static switch throw trait true false try unset use var while xor yield",
		grammar{comments: []string{"//", "# "}, blocks: []quote{slashStar}, quotes: []quote{{open: `"`, close: `"`, escape: true, lines: true}, {open: `'`, close: `'`, escape: true, lines: true}}})
	css := grammar{form: styleForm, blocks: []quote{slashStar}, quotes: []quote{double, apostrophe}, wordSigns: "-"}
	add("css", "", css)
	css.comments, css.apart = []string{"//"}, true // after a colon it is an address
	add("scss less sass", "", css)
}

// addHashes adds the languages whose comments begin with a #.
func addHashes(add func(names, words string, g grammar)) {
	hash := []string{"#"}
	wide := []quote{{open: `"`, close: `"`, escape: true, lines: true}, {open: `'`, close: `'`, lines: true}}
	add("python py python3 py3 pyi", "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield",
		grammar{comments: hash, quotes: []quote{triple, {open: "'''", close: "'''", escape: true, lines: true}, double, apostrophe}})
	add("ruby rb", "alias and begin break case class def do else elsif end ensure extend false for if in include module next nil not or private protected public raise redo require rescue retry return self super then true undef unless until when while yield",
		grammar{comments: hash, quotes: []quote{double, apostrophe}, apart: true})
	add("sh bash zsh shell ksh fish", "alias break case continue declare do done elif else end esac eval exec exit export fi for function if in local read readonly return select set shift source then trap unset until while",
		grammar{comments: hash, quotes: wide, wordSigns: "-", apart: true})
	add("perl pl", "and cmp do else elsif eq foreach for ge gt if last le local lt my ne next no not or our package redo require return sub undef unless until use while x",
		grammar{comments: hash, quotes: []quote{double, apostrophe}, apart: true})
	add("r", "break else FALSE for function if in Inf library NA NaN next NULL repeat return TRUE while",
		grammar{comments: hash, quotes: []quote{double, apostrophe}, wordSigns: "."})
	add("elixir ex exs", "after alias and case catch cond def defmacro defmodule defp defstruct do else end false fn for if import in nil not or quote raise receive require rescue true try unless unquote use when with",
		grammar{comments: hash, quotes: []quote{triple, double, apostrophe}, apart: true})
	add("yaml yml", "true false null yes no on off", grammar{comments: hash, quotes: []quote{{open: `"`, close: `"`, escape: true, lines: true}, {open: `'`, close: `'`, lines: true}}, wordSigns: "-./", key: ':', apart: true})
	add("toml", "true false inf nan", grammar{comments: hash, quotes: []quote{triple, {open: "'''", close: "'''", lines: true}, double, {open: `'`, close: `'`}}, key: '=', section: true})
	add("dockerfile docker containerfile", "ADD ARG AS CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR",
		grammar{comments: hash, quotes: []quote{double, apostrophe}, wordSigns: "-", apart: true})
	add("makefile make mk", "define else endef endif export ifdef ifeq ifndef ifneq include override undefine unexport vpath",
		grammar{comments: hash, quotes: []quote{double, {open: `'`, close: `'`}}, wordSigns: "-", key: ':', apart: true})
	add("terraform hcl tf", "data dynamic false for for_each if in locals module moved null output provider resource terraform true variable",
		grammar{comments: []string{"#", "//"}, blocks: []quote{slashStar}, quotes: []quote{double}, wordSigns: "-", apart: true})
}

// addDashes adds the languages whose comments begin with two dashes.
func addDashes(add func(names, words string, g grammar)) {
	dashes := []string{"--"}
	add("sql postgresql postgres psql plpgsql mysql sqlite", "add all alter and as asc begin between bigint boolean by case cast check column commit conflict constraint create cross current_timestamp database date default delete desc distinct do drop else end except exists explain false foreign from full function grant group having if in index inner insert int integer intersect interval into is join key language lateral left like limit not null numeric offset on or order outer over partition primary references replace returning returns revoke right rollback row rows select serial set table text then timestamp to transaction trigger true truncate union unique update using values varchar view when where window with",
		grammar{comments: dashes, blocks: []quote{slashStar}, quotes: []quote{{open: `'`, close: `'`, lines: true}, {open: `"`, close: `"`}}, fold: true})
	add("lua luau", "and break do else elseif end false for function goto if in local nil not or repeat return then true until while",
		grammar{comments: dashes, blocks: []quote{{open: "--[[", close: "]]", lines: true}}, quotes: []quote{{open: "[[", close: "]]", lines: true}, double, apostrophe}})
	haskell := grammar{comments: dashes, blocks: []quote{{open: "{-", close: "-}", lines: true}}, quotes: []quote{double, character}, wordSigns: "'"}
	add("haskell hs elm", "as case class data default deriving do else exposing family forall foreign hiding if import in infix infixl infixr instance let module newtype of port qualified then type where", haskell)
}

// addData adds the languages of data and of documents.
func addData(add func(names, words string, g grammar)) {
	json := grammar{quotes: []quote{double}, pairs: true}
	add("json ndjson jsonl geojson", "true false null", json)
	json.comments, json.blocks, json.quotes = []string{"//"}, []quote{slashStar}, []quote{double, apostrophe}
	add("jsonc json5", "true false null Infinity NaN", json)
	add("ini cfg conf properties dotenv env editorconfig gitconfig", "", grammar{comments: []string{"#", ";"}, quotes: []quote{double}, key: '=', apart: true, section: true})
	add("html htm xhtml xml svg vue svelte rss plist xsd xsl", "", grammar{form: markupForm})
	add("diff patch udiff", "", grammar{form: diffForm})
}
