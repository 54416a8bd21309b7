package file

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestAPartOfTheAgentsOwnFolderCannotBeDeniedToALook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	o := &Options{Dir: func(written string) (string, error) {
		if !filepath.IsAbs(written) {
			written = filepath.Join(dir, written)
		}
		return written, nil
	}}
	for scope, wrong := range map[string]bool{"secrets": true, dir: true, filepath.Dir(dir): true, filepath.Join(filepath.Dir(dir), "other"): false} {
		_, err := Parse("f", []byte("version: 1\nagents:\n  - name: a\n    permissions:\n      deny: ['read("+filepath.ToSlash(scope)+")']\n"), o)
		if wrong != (err != nil) || err != nil && (!errors.Is(err, tidemark.ErrInvalid) || !strings.HasPrefix(err.Error(), "f:5:14: read(")) {
			t.Errorf("%s: %v", scope, err)
		}
	}
	f, err := Parse("f", []byte("version: 1\nagents: [{name: a, permissions: {deny: [read, Grep, 'bash(rm)']}}]\n"), o)
	if err != nil || !slices.Equal(f.Agents[0].Without(), []string{"read", "Grep"}) {
		t.Errorf("%v, %v", f, err)
	}
}

func TestADefaultThatACommandCannotKeepToIsLeftOut(t *testing.T) {
	f := parsed(t, "version: 1\ndefaults: {permissions: {allow: [read]}}\nagents:\n  - {name: a, runner: command, command: [x]}\n  - name: b\n")
	if len(f.Agents[0].Permissions.Allow) != 0 || len(f.Agents[1].Permissions.Allow) != 1 {
		t.Errorf("%+v", f.Agents)
	}
}
