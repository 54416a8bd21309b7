package slash

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/tool"
)

const (
	// maxPasted is how many images one paste can have.
	maxPasted = 20
	// maxPastedBytes bounds the images that are held for lines that are not sent
	// yet, or that are sent again; the oldest go first.
	maxPastedBytes = 64 << 20
	// maxPathBytes is longer than any list of paths that a person drags.
	maxPathBytes = 64 << 10
	// maxShownName is how much of the name of an image stands in the line.
	maxShownName = 16
	// readWait is how long the keyboard waits for a file that was pasted: it may
	// be on a disk that is far away.
	readWait = time.Second
)

// pastedImages are the images that were pasted into the line, by what stands for
// them there.
type pastedImages struct {
	mu    sync.Mutex
	list  []pastedImage // oldest first
	bytes int
}

type pastedImage struct {
	sign  string
	block tidemark.Block
}

// Paste returns what stands in the line for pasted images: a data: address, or
// the paths of image files as terminals paste what is dragged into them, quoted,
// escaped or as file: addresses. Anything else is text, and nil is returned. An
// image is read here and now, so that what is sent is what was pasted; notice
// says why one was not taken.
func (c *Conversation) Paste(pasted string) (signs []string, notice string) {
	blocks, notice := readWithin(readWait, "the image could not be read in time: its path was pasted", func() ([]tidemark.Block, string) {
		if data, ok := dataImage(pasted); ok {
			return asImages("pasted", data)
		}
		return readImages(imagePaths(pasted))
	})
	for _, b := range blocks {
		signs = append(signs, c.pasted.add(b))
	}
	return signs, notice
}

// readWithin gives up on what takes too long, and says late then.
func readWithin(wait time.Duration, late string, read func() ([]tidemark.Block, string)) ([]tidemark.Block, string) {
	type result struct {
		blocks []tidemark.Block
		notice string
	}
	done := make(chan result, 1)
	go func() {
		blocks, notice := read()
		done <- result{blocks, notice}
	}()
	select {
	case r := <-done:
		return r.blocks, r.notice
	case <-time.After(wait):
		return nil, late
	}
}

// readImages reads image files, all or none.
func readImages(paths []string) (blocks []tidemark.Block, notice string) {
	for _, path := range paths {
		b, err := readImage(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, "" // text that looks like a path
		case err != nil:
			return nil, fmt.Sprintf("%s: %s", shownName(filepath.Base(path)), err)
		}
		blocks = append(blocks, b)
	}
	return blocks, ""
}

func asImages(name string, data []byte) ([]tidemark.Block, string) {
	b, err := imageBlock(name, data)
	if err != nil {
		return nil, err.Error()
	}
	return []tidemark.Block{b}, ""
}

// readImage reads an image file that the person named. It is fs.ErrNotExist when
// there is none.
func readImage(path string) (tidemark.Block, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return tidemark.Block{}, err
	case !info.Mode().IsRegular():
		return tidemark.Block{}, fs.ErrNotExist
	}
	data, err := project.ReadOwn(path, tool.MaxImage)
	if err != nil {
		return tidemark.Block{}, err
	}
	return imageBlock(filepath.Base(path), data)
}

// imageBlock is an image as it is kept and sent; ErrUnsupported for what is none
// that models take.
func imageBlock(name string, data []byte) (tidemark.Block, error) {
	kind := tool.ImageType(data)
	switch {
	case len(data) > tool.MaxImage:
		return tidemark.Block{}, tidemark.Unsupportedf("an image has at most %s", sizeText(tool.MaxImage))
	case kind == "":
		return tidemark.Block{}, tidemark.Unsupportedf("no image that models take: PNG, JPEG, GIF or WebP")
	}
	return tidemark.Block{Type: tidemark.BlockImage, Name: name, MediaType: kind, Data: data}, nil
}

// add keeps an image for when its line is sent, and returns what stands for it.
func (p *pastedImages) add(b tidemark.Block) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	sign := imageSign(b, 0)
	for n := 2; ; n++ {
		i := slices.IndexFunc(p.list, func(o pastedImage) bool { return o.sign == sign })
		if i < 0 {
			break
		}
		if string(p.list[i].block.Data) == string(b.Data) {
			return sign
		}
		sign = imageSign(b, n)
	}
	p.list = append(p.list, pastedImage{sign, b})
	for p.bytes += len(b.Data); p.bytes > maxPastedBytes; p.list = p.list[1:] {
		p.bytes -= len(p.list[0].block.Data)
	}
	return sign
}

// imageSign is what stands for an image in the line: [image: tides.png, 12 KiB].
// number tells it from another one of the same name and size.
func imageSign(b tidemark.Block, number int) string {
	which := ""
	if number > 0 {
		which = fmt.Sprintf(" %d", number)
	}
	return fmt.Sprintf("[image%s: %s, %s]", which, shownName(b.Name), sizeText(len(b.Data)))
}

// shownName is the name of a file in one short line, without what ends the sign.
func shownName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '[' || r == ']' {
			return '_'
		}
		return r
	}, render.CleanLine(name))
	if len(name) > maxShownName {
		end := filepath.Ext(name)
		if len(end) > maxShownName/2 {
			end = ""
		}
		name = text.Clip(name, maxShownName-len(end)) + "…" + end
	}
	return name
}

func sizeText(bytes int) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", (bytes+512)/1024)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// imageSigns finds what stands for images in a line.
var imageSigns = expression.WhenNeeded(`\[image( \d+)?: [^\[\]\n]{1,60}, [0-9.]+ (bytes|KiB|MiB)\]`)

// Pasted returns the images that stand in a line, in their order, and says which
// of them are known by their name only: they were pasted in another session.
func (c *Conversation) Pasted(line string) (images []tidemark.Block) {
	c.pasted.mu.Lock()
	list := slices.Clone(c.pasted.list)
	c.pasted.mu.Unlock()
	for _, sign := range imageSigns().FindAllString(line, maxPasted) {
		i := slices.IndexFunc(list, func(p pastedImage) bool { return p.sign == sign })
		if i < 0 {
			c.note("%s is not here any more: only its name is sent. Paste it again to send it.", sign)
			continue
		}
		images = append(images, list[i].block)
	}
	return images
}

// dataImage returns the content of a data: address of an image.
func dataImage(s string) ([]byte, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), "data:image/")
	if !ok {
		return nil, false
	}
	head, body, ok := strings.Cut(rest, ",")
	if !ok || len(head) > 100 || !strings.HasSuffix(head, ";base64") {
		return nil, false
	}
	body = strings.Map(func(r rune) rune { // some programs break it into lines
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, body)
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(body, "="))
	return data, err == nil && len(data) > 0
}

// imagePaths returns the paths that a paste consists of, nil unless each of them
// is absolute and has the name of an image.
func imagePaths(pasted string) []string {
	pasted = strings.TrimSpace(pasted)
	if pasted == "" || len(pasted) > maxPathBytes {
		return nil
	}
	if path, ok := imagePath(pasted); ok && !strings.ContainsAny(pasted, "\n'\"\\") {
		if _, err := os.Stat(path); err == nil {
			return []string{path} // with blanks that nobody escaped
		}
	}
	words, ok := strings.Fields(pasted), true
	if slices.ContainsFunc(words, func(w string) bool { return !strings.HasPrefix(w, "file:") }) {
		words, ok = pathWords(pasted, runtime.GOOS != "windows")
	}
	if !ok || len(words) > maxPasted {
		return nil
	}
	var paths []string
	for _, w := range words {
		path, ok := imagePath(w)
		if !ok {
			return nil
		}
		paths = append(paths, path)
	}
	return paths
}

// imagePath returns the path that a word names, false when it is not that of an
// image.
func imagePath(word string) (string, bool) {
	if path, ok := project.PathOf(word); ok {
		word = path
	} else if u, err := url.Parse(word); err == nil && len(u.Scheme) > 1 {
		return "", false
	}
	switch strings.ToLower(filepath.Ext(word)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp":
		return word, filepath.IsAbs(word) && !strings.ContainsRune(word, 0)
	}
	return "", false
}

// pathWords splits what a terminal pastes for files that are dragged into it:
// words between blanks, in quotes where one has blanks, or, with escapes, with a
// backslash before each. ok is false when a quote does not end.
func pathWords(s string, escapes bool) (words []string, ok bool) {
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case escapes && r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case unicode.IsSpace(r):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words, quote == 0 && !escaped
}
