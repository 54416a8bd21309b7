package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// languages holds every text of the pages, from text/LANG.json, under the
// name of the page and of the place: "sessions.empty". A text that a language
// lacks is shown in English.
var languages = sync.OnceValue(func() map[string]map[string]string {
	all := make(map[string]map[string]string)
	list, err := files.ReadDir("text")
	if err != nil {
		return all // they are part of the program
	}
	for _, e := range list {
		content, err := files.ReadFile("text/" + e.Name())
		var words map[string]string
		if err == nil && json.Unmarshal(content, &words) == nil {
			all[strings.TrimSuffix(e.Name(), ".json")] = words
		}
	}
	return all
})

// text returns a text in a language. Further arguments fill the places of the
// text, in order, as fmt does.
func text(lang, name string, args ...any) string {
	words, ok := languages()[lang][name]
	if !ok {
		if words, ok = languages()["en"][name]; !ok {
			return name
		}
	}
	if len(args) > 0 {
		return fmt.Sprintf(inNumber(words, args), args...)
	}
	return words
}

// numbered finds what is counted: "%d {turn|turns}".
var numbered = expression.WhenNeeded(`%[ds]|\{([^{|}]*)\|([^{|}]*)\}`)

// inNumber chooses of each word in two numbers the one for the value that was told
// last before it.
func inNumber(words string, args []any) string {
	if !strings.Contains(words, "{") {
		return words
	}
	told := 0
	return numbered().ReplaceAllStringFunc(words, func(found string) string {
		if found[0] == '%' {
			told++
			return found
		}
		one, many, _ := strings.Cut(found[1:len(found)-1], "|")
		if told > 0 && told <= len(args) && fmt.Sprint(args[told-1]) == "1" {
			return one
		}
		return many
	})
}

// Say returns a text of the pages, for messages outside of them: what an
// action did.
func Say(lang, name string, args ...any) string { return text(lang, name, args...) }
