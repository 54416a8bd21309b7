//go:build !linux

package sqlite

import "os"

func syncPlain(f *os.File) { f.Sync() }
