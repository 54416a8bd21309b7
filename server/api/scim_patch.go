package api

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// Filters and changes of parts of a resource, as RFC 7644 has them and providers send
// them: names in any case, texts for booleans, several ways to say the same.

// scimWords are the parts of a filter.
var scimWords = expression.WhenNeeded(`"(?:[^"\\]|\\.)*"|\[|\]|[^\s\[\]"]+`)

// parseSCIMFilter returns what a filter asks of a resource: comparisons by eq, ne, co,
// sw, ew and pr, joined by and and or.
func parseSCIMFilter(text string) (func(resource) bool, error) {
	words := scimWords().FindAllString(text, -1)
	var either []func(resource) bool
	var all []func(resource) bool
	close := func() {
		every := all
		either = append(either, func(r resource) bool {
			return !slices.ContainsFunc(every, func(fits func(resource) bool) bool { return !fits(r) })
		})
		all = nil
	}
	for len(words) > 0 {
		path, rest, err := filterPath(words)
		if err != nil {
			return nil, err
		}
		fits, rest, err := comparison(path, rest)
		if err != nil {
			return nil, err
		}
		all = append(all, fits)
		if words = rest; len(words) == 0 {
			break
		}
		joint := strings.ToLower(words[0])
		if words = words[1:]; joint != "and" && joint != "or" || len(words) == 0 {
			return nil, faultf("invalidFilter", "filter: %.40q: want and, or", joint)
		}
		if joint == "or" {
			close()
		}
	}
	if len(all) == 0 {
		return nil, faultf("invalidFilter", "filter: nothing is asked")
	}
	close()
	return func(r resource) bool {
		return slices.ContainsFunc(either, func(fits func(resource) bool) bool { return fits(r) })
	}, nil
}

// filterPath takes the attribute off the words of a filter, which may have a filter of
// its own: emails[type eq "work"].value.
func filterPath(words []string) (path string, rest []string, err error) {
	path, rest = words[0], words[1:]
	if len(rest) == 0 || rest[0] != "[" {
		return path, rest, nil
	}
	end := slices.Index(rest, "]")
	if end < 0 {
		return "", nil, faultf("invalidFilter", "filter: [ without ]")
	}
	path += "[" + strings.Join(rest[1:end], " ") + "]"
	if rest = rest[end+1:]; len(rest) > 0 && strings.HasPrefix(rest[0], ".") {
		path, rest = path+rest[0], rest[1:]
	}
	return path, rest, nil
}

// comparison takes an operator, and what is compared with, off the words of a filter.
func comparison(path string, words []string) (func(resource) bool, []string, error) {
	at, err := parsePath(path)
	if err != nil || len(words) == 0 {
		return nil, nil, faultf("invalidFilter", "filter: %.80q", path)
	}
	by := strings.ToLower(words[0])
	if words = words[1:]; by == "pr" {
		return func(r resource) bool { return len(at.values(r)) > 0 }, words, nil
	}
	if len(words) == 0 {
		return nil, nil, faultf("invalidFilter", "filter: %s compared with what?", path)
	}
	var value any
	if err := json.Unmarshal([]byte(words[0]), &value); err != nil {
		if value = strings.ToLower(words[0]); value != "true" && value != "false" {
			return nil, nil, faultf("invalidFilter", "filter: %.80q is no value", words[0])
		}
	}
	want, exact := scimText(value), slices.Contains([]string{"id", "externalid", "value"}, strings.ToLower(at.attribute)) || strings.EqualFold(at.sub, "value") && !strings.EqualFold(at.attribute, "emails")
	if !exact {
		want = strings.ToLower(want)
	}
	tests := map[string]func(string) bool{
		"eq": func(s string) bool { return s == want }, "co": func(s string) bool { return strings.Contains(s, want) },
		"sw": func(s string) bool { return strings.HasPrefix(s, want) }, "ew": func(s string) bool { return strings.HasSuffix(s, want) },
	}
	test := tests[by]
	if test == nil && by != "ne" {
		return nil, nil, faultf("invalidFilter", "filter: the operator %.20q is not known here", by)
	}
	return func(r resource) bool {
		found := slices.ContainsFunc(at.values(r), func(v any) bool {
			s := scimText(v)
			if !exact {
				s = strings.ToLower(s)
			}
			return by == "ne" && s == want || by != "ne" && test(s)
		})
		return found != (by == "ne")
	}, words[1:], nil
}

func scimText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// scimAt is a place in a resource: attribute[fits].sub
type scimAt struct {
	attribute, sub string
	fits           func(resource) bool // nil: all
	only           resource            // what fits asks for, when that is one equality
}

var (
	aPath     = expression.WhenNeeded(`^([A-Za-z$][\w$-]*)(?:\[(.+)\])?(?:\.([A-Za-z$][\w$-]*))?$`)
	anEquals  = expression.WhenNeeded(`(?i)^([A-Za-z]\w*) eq "([^"]*)"$`)
	coreNames = []string{scimUser + ":", scimGroup + ":"}
)

// parsePath reads a place; one of another schema is none.
func parsePath(path string) (scimAt, error) {
	for _, prefix := range coreNames {
		if len(path) > len(prefix) && strings.EqualFold(path[:len(prefix)], prefix) {
			path = path[len(prefix):]
		}
	}
	m := aPath().FindStringSubmatch(path)
	if m == nil {
		return scimAt{}, faultf("invalidPath", "path %.80q: not understood", path)
	}
	at := scimAt{attribute: m[1], sub: m[3]}
	if m[2] != "" {
		var err error
		if at.fits, err = parseSCIMFilter(m[2]); err != nil {
			return at, err
		}
		if eq := anEquals().FindStringSubmatch(m[2]); eq != nil {
			at.only = resource{eq[1]: eq[2]}
		}
	}
	return at, nil
}

// attributeOf is the name under which a resource has an attribute.
func attributeOf(r resource, name string) string {
	for key := range r {
		if strings.EqualFold(key, name) {
			return key
		}
	}
	return name
}

// values are those of a place in a resource.
func (a scimAt) values(r resource) []any {
	v, ok := r[attributeOf(r, a.attribute)]
	if !ok || v == nil {
		return nil
	}
	many, ok := v.([]any)
	if !ok {
		many = []any{v}
	}
	var found []any
	for _, one := range many {
		part, isPart := one.(resource)
		switch {
		case a.fits != nil && (!isPart || !a.fits(part)):
		case a.sub != "" && isPart:
			if v, ok := part[attributeOf(part, a.sub)]; ok && v != nil && v != "" {
				found = append(found, v)
			}
		case a.sub == "" && isPart && part["value"] != nil:
			found = append(found, part["value"])
		case a.sub == "" && one != "":
			found = append(found, one)
		}
	}
	return found
}

// patched is a resource after the changes of a PATCH.
func patched(have, in resource) (resource, error) {
	var patch struct {
		Schemas    []string
		Operations []struct {
			Op    string
			Path  string
			Value any
		}
	}
	if err := recode(in, &patch); err != nil {
		return nil, err
	}
	if len(patch.Operations) == 0 || !slices.Contains(patch.Schemas, scimPatch) {
		return nil, faultf("invalidSyntax", "want Operations, and the schema %s", scimPatch)
	}
	var r resource
	if err := recode(have, &r); err != nil {
		return nil, err
	}
	for _, o := range patch.Operations {
		op := strings.ToLower(o.Op)
		if !slices.Contains([]string{"add", "replace", "remove"}, op) {
			return nil, faultf("invalidSyntax", "op %.20q: want add, replace, remove", o.Op)
		}
		parts := resource{o.Path: o.Value}
		if o.Path == "" {
			many, ok := o.Value.(resource)
			if op == "remove" || !ok {
				return nil, faultf("noTarget", "%s of what?", op)
			}
			parts = many
		}
		for path, value := range parts {
			if strings.HasPrefix(strings.ToLower(path), "urn:") && !slices.ContainsFunc(coreNames, func(p string) bool { return len(path) > len(p) && strings.EqualFold(path[:len(p)], p) }) {
				continue // of a schema that is not kept
			}
			at, err := parsePath(path)
			if err != nil {
				return nil, err
			}
			if err := at.change(r, op, value); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// readOnly are the attributes that nobody changes; they are ignored, since providers
// send them along.
var readOnly = []string{"id", "meta", "schemas", "groups"}

// change makes one change of a resource.
func (a scimAt) change(r resource, op string, value any) error {
	key := attributeOf(r, a.attribute)
	if slices.Contains(readOnly, strings.ToLower(key)) {
		return nil
	}
	switch {
	case a.fits != nil:
		return a.changeSome(r, key, op, value)
	case a.sub != "":
		part, ok := r[key].(resource)
		if many, isMany := r[key].([]any); isMany && len(many) > 0 {
			part, ok = many[0].(resource)
		}
		if !ok {
			part = resource{}
			r[key] = part
		}
		sub := attributeOf(part, a.sub)
		if part[sub] = value; op == "remove" {
			delete(part, sub)
		}
		if strings.EqualFold(key, "name") && !strings.EqualFold(sub, "formatted") {
			delete(part, "formatted") // it is made of the others
		}
		return nil
	case op == "remove":
		if gone, ok := value.([]any); ok {
			r[key] = without(r[key], gone)
			return nil
		}
		delete(r, key)
		return nil
	}
	old, isMany := r[key].([]any)
	if more, ok := value.([]any); ok && isMany && op == "add" {
		r[key] = append(without(old, more), more...)
		return nil
	}
	if one, ok := value.(resource); ok && isMany {
		if r[key] = []any{one}; op == "add" {
			r[key] = append(without(old, []any{one}), one)
		}
		return nil
	}
	if part, ok := value.(resource); ok {
		if had, ok := r[key].(resource); ok {
			for name, v := range part {
				had[attributeOf(had, name)] = v
			}
			return nil
		}
	}
	r[key] = value
	return nil
}

// without is many without those that have the value of one of gone.
func without(many any, gone []any) []any {
	old, _ := many.([]any)
	value := func(v any) any {
		if part, ok := v.(resource); ok {
			return part[attributeOf(part, "value")]
		}
		return v
	}
	return slices.DeleteFunc(slices.Clone(old), func(v any) bool {
		return slices.ContainsFunc(gone, func(g any) bool { return value(g) == value(v) })
	})
}

// changeSome changes those values of an attribute that the filter fits.
func (a scimAt) changeSome(r resource, key, op string, value any) error {
	many, _ := r[key].([]any)
	var left []any
	found := false
	for _, one := range many {
		part, ok := one.(resource)
		if !ok || !a.fits(part) {
			left = append(left, one)
			continue
		}
		found = true
		switch {
		case op == "remove" && a.sub == "":
			continue
		case op == "remove":
			delete(part, attributeOf(part, a.sub))
		case a.sub != "":
			part[attributeOf(part, a.sub)] = value
		default:
			if said, ok := value.(resource); ok {
				part = said
			}
		}
		left = append(left, part)
	}
	if !found && op != "remove" {
		if a.only == nil || a.sub == "" {
			return faultf("noTarget", "nothing in %s fits", a.attribute)
		}
		part := resource{a.sub: value}
		for name, v := range a.only {
			part[name] = v
		}
		left = append(left, part)
	}
	r[key] = left
	return nil
}
