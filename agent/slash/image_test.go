package slash

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/tool"
)

// png is as much of an image as anybody here looks at.
func png(content string) []byte { return []byte("\x89PNG\r\n\x1a\n" + content) }

func writeImage(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDraggedImagesStandInTheLineAndAreSentWithIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of Windows are not escaped")
	}
	dir := t.TempDir()
	tides := writeImage(t, filepath.Join(dir, "tides.png"), png("tides"))
	moon := writeImage(t, filepath.Join(dir, "the moon's [1].PNG"), png("moon"))
	for name, pasted := range map[string]string{
		"as they are":    tides + "\n" + strings.NewReplacer(" ", `\ `, "'", `\'`).Replace(moon) + " ",
		"in quotes":      "'" + tides + `' "` + moon + `"`,
		"as addresses":   "file://" + tides + "\r\nfile://" + strings.NewReplacer(" ", "%20", "[", "%5B", "]", "%5D").Replace(moon),
		"quotes in half": tides + " '" + strings.Replace(moon, "'", `'\''`, 1) + "'",
	} {
		t.Run(name, func(t *testing.T) {
			c := &Conversation{Out: &bytes.Buffer{}}
			signs, notice := c.Paste(pasted)
			if want := []string{"[image: tides.png, 13 bytes]", "[image: the moon's _….PNG, 12 bytes]"}; !slices.Equal(signs, want) || notice != "" {
				t.Fatalf("%q: %q, %q, want %q", pasted, signs, notice, want)
			}
			got := c.Pasted("what is " + signs[1] + " beside " + signs[0] + "?")
			if len(got) != 2 || got[0].Name != "the moon's [1].PNG" || string(got[1].Data) != string(png("tides")) || got[1].MediaType != "image/png" || got[1].Type != tidemark.BlockImage {
				t.Errorf("sent: %+v", got)
			}
		})
	}
}

func TestAPathWithBlanksThatNobodyEscapedIsOneImage(t *testing.T) {
	c := &Conversation{Out: &bytes.Buffer{}}
	if signs, _ := c.Paste(writeImage(t, filepath.Join(t.TempDir(), "a b.png"), png("x"))); len(signs) != 1 {
		t.Errorf("%q", signs)
	}
}

func TestAPastedDataAddressIsAnImage(t *testing.T) {
	c := &Conversation{Out: &bytes.Buffer{}}
	code := base64.StdEncoding.EncodeToString(png("tides"))
	signs, notice := c.Paste("data:image/png;base64," + code[:8] + "\n" + code[8:] + "\n")
	if len(signs) != 1 || signs[0] != "[image: pasted, 13 bytes]" || notice != "" {
		t.Fatalf("%q, %q", signs, notice)
	}
	if got := c.Pasted(signs[0]); len(got) != 1 || string(got[0].Data) != string(png("tides")) {
		t.Errorf("sent: %+v", got)
	}
	if signs, notice = c.Paste("data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte("no image"))); signs != nil || !strings.Contains(notice, "PNG") {
		t.Errorf("what only says that it is an image: %q, %q", signs, notice)
	}
}

func TestWhatIsNoImageIsPastedAsText(t *testing.T) {
	dir := t.TempDir()
	shot := writeImage(t, filepath.Join(dir, "shot.png"), png("x"))
	text := writeImage(t, filepath.Join(dir, "text.png"), []byte("just text"))
	big := writeImage(t, filepath.Join(dir, "big.png"), png(strings.Repeat("x", tool.MaxImage)))
	folder := filepath.Join(dir, "folder.png")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for pasted, why := range map[string]string{
		"hello there":                         "",
		"look at " + shot:                     "",
		shot + " please":                      "",
		"shot.png":                            "",
		"https://example.org/shot.png":        "",
		filepath.Join(dir, "nosuch.png"):      "",
		folder:                                "",
		text:                                  "no image that models take",
		big:                                   "more than",
		"'" + shot:                            "",
		"data:image/png,x":                    "",
		"data:image/png;base64,***":           "",
		strings.Repeat(shot+" ", maxPasted+1): "",
		"":                                    "",
	} {
		c := &Conversation{Out: &bytes.Buffer{}}
		if signs, notice := c.Paste(pasted); signs != nil || why == "" && notice != "" || !strings.Contains(notice, why) {
			t.Errorf("%.80q: %q, %q", pasted, signs, notice)
		}
	}
}

func TestTwoImagesOfOneNameAreToldApart(t *testing.T) {
	var out bytes.Buffer
	c := &Conversation{Out: &out}
	var signs []string
	for _, content := range []string{"one", "two", "one"} {
		one, _ := c.Paste(writeImage(t, filepath.Join(t.TempDir(), "shot.png"), png(content)))
		signs = append(signs, one...)
	}
	if want := []string{"[image: shot.png, 11 bytes]", "[image 2: shot.png, 11 bytes]", "[image: shot.png, 11 bytes]"}; !slices.Equal(signs, want) {
		t.Fatalf("%q, want %q", signs, want)
	}
	got := c.Pasted(signs[1] + signs[0])
	if len(got) != 2 || string(got[0].Data) != string(png("two")) || string(got[1].Data) != string(png("one")) {
		t.Errorf("sent: %+v", got)
	}
	if got := c.Pasted("again [image: old.png, 3 KiB]"); got != nil || !strings.Contains(out.String(), "[image: old.png, 3 KiB] is not here any more") {
		t.Errorf("sent %v, said %q", got, out.String())
	}
}

func TestPastedImagesAreBounded(t *testing.T) {
	var p pastedImages
	size := tool.MaxImage
	for i := range maxPastedBytes/size + 3 {
		p.add(tidemark.Block{Name: string(rune('a' + i)), Data: make([]byte, size)})
	}
	if held := len(p.list) * size; held > maxPastedBytes || held != p.bytes {
		t.Errorf("%d images, %d bytes counted", len(p.list), p.bytes)
	}
}

func TestAnImageThatIsNamedIsSentAsOne(t *testing.T) {
	dir := t.TempDir()
	writeImage(t, filepath.Join(dir, "tides.png"), png(strings.Repeat("x", maxDocument)))
	writeImage(t, filepath.Join(dir, "huge.png"), png(strings.Repeat("x", tool.MaxImage)))
	var out bytes.Buffer
	c := &Conversation{Options: agent.Options{Project: dir}, Out: &out}
	got := c.Mentioned("what is in @tides.png and @huge.png?")
	if len(got) != 1 || got[0].Type != tidemark.BlockImage || got[0].Name != "tides.png" {
		t.Errorf("sent: %d blocks", len(got))
	}
	if said := out.String(); !strings.Contains(said, "Sent with it: [image: tides.png, 1.0 MiB]") || !strings.Contains(said, "@huge.png is over") {
		t.Errorf("said %q", said)
	}
}

// FuzzPastedPaths looks for a paste that is taken for paths although it has
// something else in it, or that cannot be read back as what was quoted.
func FuzzPastedPaths(f *testing.F) {
	for _, s := range []string{`/a/b\ c.png '/d e.jpg'`, "file:///x%20y.webp", `"/never closed.png`, `/a.png\`, "data:image/png;base64,AA==", "'/it'\\''s.png'", "/\x00.png"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dataImage(s)
		for _, p := range imagePaths(s) {
			if !filepath.IsAbs(p) || strings.ContainsRune(p, 0) {
				t.Errorf("%q became %q", s, p)
			}
		}
		if strings.ContainsRune(s, '\'') || s == "" {
			return
		}
		words, ok := pathWords(" '"+s+"'\n'"+s+"'", true)
		if want := strings.ToValidUTF8(s, "\uFFFD"); ok && strings.ToValidUTF8(s, "") == s && !slices.Equal(words, []string{want, want}) {
			t.Errorf("%q in quotes twice is %q", s, words)
		}
	})
}
