package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/search"
)

// tiny is enough to walk every path once.
var tiny = size{reps: 2, appends: 2, writers: []int{3}, shared: 6, logs: []int{200, 1_000}, peer: 1_000, tails: 2,
	trees: []int{1_000}, branches: 2, listed: [2]int{100, 100}, lists: 1, few: 50, processes: 1, entries: 2_000, moved: 2_000, asked: 3, lags: 1, moves: 2, deltas: 200, foreign: 2e6,
	unchanged: 20, followed: 20, noticed: 2, idle: 100 * time.Millisecond, synced: 60, shelved: 60, turned: 400, rolled: 200}

// TestMain lets the test stand for the program where that starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == costCommand {
		os.Exit(costOfChild(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == streamCommand {
		os.Exit(readStream(os.Args[2:]))
	}
	if len(os.Args) > 4 && os.Args[1] == linkCommand {
		os.Exit(serveLink(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// built returns the real program.
func built(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tidemark")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/tidemark").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

func TestEveryPartFillsItsRowsAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	r := &run{size: tiny, log: io.Discard, program: built(t)}
	if err := r.all(t.Context(), dir, ""); err != nil {
		t.Fatal(err)
	}
	var ran []string
	goals := make(map[string]bool)
	for _, s := range r.sections {
		ran = append(ran, s.part)
		if strings.HasPrefix(s.part, "team-") && len(s.rows) == 0 { // no PostgreSQL
			goals["P12"], goals["P13"], goals["P17"], goals["P19"] = true, true, true, true
		}
		for _, row := range s.rows {
			goals[row.goal] = true
			if row.value == "" && row.time.median <= 0 {
				t.Errorf("%s: took no time", row.what)
			}
			if row.against != "" && row.ratio.median <= 0 {
				t.Errorf("%s beside %s: no ratio", row.what, row.against)
			}
		}
	}
	if d := cmp.Diff(partNames(), ran); d != "" {
		t.Error(d)
	}
	for _, goal := range []string{"P1", "P3", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P15", "P16", "P17", "P18", "P19"} {
		if !goals[goal] {
			t.Errorf("no row for %s", goal)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAPartThatIsNotThereIsAnError(t *testing.T) {
	r := &run{size: tiny, log: io.Discard}
	if err := r.all(t.Context(), t.TempDir(), "appent"); err == nil || !strings.Contains(err.Error(), "append") {
		t.Errorf("error = %v, want one that names the parts", err)
	}
}

func TestPagesAreBothPartsOfThem(t *testing.T) {
	r := &run{size: tiny, log: io.Discard} // without a program they only say so
	if err := r.all(t.Context(), t.TempDir(), "pages"); err != nil {
		t.Fatal(err)
	}
	var ran []string
	for _, s := range r.sections {
		ran = append(ran, s.part)
	}
	if d := cmp.Diff([]string{"pages-paint", "pages-scroll"}, ran); d != "" {
		t.Error(d)
	}
}

func TestAPageThatGetsNoFrameAnyMoreIsScrolledAnew(t *testing.T) {
	b, err := openBrowser(t.Context())
	if err != nil {
		t.Skip(err)
	}
	defer b.close()
	defer func(was time.Duration) { noFrame = was }(noFrame)
	noFrame = time.Second
	stuck := 2
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if q.URL.Path != "/" {
			http.NotFound(w, q)
			return
		}
		fmt.Fprint(w, "<!doctype html><title>stuck</title><div style='height: 9000px'>words</div>")
		if stuck > 0 {
			stuck--
			fmt.Fprint(w, "<script>const frame = requestAnimationFrame; let left = 3; window.requestAnimationFrame = (then) => left-- > 0 ? frame(then) : 0</script>")
		}
	}))
	defer site.Close()
	page, err := b.open(t.Context(), site.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer page.close()
	_, err = page.roll(5, "frames.length >= 60")
	if err == nil || !strings.Contains(err.Error(), noFrames) || !strings.Contains(err.Error(), `"frames":2`) {
		t.Errorf("error = %v, want that no frames come, after two", err)
	}
	said := 0
	pages := scroller{on: b, say: func(string, ...any) { said++ }}
	got, _, err := pages.scroll(t.Context(), site.URL, 5, "frames.length >= 60")
	if err != nil || len(got.Frames) != 60 || pages.anew != 1 || said != 1 {
		t.Errorf("%d frames, %d× anew, said %d×: %v", len(got.Frames), pages.anew, said, err)
	}
	stuck, pages.anew = 2, drawnAnew-1
	if _, _, err = pages.scroll(t.Context(), site.URL, 5, "frames.length >= 60"); err == nil || !strings.Contains(err.Error(), noFrames) || pages.anew != drawnAnew {
		t.Errorf("error = %v after %d× anew, want that no frames come after %d×", err, pages.anew, drawnAnew)
	}
}

func TestOnlyTheTablesOfPartsThatRanAreRewritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	begin, end := marks("seal")
	other, otherEnd := marks("list")
	before, after := "# Title\n\n"+other+"kept\n"+otherEnd, "\n## More\n"
	if err := os.WriteFile(name, []byte(before+begin+"old\n"+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
	s := section{part: "seal", table: table{rows: []row{{what: "append"}}}}
	for range 2 {
		if err := rewrite(name, []section{s}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before+begin+"\n"+s.markdown()+"\n"+end+after, string(got)); d != "" {
		t.Error(d)
	}
}

func TestRowsForProgramsHaveWhatTheTableHas(t *testing.T) {
	var out strings.Builder
	s := section{part: "seal", table: table{rows: []row{{goal: "P1", what: "append <b>", time: spread{median: 1e3}, against: "a sync", ratio: spread{1.2, 1.1, 1.3}, want: want{ratioAtMost: 1.3}}}}}
	s.skip("node is not there")
	if err := s.objects(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"beside":"a sync","goal":"P1","met":"yes","middle_half":"1.1 – 1.3","part":"seal","ratio":"1.2×","time":"1.0 µs","wanted":"≤ 1.3×","work":"append <b>"}` + "\n" +
		`{"not_measured":"node is not there","part":"seal"}` + "\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

func TestRewriteRefusesAPageWithoutMarks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(name, []byte("# Title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(name, []section{{part: "seal"}}); err == nil {
		t.Error("a page without marks was rewritten")
	}
}

func TestThePageOfFiguresHasAPlaceForEveryPart(t *testing.T) {
	page, err := os.ReadFile("../../docs/" + tablesPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range partNames() {
		begin, end := marks(part)
		if !strings.Contains(string(page), begin) || !strings.Contains(string(page), end) {
			t.Errorf("there are no marks for %s", part)
		}
	}
}

func TestTheTextIsTheSameEachTimeAndHasARareWordOnce(t *testing.T) {
	c, again := newCorpus(2*rareEvery), newCorpus(2*rareEvery)
	found, bytes := 0, 0
	for i := range c.entries {
		e := c.entry(i)
		if d := cmp.Diff(e, again.entry(i)); d != "" {
			t.Fatal(d)
		}
		text := search.Text(e)
		bytes += len(text)
		if strings.Contains(text, rare(1)) {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d entries have the rare word, want 1", found)
	}
	if each := bytes / c.entries; each < 900 || each > 1200 {
		t.Errorf("%d bytes of text an entry, want some 1000", each)
	}
}

func TestRatiosAreTakenRepetitionByRepetition(t *testing.T) {
	s := samples{"a": {{each: 10}, {each: 40}, {each: 90}}, "b": {{each: 10}, {each: 20}, {each: 30}}}
	if d := cmp.Diff(spread{median: 2, low: 1.5, high: 2.5}, s.ratio("a", "b"), cmp.AllowUnexported(spread{})); d != "" {
		t.Error(d)
	}
}

func TestVerdictsFollowThePrintedFigures(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{ratio: spread{median: 1.34}, want: want{ratioAtMost: 1.3}}, "yes"}, // printed as 1.3
		{row{ratio: spread{median: 1.36}, want: want{ratioAtMost: 1.3}}, "no"},
		{row{ratio: spread{median: 8.1}, faster: true, want: want{ratioAtLeast: 8}}, "yes"},
		{row{time: spread{median: 51e3}, want: want{timeAtMost: 50e3}}, "no"},
		{row{time: spread{median: 51e3}}, ""},
		{row{ratio: spread{median: 1.054}, fine: true, want: want{ratioAtMost: 1.05}}, "yes"},
		{row{ratio: spread{median: 1.06}, fine: true, want: want{ratioAtMost: 1.05}}, "no"},
	} {
		if got := c.row.verdict(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.row, got, c.want)
		}
	}
}

func TestFiguresAreShort(t *testing.T) {
	for ns, want := range map[float64]string{450: "0.45 µs", 67_400: "67 µs", 2_640_000: "2.6 ms", 171e6: "171 ms", 1.82e9: "1.8 s"} {
		if got := duration(ns); got != want {
			t.Errorf("duration(%v) = %q, want %q", ns, got, want)
		}
	}
	if got := number(164_432); got != "164,000" {
		t.Errorf("number = %q", got)
	}
}

func TestGrowthIsThatOfWhatIsWaitedFor(t *testing.T) {
	page := strings.Join([]string{
		"| P3 | tail of 50 of 1k: files | 100 µs |  |  |  |  |  |",
		"| P3 | tail of 50 of 1M: files | 110 µs |  |  |  |  |  |",
		"| P3 | tail of 50 of 100k: files | 105 µs |  |  |  |  |  |",
		"| P6 | newest 50 of 1k sessions: files | 1.0 ms |  |  |  |  |  |",
		"| P6 | newest 50 of 10k sessions: files | 10 ms |  |  |  |  |  |",
		"| P11 | jobs -n 0, all of 1k: files | 1.0 ms |  |  |  |  |  |",
		"| P11 | jobs -n 0, all of 10k: files | 10 ms |  |  |  |  |  |",
		"| P8 | search a word in 1k entries: sqlite | 1.0 ms |  |  |  |  |  |",
	}, "\n")
	var got []string
	for _, g := range growth(page) {
		got = append(got, strings.Join(g.row().cells(), " | "))
	}
	want := []string{
		"P20 | tail of 50 of n: files; n = 1k, 100k, 1M; n^0.01 | 110 µs | the same with 1k | 1.1× |  | ≤ 2× | yes",
		"P20 | newest 50 of n sessions: files; n = 1k, 10k; n^1.00 | 10 ms | the same with 1k | 10× |  | ≤ 1.3× | no",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestThePageForVisitorsSaysWhatTheTablesSay(t *testing.T) {
	if os.Getenv("TIDEMARK_UPDATE") != "" {
		if err := summarise("../../docs/"+tablesPage, "../../docs/"+visitorsPage); err != nil {
			t.Fatal(err)
		}
	}
	tables, err := os.ReadFile("../../docs/" + tablesPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range growth(string(tables)) {
		if !strings.Contains(string(tables), "| "+strings.Join(g.row().cells(), " | ")+" |") {
			t.Errorf("the table of growth has no row for %s; scripts/bench.sh -doc docs writes it, TIDEMARK_UPDATE=1 alone", g.work)
		}
	}
	rows := judgedRows(string(tables))
	if len(rows) < 50 {
		t.Fatalf("%d rows with a verdict were found on the page of tables", len(rows))
	}
	page, err := os.ReadFile("../../docs/" + visitorsPage)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), summary(rows)) {
		t.Error("the summary is not that of the tables; scripts/bench.sh -doc docs writes it with the tables, TIDEMARK_UPDATE=1 alone")
	}
	for _, j := range rows {
		if !slices.ContainsFunc(goals, func(g struct{ id, about string }) bool { return g.id == j.goal }) {
			t.Errorf("%s is no goal: %s", j.goal, j.work)
		}
		other := j.met && strings.Contains(j.wanted, " or ")                                         // the other figure of the row may reach it
		if !math.IsNaN(j.short) && j.met != (j.short <= 1) && math.Abs(j.short-1) > 0.06 && !other { // verdicts go by figures before rounding
			t.Errorf("%s: %s beside %s is called %v", j.work, j.figure, j.wanted, j.met)
		}
	}
}

func TestTheSummaryShowsTheRowThatIsFurthestFromItsGoal(t *testing.T) {
	page := strings.Join([]string{
		"| P1 | near | 1.0 µs | a sync | 1.3× | 1 – 2 | ≤ 1.25× | no |",
		"| P1 | far | 1.0 µs | a sync | 5.0× | 1 – 9 | ≤ 1.25× | no |",
		"| P1 | met, and far better | 1.0 µs | a sync | 0.1× | 0 – 1 | ≤ 1.25× | yes |",
		"| P4 | slow | 20 ms |  |  |  | ≤ 10 µs | no |",
		"| P4 | unlike | 3 |  |  |  | 0 | no |",
		"| P11 | rate | 4.0 ms |  |  |  | ≥ 500 a second | no |",
		"|  | no goal | 4.0 ms |  | 7.0× |  |  |  |",
	}, "\n")
	got := summary(judgedRows(page))
	for _, want := range []string{
		"| P1 | a durable append, one writer | 1 of 3 | far | 5.0× | a sync | ≤ 1.25× |",
		"| P4 | 50 entries in the middle | 0 of 2 | slow | 20 ms |  | ≤ 10 µs |",
		"| P11 | a fleet | 0 of 1 | rate | 4.0 ms |  | ≥ 500 a second |",
		"| P2 | durable appends, 64 writers | not measured |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if short := shortfall("4.0 ms", "≥ 500 a second"); math.Abs(short-2) > 1e-9 {
		t.Errorf("shortfall %v", short)
	}
}
