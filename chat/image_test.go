package chat_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/model"
)

// blind is a scripted model whose server says that it takes no images.
type blind struct{ *scripted }

func (blind) Describe(context.Context, string) (model.Listed, error) {
	return model.Listed{Window: 40_000, TextOnly: true}, nil
}

func TestImagesAreNotSentToAModelThatTakesNone(t *testing.T) {
	r := newRig(t, newMemory(), map[string][]reply{"what is this?": {says("a tide")}, "and now?": {says("an ebb")}})
	c := r.new()
	image := tidemark.Block{Type: tidemark.BlockImage, Name: "tides.png", MediaType: "image/png", Data: []byte("pixels")}
	ask := func(text string) model.Request {
		t.Helper()
		r.forget()
		if _, err := c.Send(t.Context(), image, tidemark.Text(text)); err != nil {
			t.Fatal(err)
		}
		return r.model.last(t)
	}
	sees := func(q model.Request) (images int, words string) {
		for _, e := range q.Entries {
			for _, b := range e.Blocks {
				if b.Type == tidemark.BlockImage {
					images++
				}
				words += b.Text
			}
		}
		return images, words
	}
	if n, _ := sees(ask("what is this?")); n != 1 || r.noticed("takes no images") {
		t.Errorf("a model that nobody knows is sent %d images; notices %q", n, r.notices())
	}
	if err := c.SetModel(blind{r.model}, "ollama", "words", false); err != nil {
		t.Fatal(err)
	}
	if n, words := sees(ask("and now?")); n != 0 || strings.Count(words, "[image, tides.png, image/png, 6 bytes, not shown]") != 2 || !r.noticed("words takes no images") {
		t.Errorf("a model that takes none is sent %d images and %q; notices %q", n, words, r.notices())
	}
	if err := c.SetModel(r.model, "openai", "gpt-3.5-turbo", false); err != nil {
		t.Fatal(err)
	}
	if n, _ := sees(ask("and now?")); n != 0 || !r.noticed("gpt-3.5-turbo takes no images") {
		t.Errorf("a family that takes none is sent %d images", n)
	}
	if err := c.SetModel(r.model, "openai", "seeing", false); err != nil {
		t.Fatal(err)
	}
	if n, _ := sees(ask("what is this?")); n != 4 {
		t.Errorf("after the change back %d images are sent: all are in the session", n)
	}
}

func TestARefusalOfARequestWithImagesNamesTheWayOut(t *testing.T) {
	refusal := &model.Error{Provider: "openai", Status: 400, Message: "unknown variant image_url"}
	r := newRig(t, newMemory(), map[string][]reply{"hello": {{err: refusal}}, "what is this?": {{err: refusal}}})
	c := r.new()
	if _, err := c.Send(t.Context(), tidemark.Text("hello")); hint.Of(err) != "" {
		t.Errorf("without an image the way out is %q", hint.Of(err))
	}
	_, err := c.Send(t.Context(), tidemark.Block{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("x")}, tidemark.Text("what is this?"))
	if !strings.Contains(hint.Of(err), "/undo") {
		t.Errorf("%v: the way out is %q", err, hint.Of(err))
	}
}
