package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// commandScope returns what an approval of a command covers. A plain command,
// one program with its arguments, has the program as its scope: "git". For
// anything else (several commands, redirections, substitutions, variables, a
// program whose business it is to run others) an approval covers this very
// command only: after "always git", git status; rm -r x is asked for again.
func commandScope(command string) string {
	command = strings.TrimSpace(command)
	word, plain := plainCommand(command)
	if program := word[strings.LastIndexByte(word, '/')+1:]; !plain || strings.Contains(runsOthers, " "+program+" ") {
		return wholeScope(command)
	}
	return word
}

// wholeScope is the scope of one very command. Long ones are named by their
// hash, because scopes are kept with the session.
func wholeScope(command string) string {
	const most = 500
	if len(command) <= most {
		return "command: " + command
	}
	sum := sha256.Sum256([]byte(command))
	return "command with the SHA-256 " + hex.EncodeToString(sum[:])
}

// runsOthers are programs that run what their arguments say.
const runsOthers = " " +
	"bash sh dash zsh ksh fish busybox env exec eval command builtin source . trap coproc alias sudo doas su chroot " +
	"unshare nsenter setsid setpriv runuser xargs parallel find fd time timeout nice nohup stdbuf watch strace " +
	"script ssh awk gawk mawk sed perl python python3 ruby node php lua tclsh expect if while until for case select " +
	"function then do else ! [[ let declare export local readonly typeset set shopt enable hash "

// plainCommand returns the first word of a command that is nothing but words.
// It errs on the side of "not plain".
func plainCommand(command string) (word string, plain bool) {
	var quote byte
	for i := range len(command) {
		c := command[i]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
			}
		case c == '\\' || c == '$' || c == '`' || c == '!':
			return "", false
		case quote == '"':
			if c == '"' {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case strings.IndexByte(";&|<>(){}\n\r#", c) >= 0:
			return "", false
		}
	}
	word, _, _ = strings.Cut(strings.ReplaceAll(command, "\t", " "), " ")
	if quote != 0 || word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-") != "" {
		return "", false
	}
	return word, true
}
