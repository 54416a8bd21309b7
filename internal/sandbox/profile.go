package sandbox

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Profile returns the policy in the language of macOS's sandbox-exec. Later
// rules override earlier ones. It cannot distinguish hosts, only ports: the
// proxy listens on proxyPort, and 0 is no network.
func Profile(p Policy, proxyPort int) string {
	var b strings.Builder
	rule := func(words ...string) { b.WriteString("(" + strings.Join(words, " ") + ")\n") }
	subpath := func(path string) string { return "(subpath " + quoteProfile(path) + ")" }
	b.WriteString("(version 1)\n(deny default)\n")
	rule("allow process-fork process-exec sysctl-read file-read-metadata")
	rule("allow signal (target same-sandbox)")
	rule("allow process-info* (target same-sandbox)")
	rule("allow ipc-posix-sem ipc-posix-shm*")
	rule(`allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.system.logger") (global-name "com.apple.trustd.agent")`)
	for _, path := range []string{"/usr", "/bin", "/sbin", "/System", "/Library", "/opt", "/private/etc/ssl", "/private/var/db/timezone", "/private/var/select", "/dev"} {
		rule("allow file-read*", subpath(path))
	}
	for _, path := range []string{"/", "/private/etc/passwd", "/private/etc/hosts", "/private/etc/localtime", "/private/etc/shells"} {
		rule("allow file-read*", "(literal "+quoteProfile(path)+")")
	}
	for _, name := range toolchains {
		rule("allow file-read*", subpath(filepath.Join(p.Home, name)))
	}
	for _, path := range p.Read {
		rule("allow file-read*", subpath(path))
	}
	for _, path := range append([]string{p.Root}, p.Write...) {
		rule("allow file-read* file-write*", subpath(path))
	}
	rule(`allow file-write* file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$")`)
	rule("deny file-write-create (literal " + quoteProfile(filepath.Join(p.Root, ".git/commondir")) + ")")
	for _, name := range Protected {
		rule("deny file-write*", subpath(filepath.Join(p.Root, name)))
	}
	rule("deny file-write-unlink (literal " + quoteProfile(filepath.Join(p.Root, ".git")) + ")")
	for _, path := range p.Hide {
		rule("deny file-read* file-write*", subpath(path))
	}
	if proxyPort > 0 {
		rule(`allow network-outbound (remote ip "localhost:` + strconv.Itoa(proxyPort) + `")`)
	}
	return b.String()
}

// quoteProfile writes a string of the profile language.
func quoteProfile(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
