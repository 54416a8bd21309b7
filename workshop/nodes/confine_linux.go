package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// period is how long the kernel counts before a process may compute again.
const period = 10 * time.Millisecond

// Confine lets the process of a node compute at most so many thousandths of a core. It
// needs control groups that this program may make, as root in most containers may. The
// node has to have ended before free is called.
func (n *Node) Confine(milli int) (free func() error, err error) {
	quota, micros := period.Microseconds()*int64(milli)/1000, period.Microseconds()
	for _, c := range []struct{ in, file, limit string }{
		{"/sys/fs/cgroup", "cpu.max", fmt.Sprint(quota, " ", micros)},
		{"/sys/fs/cgroup/unified", "cpu.max", fmt.Sprint(quota, " ", micros)},
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", fmt.Sprint(quota)},
	} {
		dir := filepath.Join(c.in, fmt.Sprint("tidemark-node-", n.cmd.Process.Pid))
		if err = os.Mkdir(dir, 0o700); err != nil {
			continue
		}
		free = func() error { return os.Remove(dir) }
		if c.file == "cpu.cfs_quota_us" { // the older kind has a file for each
			err = set(dir, "cpu.cfs_period_us", fmt.Sprint(micros))
		}
		if err = errors.Join(err, set(dir, c.file, c.limit)); err == nil {
			if err = set(dir, "cgroup.procs", strconv.Itoa(n.cmd.Process.Pid)); err == nil {
				return free, nil
			}
		}
		free()
	}
	return nil, fmt.Errorf("a node cannot be confined to a share of the machine here: %w", err)
}

// set writes a value into a file of a control group, which is there if the group has
// that control.
func set(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
