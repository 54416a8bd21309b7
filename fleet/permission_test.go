package fleet

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestPermissionsOfCodexAreItsSandbox(t *testing.T) {
	never := []string{"-c", `approval_policy="never"`}
	mode := func(name string, more ...string) []string {
		return slices.Concat(never, []string{"-c", `sandbox_mode="` + name + `"`}, more)
	}
	network := func(on string) []string { return []string{"-c", "sandbox_workspace_write.network_access=" + on} }
	for text, want := range map[string][]string{
		"{}":                                 nil,
		"{allow: [read]}":                    mode("read-only"),
		"{deny: [write]}":                    mode("read-only"),
		"{allow: [read, write]}":             mode("workspace-write", network("false")...),
		"{allow: [write, fetch]}":            mode("workspace-write", network("true")...),
		"{allow: [write], deny: [edit]}":     mode("read-only"),
		"{allow: ['*']}":                     mode("danger-full-access"),
		"{allow: ['*'], deny: [fetch]}":      mode("workspace-write", network("false")...),
		"{allow: ['*'], deny: [write]}":      mode("read-only"),
		"{allow: [edit, fetch], deny: null}": mode("workspace-write", network("true")...),
	} {
		f := parsed(t, "version: 1\ndefaults: {runner: codex, permissions: "+text+"}\nagents:\n  - {name: a, sandbox: off}\n  - {name: b}\n")
		if got := permissionArgs(f.Agents[0]); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if len(want) > 4 { // the fleet's sandbox is the workspace then
			want = mode("danger-full-access")
		}
		if got := permissionArgs(f.Agents[1]); !slices.Equal(got, want) {
			t.Errorf("in a sandbox, %s: %q, want %q", text, got, want)
		}
	}
}

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
