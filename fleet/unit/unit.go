// Package unit has the units that keep a fleet running: one of systemd and a
// property list of launchd. It reads nothing of the system and installs nothing.
//
//	text := unit.Systemd(service)
package unit

import (
	_ "embed"

	"github.com/tidemark-sessions/tidemark/internal/unit"
)

var (
	//go:embed systemd.service
	systemd string
	//go:embed launchd.plist
	launchd string
)

// Systemd returns a unit of systemd.
func Systemd(s unit.Service) string { return s.Systemd(systemd) }

// Launchd returns a property list of launchd.
func Launchd(s unit.Service) string { return s.Launchd(launchd) }
