package open

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/seal"
)

// PolicyVariable names another file than the one of the machine.
const PolicyVariable = "TIDEMARK_POLICY_FILE"

// Policy is what an organisation wants of all stores that are made on its machines.
// It comes from whoever administers the machine, never from a project or a server.
type Policy struct {
	// Organisation is what people know it by.
	Organisation string `yaml:"organisation"`
	// Escrow are age recipients of the organisation: what they have opens every
	// encrypted store that is made.
	Escrow []string `yaml:"escrow"`
}

// policyFile is where the policy of this machine is.
func policyFile(environ []string) string {
	if file := Getenv(environ, PolicyVariable); file != "" {
		return file
	}
	if runtime.GOOS == "windows" {
		dir := Getenv(environ, "ProgramData")
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, "tidemark", "policy.yaml")
	}
	return "/etc/tidemark/policy.yaml"
}

// PolicyOf returns the policy of this machine; the zero one where there is none. An
// invalid one is an error: nobody knows what it would have wanted.
func PolicyOf(environ []string) (p Policy, err error) {
	file := policyFile(environ)
	f, err := os.Open(file)
	switch {
	case file == "" || errors.Is(err, fs.ErrNotExist):
		return p, nil
	case err != nil:
		return p, tidemark.Invalidf("policy: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return p, tidemark.Invalidf("policy: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return p, hint.With(tidemark.Invalidf("policy %s: others can write it (mode %04o)", file, info.Mode().Perm()), "chmod go-w %s", file)
	}
	if err := yaml.ReadSettings("policy", file, f, &p); err != nil {
		return p, err
	}
	p.Organisation = strings.TrimSpace(p.Organisation)
	if len(p.Escrow) > 0 && p.Organisation == "" {
		return p, tidemark.Invalidf("policy %s: escrow without organisation: people are told whose key opens their store", file)
	}
	if _, err := p.slots(); err != nil {
		return p, tidemark.Invalidf("policy %s: escrow: %w", file, err)
	}
	return p, nil
}

// slots are those that a new store gets for the organisation: one for each recipient,
// because kinds of recipients cannot share one.
func (p Policy) slots() (all []seal.NewSlot, err error) {
	for _, recipient := range p.Escrow {
		s, err := seal.AgeSlot("escrow: "+p.Organisation, recipient)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Missing returns the recipients of the organisation that do not open a store.
func (p Policy) Missing(h seal.Header) (all []string) {
	for _, recipient := range p.Escrow {
		if !slices.ContainsFunc(h.Slots, func(s seal.Slot) bool { return slices.Contains(s.Recipients, recipient) }) {
			all = append(all, recipient)
		}
	}
	return all
}
