package web

import "strings"

// verbs are what a method does, where no text of its own says more.
var verbs = map[string]string{"GET": "read", "HEAD": "read", "POST": "did", "PUT": "set", "PATCH": "changed", "DELETE": "removed"}

// Deed says a line of the audit log in words. An action is a method and a route,
// or a name; what has no text of its own is told by its parts.
func Deed(lang, action string) string {
	method, route, ok := strings.Cut(action, " ")
	if !ok {
		return deedText(lang, action, action)
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimPrefix(route, "/api/v1"), "/") {
		if name, _, _ = strings.Cut(name, ".json"); name != "" && !strings.HasPrefix(name, "{") {
			names = append(names, name)
		}
	}
	key, plain := strings.Join(names, "."), action
	if verb := verbs[method]; verb != "" && len(names) > 0 {
		plain = verb + " " + strings.Join(names, " ")
	}
	return deedText(lang, method+"."+key, deedText(lang, key, plain))
}

// deedText is the text of a deed, or what stands for it.
func deedText(lang, key, plain string) string {
	if words := text(lang, "deed."+key); words != "deed."+key {
		return words
	}
	return plain
}
