package tool

import (
	"maps"
	"slices"
	"strings"
)

// Variables that a shell, a loader, an interpreter or a well-known program
// runs as code, or takes as the place to find code or settings. None of them
// is restored into a shell of an earlier run, whoever set it: a command
// approved as "true" would run what BASH_ENV names. A session that needs one
// sets it again, where the person sees it.
//
// They are listed as classes, because nobody knows all names: a variable left
// out needlessly is exported again, one restored by mistake runs code.
var (
	// neverNames are exact names.
	neverNames = []string{
		// the shell's own
		"PATH", "ENV", "IFS", "PROMPT_COMMAND", "SHELLOPTS", "SHELL", "GLOBIGNORE", "INPUTRC", "ZDOTDIR", "HISTFILE", "MAIL", "TMPDIR", "TMP", "TEMP", "HOME",
		"PS0", "PS1", "PS2", "PS3", "PS4", "TERM", "TERMCAP", "TERMINFO", "TERMINFO_DIRS", "TIMEFORMAT",
		// the C library's
		"GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "TZDIR", "TZ",
		// programs that others start, and how they start them
		"BROWSER", "LESS", "LESSOPEN", "LESSCLOSE", "MANOPT", "MORE", "CC", "CXX", "CPP", "LD", "AR", "AS", "FC", "MAKE", "MAKEFILES", "CLASSPATH",
		"VIMINIT", "EXINIT", "GZIP", "BZIP2", "XZ_DEFAULTS", "ZIPOPT", "UNZIP", "POSIXLY_CORRECT",
		"WGETRC", "CURLRC", "SCREENRC", "NETRC", "NPMRC", "PSQLRC", "MYVIMRC",
		"GOBIN", "GOENV", "GOROOT", "GOAUTH", "GOPROXY", "GOTOOLCHAIN", "GOEXPERIMENT", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOVCS",
		"GOCACHEPROG", "GOMODCACHE", "GODEBUG",
	}
	// neverPrefixes are those of one program or language.
	neverPrefixes = []string{
		"BASH", "LD_", "DYLD_", "LDR_", "_RLD", "MALLOC_", "GCONV_", "GIT_", "SSH_", "GPG_", "GNUPG", "XDG_", "DBUS_",
		"PYTHON", "PIP_", "VIRTUAL_ENV", "CONDA_", "NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA", "NODE_REPL", "NPM_", "YARN_", "PNPM_", "BUN_", "DENO_",
		"PERL", "RUBY", "GEM_", "BUNDLE_", "LUA_", "PHP", "TCL", "JULIA_", "R_PROFILE", "R_ENVIRON", "R_LIBS", "ERL_", "ELIXIR_", "GHC", "GUILE_",
		"JAVA", "_JAVA", "JDK_", "MAVEN_", "GRADLE_", "ANT_", "DOTNET_", "COR_", "CORECLR_", "COMPLUS_", "MONO_",
		"CGO_", "CARGO", "RUST", "CMAKE_", "PKG_CONFIG", "DOCKER_", "PODMAN_", "BUILDKIT_", "KUBE", "TF_", "AWS_", "OPENSSL_", "SSL_",
		"LESS_", "GREP_", "TAR_", "QT_", "GTK_", "GDK_", "GIO_", "GST_", "TIDEMARK_", "TOOL_INPUT", "PROMPT_",
	}
	// neverEndings are the endings of names for commands, search paths, and
	// additional options of programs.
	neverEndings = []string{
		"PATH", "_HOME", "_DIR", "_DIRS", "_ROOT", "_OPTS", "_OPTIONS", "FLAGS", "_ARGS", "_COMMAND", "_CMD", "_EXEC", "_PROGRAM", "_BIN", "_SHELL", "_RSH", "_SSH",
		"PAGER", "EDITOR", "VISUAL", "ASKPASS", "_HOOK", "_HOOKS", "_WRAPPER", "_LAUNCHER", "_PRELOAD", "_PLUGIN", "_PLUGINS", "_INIT", "STARTUP", "_RC", "_RCFILE",
		"_CONF", "_CONFIG", "_CONFIG_FILE", "_PROFILE", "_PROXY", "_CA_BUNDLE", "_CERT_FILE", "_SOCK", "_SOCKET",
	}
)

// Restorable reports whether a shell variable may be restored when a session
// is resumed. Case is ignored, since programs differ in it.
func Restorable(name string) bool {
	upper := strings.ToUpper(name)
	switch {
	case !isVariable(name), // functions too: BASH_FUNC_ls%%
		slices.Contains(neverNames, upper),
		slices.ContainsFunc(neverPrefixes, func(p string) bool { return strings.HasPrefix(upper, p) }),
		slices.ContainsFunc(neverEndings, func(e string) bool { return strings.HasSuffix(upper, e) }):
		return false
	}
	return true
}

// restorable is s without what is never restored.
func (s State) restorable() State {
	s = s.copy()
	maps.DeleteFunc(s.Set, func(name, _ string) bool { return !Restorable(name) })
	s.Unset = slices.DeleteFunc(s.Unset, func(name string) bool { return !Restorable(name) })
	if len(s.Set) == 0 {
		s.Set = nil
	}
	if len(s.Unset) == 0 {
		s.Unset = nil
	}
	return s
}
