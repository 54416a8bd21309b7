package slash

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/agent"
)

func TestAnImageOfTheClipboardIsPasted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the programs of Linux are stood in for")
	}
	image := `printf '\211PNG\r\n\032\nmoon'`
	for name, c := range map[string]struct {
		programs map[string]string
		environ  []string
		sign     string
		notice   string
	}{
		"wayland":    {map[string]string{"wl-paste": `[ "$*" = "--no-newline --type image/png" ] && ` + image}, []string{"WAYLAND_DISPLAY=w"}, "[image: clipboard.png, 12 bytes]", ""},
		"x":          {map[string]string{"xclip": `[ "$*" = "-selection clipboard -target image/png -out" ] && ` + image}, []string{"DISPLAY=:0"}, "[image: clipboard.png, 12 bytes]", ""},
		"text":       {map[string]string{"wl-paste": "echo no such type >&2; exit 1"}, []string{"WAYLAND_DISPLAY=w"}, "", "there is no image in the clipboard"},
		"nonsense":   {map[string]string{"wl-paste": "echo words"}, []string{"WAYLAND_DISPLAY=w"}, "", "no image that models take"},
		"endless":    {map[string]string{"wl-paste": "exec cat /dev/zero"}, []string{"WAYLAND_DISPLAY=w"}, "", "an image has at most"},
		"missing":    {nil, []string{"WAYLAND_DISPLAY=w", "DISPLAY=:0"}, "", "install wl-paste or xclip"},
		"no desktop": {map[string]string{"xclip": image}, []string{"DISPLAY="}, "", "no clipboard can be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for program, text := range c.programs {
				if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+text+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			talk := &Conversation{Out: &bytes.Buffer{}, Setup: &agent.Setup{Environ: append(c.environ, "PATH="+dir)}}
			signs, notice := talk.pasteImage(time.Minute)
			if strings.Join(signs, "") != c.sign || !strings.Contains(notice, c.notice) || (notice == "") != (c.notice == "") {
				t.Fatalf("%q, %q; want %q, %q", signs, notice, c.sign, c.notice)
			}
			if c.sign != "" && string(talk.Pasted("see " + c.sign)[0].Data) != string(png("moon")) {
				t.Error("another image is sent")
			}
		})
	}
}

func FuzzAppleData(f *testing.F) {
	f.Add([]byte("«data PNGf89504E47»\n"), []byte{})
	f.Add([]byte("«data PNGf8»"), []byte{0xff})
	f.Add([]byte("text"), []byte("x"))
	f.Fuzz(func(t *testing.T, printed, data []byte) {
		appleData(printed)
		if got := appleData([]byte("«data PNGf" + strings.ToUpper(hex.EncodeToString(data)) + "»\n")); !bytes.Equal(got, data) {
			t.Errorf("%x becomes %x", data, got)
		}
	})
}
