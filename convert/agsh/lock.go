package agsh

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/process"
)

// holder returns who has a session open, "" for nobody. Up to 0.11 agsh wrote
// its pid into the row; later versions lock a file beside the database. The pid
// of a process that has ended is a stale lock.
func (s *source) holder(one *session) string {
	if one.lockedBy != "" {
		pid, err := strconv.Atoi(strings.TrimSpace(one.lockedBy))
		if err != nil || pid <= 0 {
			return ""
		}
		// The row names no host. The database is assumed to be from this one: if
		// it is not, a pid that happens to run here only causes a remark.
		here := process.Self("agsh")
		here.PID, here.StartedAt = pid, ""
		if process.Dead(here) {
			return ""
		}
		return fmt.Sprintf("agsh (pid %d)", pid)
	}
	name := path.Join(path.Dir(s.Name), "locks", one.id+".lock")
	if !s.meka || !fs.ValidPath(name) || strings.ContainsAny(one.id, `/\`) {
		return ""
	}
	info, err := fs.Stat(s.Source.FS, name)
	if err != nil || !isLocked(info) {
		return ""
	}
	return "meka"
}
