//go:build !linux && !darwin

package durable

import "errors"

func (d *Dir) tellsFolders() bool { return false }

func (d *Dir) folder(string) (Folder, error) { return Folder{}, errors.ErrUnsupported }
