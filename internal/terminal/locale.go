package terminal

import "strings"

// DrawsUnicode reports whether a terminal can draw more than ASCII, by the locale in
// the environment of a system.
func DrawsUnicode(getenv func(string) string, system string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return system == "windows" || system == "darwin"
}
