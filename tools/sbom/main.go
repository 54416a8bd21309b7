// Command sbom says what is in a Go program: each module with its version, its
// checksum and its licence, from what the linker wrote into the program itself.
// It writes a CycloneDX 1.6 and an SPDX 2.3 document, and the texts of all
// licences, which have to go with a program that others get. Nothing in them is
// drawn at random or taken from the clock.
//
//	sbom -version 1.2 -time 1750000000 -modules "$(go env GOMODCACHE)" -goroot "$(go env GOROOT)" \
//	     -cyclonedx out.cdx.json -spdx out.spdx.json -licenses LICENSES.txt bin/tidemark
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "`VERSION` of the program")
	seconds := flag.Int64("time", 0, "`SECONDS` since 1970 that the program is of")
	modules := flag.String("modules", "", "`FOLDER` of the module cache")
	goroot := flag.String("goroot", "", "`FOLDER` of Go")
	own := flag.String("license", "LICENSE", "`FILE` with the licence of the program")
	cyclone := flag.String("cyclonedx", "", "`FILE` to write")
	spdx := flag.String("spdx", "", "`FILE` to write")
	licenses := flag.String("licenses", "", "`FILE` to write")
	flag.Parse()
	if flag.NArg() != 1 {
		return errors.New("want one program")
	}
	p, err := read(flag.Arg(0), *version, *modules, *goroot, *own)
	if err != nil {
		return err
	}
	p.at = time.Unix(*seconds, 0).UTC().Format(time.RFC3339)
	for _, doc := range []struct {
		file string
		make func() any
	}{{*cyclone, p.cycloneDX}, {*spdx, p.spdx}} {
		if doc.file == "" {
			continue
		}
		b, err := json.MarshalIndent(doc.make(), "", "  ")
		if err == nil {
			err = os.WriteFile(doc.file, append(b, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if *licenses != "" {
		return os.WriteFile(*licenses, []byte(p.texts()), 0o644)
	}
	return nil
}

// part is a module that is in the program, or the program's own.
type part struct {
	path, version string
	sum           string // as in go.sum
	license       string // an SPDX expression; "" when it is not known
	texts         []text
}

// text is a file that goes with what it is about.
type text struct{ name, body string }

func (p part) purl() string { return "pkg:golang/" + p.path + "@" + p.version }

// program is what is known of one.
type program struct {
	part
	sha256   string
	at       string
	settings [][2]string // how it was built
	parts    []part
}

// read looks into a program, and for the licences of what is in it.
func read(file, version, modules, goroot, own string) (*program, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	bytes, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(bytes)
	p := &program{part: part{path: info.Main.Path, version: version}, sha256: hex.EncodeToString(sum[:])}
	mine, err := os.ReadFile(own)
	if err != nil {
		return nil, err
	}
	p.license = identify(string(mine))
	for _, s := range info.Settings {
		p.settings = append(p.settings, [2]string{s.Key, s.Value})
	}
	std := part{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
	std.look(goroot)
	p.parts = append(p.parts, std)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d := part{path: m.Path, version: m.Version, sum: m.Sum}
		d.look(filepath.Join(modules, filepath.FromSlash(escaped(m.Path)+"@"+escaped(m.Version))))
		p.parts = append(p.parts, d)
	}
	return p, nil
}

// escaped is how the module cache writes a name on disks that do not tell A
// from a.
func escaped(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// look takes the licence texts at the top of a folder. A module that is not in
// the cache has none.
func (p *part) look(dir string) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var all strings.Builder
	for _, f := range found {
		upper := strings.ToUpper(f.Name())
		licence := begins(upper, "LICENSE", "LICENCE", "COPYING", "UNLICENSE")
		if !f.Type().IsRegular() || path.Ext(upper) == ".GO" || !licence && !begins(upper, "NOTICE", "PATENTS") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			continue
		}
		p.texts = append(p.texts, text{f.Name(), string(b)})
		if licence {
			all.Write(b)
			all.WriteByte('\n')
		}
	}
	p.license = identify(all.String())
}

func begins(name string, with ...string) bool {
	for _, w := range with {
		if strings.HasPrefix(name, w) {
			return true
		}
	}
	return false
}

// identify names the licences that a text has, in SPDX's words. What it does
// not know it leaves out: a wrong name is worse than none.
func identify(text string) string {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	has := func(s string) bool { return strings.Contains(text, s) }
	var all []string
	if has("apache license version 2.0") || has("apache license, version 2.0") {
		all = append(all, "Apache-2.0")
	}
	if has("redistribution and use in source and binary forms") {
		if has("endorse or promote products") {
			all = append(all, "BSD-3-Clause")
		} else {
			all = append(all, "BSD-2-Clause")
		}
	}
	if has("to use, copy, modify, and/or distribute this software for any purpose") || has("to use, copy, modify, and distribute this software for any purpose") {
		all = append(all, "ISC")
	}
	if has("permission is hereby granted, free of charge, to any person") {
		all = append(all, "MIT")
	}
	if has("mozilla public license version 2.0") || has("mozilla public license, version 2.0") {
		all = append(all, "MPL-2.0")
	}
	if has("this is free and unencumbered software") {
		all = append(all, "Unlicense")
	}
	return strings.Join(all, " AND ")
}

// texts is what has to go with a program that others get.
func (p *program) texts() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s contains the following, under the terms below.\n", path.Base(p.path))
	for _, d := range p.parts {
		fmt.Fprintf(&b, "\n%s\n%s %s: %s\n", strings.Repeat("=", 78), d.path, d.version, orNone(d.license, "see below"))
		for _, t := range d.texts {
			fmt.Fprintf(&b, "\n--- %s\n\n%s\n", t.name, strings.TrimSpace(strings.ReplaceAll(t.body, "\r\n", "\n")))
		}
	}
	return b.String()
}

func orNone(s, none string) string {
	if s == "" {
		return none
	}
	return s
}
