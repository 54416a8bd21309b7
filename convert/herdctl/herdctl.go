// Package herdctl imports and exports the state folder of herdctl: its agents
// with their sessions and schedules, and its jobs with their output. The
// conversations themselves are Claude Code's, and are in Claude Code's own
// store. It does not check whether a job that claims to run still does, and Tool
// reads no configuration. See docs/formats/herdctl.md.
//
//	fleet, err := herdctl.Tool().Fleet(ctx, place)
package herdctl

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	toolName  = "herdctl"
	folder    = ".herdctl"
	stateFile = "state.yaml"
	yamlEnd   = ".yaml"
	jsonEnd   = ".json"
	outputEnd = ".jsonl"
	logEnd    = ".log"

	jobsDir       = "jobs"
	sessionsDir   = "sessions"
	logsDir       = "logs"
	metadataDir   = "session-metadata"
	adoptedDir    = "adopted-sessions"
	dockerDir     = "docker-sessions"
	channelDirEnd = "-sessions"
)

// Tool returns herdctl.
func Tool() convert.Tool {
	return convert.Tool{
		Name:        toolName,
		Title:       "herdctl",
		Detect:      detect,
		Fleet:       fleet,
		ExportFleet: export,
	}
}

func detect(ctx context.Context, p convert.Source) bool {
	info, err := fs.Stat(p.FS, p.Path)
	switch {
	case err != nil || ctx.Err() != nil:
		return false
	case !info.IsDir():
		return path.Base(p.Path) == stateFile && beginsAsState(p.FS, p.Path)
	}
	if dir := path.Join(p.Path, folder); convert.IsDir(p.FS, dir) {
		return holdsState(p.FS, dir)
	}
	if path.Base(p.Path) == folder {
		return holdsState(p.FS, p.Path)
	}
	// The folder may have another name, or one that cannot be seen from inside.
	return beginsAsState(p.FS, path.Join(p.Path, stateFile)) &&
		(convert.IsDir(p.FS, path.Join(p.Path, jobsDir)) || convert.IsDir(p.FS, path.Join(p.Path, sessionsDir)))
}

// root returns the state folder of a Source that detect accepts.
func root(p convert.Source) string {
	info, err := fs.Stat(p.FS, p.Path)
	if err == nil && !info.IsDir() {
		return path.Dir(p.Path)
	}
	if dir := path.Join(p.Path, folder); convert.IsDir(p.FS, dir) {
		return dir
	}
	return p.Path
}

func holdsState(fsys fs.FS, dir string) bool {
	_, err := fs.Stat(fsys, path.Join(dir, stateFile))
	return err == nil || convert.IsDir(fsys, path.Join(dir, jobsDir)) || convert.IsDir(fsys, path.Join(dir, sessionsDir))
}

// beginsAsState reports whether one of the first lines of a file has a key that
// every state has.
func beginsAsState(fsys fs.FS, name string) bool {
	const sniffBytes = 4 << 10
	if !convert.IsFile(fsys, name) {
		return false
	}
	b, err := convert.Head(fsys, name, sniffBytes)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(b) {
		if bytes.HasPrefix(line, []byte("fleet:")) || bytes.HasPrefix(line, []byte("agents:")) {
			return true
		}
	}
	return false
}

// baseName returns the last element of a path of any system.
func baseName(name string) string { return name[strings.LastIndexAny(name, `/\`)+1:] }
