package server

import (
	"context"
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// TestOneTeammateSeesNothingOfTheRemoteOfAnother shares one database, in which rows
// alone keep people apart.
func TestOneTeammateSeesNothingOfTheRemoteOfAnother(t *testing.T) {
	t.Parallel()
	m := newCrew(t, "ada", "cy")
	ctx := t.Context()
	as := func(name string) remote.Blobs {
		p, err := remote.Open(ctx, m.URL, &remote.Options{Token: func(string) func(context.Context) (string, error) {
			return func(context.Context) (string, error) { return name, nil }
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	ada, cy := as("ada"), as("cy")
	for who, p := range map[string]remote.Blobs{"ada": ada, "cy": cy} {
		if err := errors.Join(p.PutNew(ctx, "ring/0000000001", []byte(who)), p.Replace(ctx, "m/"+who+"/head", []byte(who))); err != nil {
			t.Fatalf("%s: %v", who, err)
		}
	}
	if err := errors.Join(cy.Delete(ctx, "m/ada/head"), cy.Delete(ctx, "ring/0000000001")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"m/ada/head", "ring/0000000001"} {
		if got, err := ada.Get(ctx, name); err != nil || string(got) != "ada" {
			t.Errorf("%s of ada: %q, %v", name, got, err)
		}
		if got, err := cy.Get(ctx, name); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("%s for cy: %q, %v", name, got, err)
		}
	}
	for name, err := range cy.List(ctx, "") {
		if err != nil || name != "m/cy/head" {
			t.Errorf("cy sees %q, %v", name, err)
		}
	}
}
