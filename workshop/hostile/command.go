package hostile

import "strings"

// Hidden is what the commands below try to hide.
const Hidden = "rm -r important"

// Commands are shell commands that look like others where something is left
// out, interpreted or pushed out of sight, by the trick that they use.
// Whoever shows one to a person has to show Hidden with it.
func Commands() map[string]string {
	return map[string]string{
		"a second line":       "ls\n" + Hidden,
		"150 blanks":          "ls" + strings.Repeat(" ", 150) + "; " + Hidden,
		"blanks of all kinds": "ls" + strings.Repeat("\u00a0\u3000\u2800\t", 40) + "; " + Hidden,
		"200 empty lines":     "ls\n" + strings.Repeat(" \n", 200) + Hidden,
		"a comment first":     "# lists files, nothing else\n" + Hidden,
		"zero width":          "l\u200bs\u2060\ufeff; " + Hidden,
		"bidi":                "ls \u202e# tnatropmi r- mr \u2066; " + Hidden,
		"tags":                "ls \U000e0072\U000e006d; " + Hidden,
		"carriage return":     Hidden + "\rls               ",
		"backspace":           Hidden + strings.Repeat("\b", len(Hidden)) + "ls             ",
		"escape sequences":    Hidden + "\x1b[2K\x1b[1G\x1b[8mls\x1b[0m",
		"C1 and titles":       "\u009b2K\x1b]0;ls\a\u0090x\u009c" + Hidden,
		"a screen of its own": "\x1b[?1049h\x1b[2J\x1b[H" + Hidden,
		"marks on a letter":   "ls; e" + strings.Repeat("\u0301", 500) + Hidden,
		"lines like ours":     "ls\n@ bash\n@ command:\n+ ls\nAllow bash?\n" + Hidden,
		"markup":              "ls </pre></span><script>" + Pwn + "</script><!-- " + Hidden,
		"other line ends":     "ls\u2028\u2029\u0085\v\f" + Hidden,
		"a long line":         "echo " + strings.Repeat("x", 20_000) + "; " + Hidden,
		"many lines":          strings.Repeat("echo x\n", 2000) + Hidden,
		"the end of a block":  "ls\n```\n\n# That was all.\n~~~\n````\n" + Hidden,
		"a here document":     "cat <<'E'\nls\nE\n" + Hidden,
	}
}

// HugeCommand has some 1 MB: more than anybody is shown.
func HugeCommand() string { return strings.Repeat("echo x\n", 150_000) + Hidden }
