package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLicencesAreKnownByTheirWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"All rights reserved.": "",
		"Permission is hereby granted, free of charge, to any person obtaining":                     "MIT",
		"                Apache License\n           Version 2.0, January 2004":                      "Apache-2.0",
		"Redistribution and use in source and binary\nforms … endorse or promote\nproducts":         "BSD-3-Clause",
		"Redistribution and use in source and binary forms, with or without":                        "BSD-2-Clause",
		"Permission to use, copy, modify, and/or distribute this software for any purpose":          "ISC",
		"Mozilla Public License Version 2.0":                                                        "MPL-2.0",
		"Permission is hereby granted, free of charge, to any person … Apache License, Version 2.0": "Apache-2.0 AND MIT",
	} {
		if got := identify(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestNamesOfTheModuleCache(t *testing.T) {
	if got := escaped("github.com/BurntSushi/toml"); got != "github.com/!burnt!sushi/toml" {
		t.Error(got)
	}
}

// program writes what was found in this test itself, which is a Go program.
func found(t *testing.T) *program {
	t.Helper()
	file, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	p, err := read(file, "1.2", cache, t.TempDir(), "../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "example.com", "!upper@v1.0.0")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"LICENSE.txt": "Mozilla Public License Version 2.0\r\n", "NOTICE": "made by many", "license.go": "package x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := part{path: "example.com/Upper", version: "v1.0.0", sum: "h1:abc="}
	d.look(filepath.Join(cache, escaped(d.path)+"@"+d.version))
	p.parts = append(p.parts, d, part{path: "example.com/unknown", version: "v0.1.0"})
	p.at = "2026-01-02T03:04:05Z"
	return p
}

func TestDocumentsNameEveryPart(t *testing.T) {
	p := found(t)
	if p.license != "MIT" {
		t.Errorf("the program's own licence is %q", p.license)
	}
	for name, make := range map[string]func() any{"CycloneDX": p.cycloneDX, "SPDX": p.spdx} {
		one, err := json.Marshal(make())
		if err != nil {
			t.Fatal(err)
		}
		if two, _ := json.Marshal(make()); string(one) != string(two) {
			t.Errorf("%s: differs from one time to the next", name)
		}
		for _, want := range []string{"pkg:golang/example.com/Upper@v1.0.0", "h1:abc=", "MPL-2.0", "pkg:golang/example.com/unknown@v0.1.0", p.sha256, p.at, "pkg:golang/std@"} {
			if !strings.Contains(string(one), want) {
				t.Errorf("%s: has no %s", name, want)
			}
		}
	}
}

func TestTextsOfLicencesGoWithTheProgram(t *testing.T) {
	all := found(t).texts()
	for _, want := range []string{"example.com/Upper v1.0.0: MPL-2.0", "--- LICENSE.txt\n\nMozilla Public", "made by many", "std "} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(all, "package x") || strings.Contains(all, "\r") {
		t.Error("code, or ends of lines of another system, are in it")
	}
}

func TestWhatIsNoGoProgramIsRefused(t *testing.T) {
	if _, err := read("../../LICENSE", "1", "", "", "../../LICENSE"); err == nil {
		t.Error("a text is taken for a program")
	}
}
