//go:build unix && !linux

package sqlite

import "errors"

func mount(string, string) error   { return errors.ErrUnsupported }
func remount(string, string) error { return errors.ErrUnsupported }
func unmount(string)               {}
