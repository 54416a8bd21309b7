package durable

import "os"

// OpenLog opens a file for another process to append to. It is created if it is
// missing, readable by its owner only.
func OpenLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
