package process

import "os"

// Suspend does nothing: there is no job control here.
func Suspend(<-chan os.Signal) bool { return false }

// StopWith only waits: no program stops itself here.
func StopWith(_ int, child, _ <-chan os.Signal) {
	for range child {
	}
}
