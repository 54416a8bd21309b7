package sandbox

import (
	"path/filepath"
	"slices"
)

// Sees reports whether a confined program finds at a path what is there outside,
// whatever links lead to it. Private folders, such as its /tmp, do not count.
func (p Policy) Sees(path string) bool {
	tops := slices.Concat(systemPaths, []string{p.Root}, p.Write, p.Read)
	for _, name := range toolchains {
		tops = append(tops, filepath.Join(p.Home, name))
	}
	return isBelowAny(tops, path) && !isBelowAny(p.Hide, path)
}

func isBelowAny(tops []string, path string) bool {
	return slices.ContainsFunc(tops, func(top string) bool {
		_, ok := Below(followed(top), followed(path))
		return ok
	})
}

// Below returns the path relative to a folder, "." for the folder itself; ok is
// false for a path outside it. It compares names: the caller resolves links.
func Below(dir, path string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// followed is a path with its links resolved, if it exists.
func followed(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}
