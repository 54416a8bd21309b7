package slash

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/render"
)

const (
	// listTimeout is how long an endpoint has to tell which models it has, and
	// listAge how long that counts.
	listTimeout = 3 * time.Second
	listAge     = 5 * time.Minute
	// maxModels is how many models are offered at once: a router has hundreds, and
	// a letter more narrows them down.
	maxModels = 60
)

// offeredModels are the models that an endpoint had when it was last asked.
type offeredModels struct {
	mu       sync.Mutex
	provider string
	at       time.Time
	names    []string
	err      error
}

// models are the models that can be chosen: those of the endpoint that answers,
// then the usual ones of other providers that there is a key for. When the
// endpoint does not tell, err says why.
func (c *Conversation) models(ctx context.Context) (names []string, err error) {
	provider, now := c.Chat.ModelName()
	o := &c.offered
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != provider || time.Since(o.at) > listAge || o.err != nil {
		// The next key cancels what is looked up for this one. It is waited for
		// all the same, and the next key has it.
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
		all, err := c.Chat.Models(limited)
		stop()
		o.provider, o.at, o.names, o.err = provider, time.Now(), nil, err
		for _, m := range all {
			o.names = append(o.names, m.Name)
		}
		slices.Sort(o.names)
	}
	names = slices.Clone(o.names)
	for _, other := range append([]string{provider + "/" + now}, c.Setup.Models()...) {
		if other = strings.TrimPrefix(other, provider+"/"); !slices.Contains(names, other) {
			names = append(names, other)
		}
	}
	return names, o.err
}

// completeModel offers the models that fit what was typed.
func (c *Conversation) completeModel(ctx context.Context, typed string) (found []string) {
	names, _ := c.models(ctx) // whoever chose /model without a name is told why there are few
	for _, name := range project.Match(names, typed, maxModels) {
		if clean := render.CleanLine(name); clean == name {
			found = append(found, name)
		}
	}
	return found
}

// model goes on with another model. Without a name, the person chooses one.
func (c *Conversation) model(ctx context.Context, name string) error {
	if name == "" {
		c.print("%s/%s", c.Model.Provider, render.CleanLine(c.Model.Name))
		return c.offerModels(ctx)
	}
	m, err := c.Setup.Another(c.Model.Provider, c.Model.BaseURL, c.onlyOne(name))
	if err != nil {
		return err
	}
	if err := c.Chat.SetModel(m.Client, m.Provider, m.Name, m.Remote); err != nil {
		return hint.With(err, "allow it with: tidemark chat --remote --resume %.8s", c.Chat.ID())
	}
	c.Model = m
	c.note("Now asking %s/%s.", m.Provider, m.Name)
	for _, note := range c.Chat.AfterSwitch() {
		c.note("%s", note)
	}
	return nil
}

// offerModels lets a person who types choose from what the endpoint has.
func (c *Conversation) offerModels(ctx context.Context) error {
	if c.Front == nil || !c.Front.Offer("/model ") {
		return nil
	}
	if _, err := c.models(ctx); err != nil {
		c.note("The endpoint does not say which models it has: %s", err)
	}
	c.note("Tab goes through the models, letters narrow them down, Enter takes one.")
	return nil
}

// onlyOne is the model that a part of a name stands for, among those that the
// endpoint was heard to have; the name itself when it is one, or when several fit.
func (c *Conversation) onlyOne(part string) string {
	c.offered.mu.Lock()
	defer c.offered.mu.Unlock()
	if c.offered.provider != c.Model.Provider || slices.Contains(c.offered.names, part) {
		return part
	}
	var fits []string
	for _, name := range c.offered.names {
		if strings.Contains(strings.ToLower(name), strings.ToLower(part)) {
			fits = append(fits, name)
		}
	}
	if len(fits) == 1 {
		return fits[0]
	}
	return part
}
