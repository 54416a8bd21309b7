package durable

import "os"

// OpenLog opens a file that another process is to write to, at its end: what is
// there stays. It is made if it is missing, for its owner alone.
func OpenLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
