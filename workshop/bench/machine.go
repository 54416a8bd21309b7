package main

import (
	"fmt"

	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// surroundings are where and when a part was measured.
type surroundings struct {
	machine.Machine
	loadBefore, loadAfter string
}

func lookAround(dir string) surroundings {
	return surroundings{Machine: machine.Look(dir), loadBefore: machine.Load()}
}

func (s surroundings) String() string {
	text := fmt.Sprintf("Measured on %s: %s", s.Day, s.Machine)
	if s.loadBefore != "" {
		text += fmt.Sprintf(", load %s before and %s after", s.loadBefore, s.loadAfter)
	}
	return text
}
