package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/tool"
)

func TestVariablesThatBecomeCodeAreNeverRestored(t *testing.T) {
	for _, name := range strings.Fields(`PATH BASH_ENV ENV LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES PROMPT_COMMAND IFS SHELLOPTS BASHOPTS PS4 PS1
		GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_COUNT GIT_ASKPASS GIT_PAGER PYTHONPATH PYTHONSTARTUP PYTHONINSPECT NODE_OPTIONS NODE_PATH PERL5OPT PERL5LIB RUBYOPT RUBYLIB
		BASH_FUNC_ls%% BASH_FUNC_x() _JAVA_OPTIONS JAVA_TOOL_OPTIONS GOFLAGS GOTOOLCHAIN MAKEFLAGS CFLAGS LESSOPEN PAGER EDITOR VISUAL SSH_ASKPASS CDPATH HOME XDG_CONFIG_HOME
		http_proxy HTTPS_PROXY npm_config_script_shell CARGO_BUILD_RUSTC RUSTC_WRAPPER DOCKER_HOST OPENSSL_CONF KUBECONFIG TAR_OPTIONS MANPAGER BROWSER GLOBIGNORE TMPDIR`) {
		if tool.Restorable(name) {
			t.Errorf("%s is restored", name)
		}
	}
	for _, name := range strings.Fields(`COLOUR APP_ENV RAILS_ENV NODE_ENV STAGE VERSION FOO foo_bar GOAL SRC`) {
		if !tool.Restorable(name) {
			t.Errorf("%s is not restored", name)
		}
	}
}

// TestAShellComesBackWithoutThem has a state that names them all, and a command
// that nobody would think twice about.
func TestAShellComesBackWithoutThem(t *testing.T) {
	dir := t.TempDir()
	canary := dir + "/canary"
	if err := os.WriteFile(dir+"/evil", []byte("touch "+canary+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	box, err := tool.New(tool.Options{Root: dir, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, State: tool.State{Set: map[string]string{
		"BASH_ENV": dir + "/evil", "ENV": dir + "/evil", "PROMPT_COMMAND": "touch " + canary, "PS4": "$(touch " + canary + ")", "SHELLOPTS": "xtrace", "PATH": dir, "COLOUR": "blue"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	for _, command := range []string{"true", "bash -c true", "echo $COLOUR"} {
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		r, err := box.Find("bash").Run(context.Background(), input)
		if err != nil || r.IsError {
			t.Errorf("%s: %v, %+v", command, err, r)
		}
		if command == "echo $COLOUR" && !strings.HasPrefix(r.Text, "blue") {
			t.Errorf("it says %q", r.Text)
		}
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("a program ran")
	}
	if set := box.State().Set; len(set) > 2 || set["BASH_ENV"] != "" {
		t.Errorf("kept: %v", set)
	}
}
