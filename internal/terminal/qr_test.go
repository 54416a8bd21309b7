package terminal

import (
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// photo is what somebody sees who looks at a code on a terminal.
func photo(t *testing.T, drawn string) string {
	t.Helper()
	const scale = 6
	lines := strings.Split(strings.TrimSuffix(drawn, "\n"), "\n")
	width := len([]rune(lines[0]))
	img := image.NewGray(image.Rect(0, 0, width*scale, len(lines)*2*scale))
	for y, line := range lines {
		if len([]rune(line)) != width {
			t.Fatalf("line %d has another width", y)
		}
		for x, r := range []rune(line) {
			up, down := r == '█' || r == '▀', r == '█' || r == '▄'
			for i := range scale * scale * 2 {
				shade := color.Gray{Y: 255}
				if i/scale < scale && up || i/scale >= scale && down {
					shade.Y = 0
				}
				img.SetGray(x*scale+i%scale, y*2*scale+i/scale, shade)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "code.png")
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(png.Encode(f, img), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestACodeIsReadByAnotherProgram(t *testing.T) {
	reader, err := exec.LookPath("zbarimg")
	if err != nil {
		t.Skip("there is no zbarimg; make deps installs it")
	}
	for _, text := range []string{"hi", strings.Repeat("y", 17), strings.Repeat("y", 18), strings.Repeat("Zz9-", 12), "gabud gamug gibuj gimul gobun kajof katoh kijok ruril", strings.Repeat("x", 106), strings.Repeat("Ö", 200)} {
		drawn, err := DrawQR(text, false)
		if err != nil {
			t.Fatal(err)
		}
		if coloured, err := DrawQR(text, true); err != nil || strings.NewReplacer("\x1b[38;5;16;48;5;231m", "", "\x1b[0m", "").Replace(coloured) != drawn {
			t.Errorf("in colour it is another one: %q, %v", coloured, err)
		}
		out, err := exec.Command(reader, "-q", "--raw", photo(t, drawn)).Output()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != text {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
}

func TestATextThatIsTooLongIsRefused(t *testing.T) {
	if _, err := DrawQR(strings.Repeat("x", 3000), false); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("%v", err)
	}
}
