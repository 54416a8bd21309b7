package sqlite

import "syscall"

func mount(dir, options string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, options) }

func remount(dir, options string) error {
	flags := uintptr(syscall.MS_REMOUNT)
	switch options {
	case "ro":
		flags, options = flags|syscall.MS_RDONLY, ""
	case "rw":
		options = ""
	}
	return syscall.Mount("tmpfs", dir, "tmpfs", flags, options)
}

func unmount(dir string) { syscall.Unmount(dir, syscall.MNT_DETACH) }
