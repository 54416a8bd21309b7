package chat

import (
	"errors"
	"net/http"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/model"
)

// TextOnly reports whether the model that answers takes no images: its server
// says so, or its family is known for it. Of a model that nobody knows it is
// false, and its server refuses an image if it has to.
func (c *Chat) TextOnly() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.textOnly || model.TextOnly(c.answers.name)
}

func isImage(b tidemark.Block) bool { return b.Type == tidemark.BlockImage }

func hasImage(blocks []tidemark.Block) bool {
	return slices.ContainsFunc(blocks, func(b tidemark.Block) bool { return isImage(b) || hasImage(b.Blocks) })
}

// withoutImages puts the name, type and size of each image in its place. A
// conversation that has images goes on with a model that takes none, and another
// one is sent them again.
func withoutImages(entries []tidemark.Entry) []tidemark.Entry {
	out := slices.Clone(entries)
	for i, e := range out {
		if hasImage(e.Blocks) {
			out[i].Blocks = imagesInWords(e.Blocks)
		}
	}
	return out
}

func imagesInWords(blocks []tidemark.Block) []tidemark.Block {
	out := slices.Clone(blocks)
	for i, b := range out {
		if isImage(b) {
			out[i] = tidemark.Text(model.InWords(b))
		} else {
			out[i].Blocks = imagesInWords(b.Blocks)
		}
	}
	return out
}

// sayWithoutImages tells the person that the images of the message that they
// just sent are not.
func (t *thread) sayWithoutImages() {
	if n := len(t.context); n == 0 || t.context[n-1].Role != tidemark.User || !hasImage(t.context[n-1].Blocks) || !t.c.TextOnly() {
		return
	}
	_, name := t.c.ModelName()
	t.notice("%s takes no images: they are kept in the session, and it is told their names only.", name)
}

// hasImages reports whether the model is sent images.
func (t *thread) hasImages() bool {
	return !t.c.TextOnly() && slices.ContainsFunc(t.context, func(e tidemark.Entry) bool { return hasImage(e.Blocks) })
}

// aboutImages adds a way out to the refusal of a request with images. Whether
// they are the reason is not said in a way that all servers share.
func aboutImages(err error) error {
	var refused *model.Error
	if !errors.As(err, &refused) || !slices.Contains([]int{http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}, refused.Status) {
		return err
	}
	return hint.With(err, "the conversation has images, which this model may not take: /undo takes the last message back, /model chooses another one")
}
