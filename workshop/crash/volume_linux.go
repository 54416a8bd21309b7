package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// volume is a file system in an image file in memory. Nothing of it outlives
// this process: the mount namespace is its own, the loop device clears itself
// when it is no longer mounted, and the image has no name.
type volume struct {
	kind    string   // ext4, xfs, tmpfs
	image   *os.File // nil for tmpfs
	dir     string   // where it is mounted
	mounted bool
}

// imageSizes are the smallest sizes that mkfs accepts and that a trial does
// not fill by accident; images are sparse.
var imageSizes = map[string]int64{"ext4": 96 << 20, "xfs": 320 << 20}

// canMount says why this machine cannot mount images, nil when it can.
func canMount(kind string) error {
	if os.Geteuid() != 0 {
		return &skipped{"mounting a file system needs root"}
	}
	if !isApart() {
		return &skipped{"no mount namespace of our own"}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return &skipped{"own mounts: " + err.Error()}
	}
	if kind == "tmpfs" {
		return nil
	}
	if _, err := mkfs(kind); err != nil {
		return &skipped{err.Error()}
	}
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil || !strings.Contains(string(known), "\t"+kind+"\n") {
		return &skipped{"the kernel has no " + kind}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return &skipped{"no loop devices: " + err.Error()}
	}
	return nil
}

// mkfs finds the program that makes a file system, which often is not in
// the PATH of ordinary users.
func mkfs(kind string) (string, error) {
	name := "mkfs." + kind
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s", name)
}

// newVolume makes a file system of the given size and does not mount it.
func newVolume(ctx context.Context, kind string, size int64, dir string) (*volume, error) {
	where := "/dev/shm"
	if _, err := os.Stat(where); err != nil {
		where = ""
	}
	image, err := os.CreateTemp(where, "tidemark-crash-*.img")
	if err != nil {
		return nil, err
	}
	defer os.Remove(image.Name())
	v := &volume{kind: kind, image: image, dir: dir}
	if err := image.Truncate(size); err != nil {
		return nil, errors.Join(err, v.close())
	}
	maker, err := mkfs(kind)
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	args := map[string][]string{"ext4": {"-q", "-F", "-m", "0"}, "xfs": {"-q", "-f"}}[kind]
	if out, err := exec.CommandContext(ctx, maker, append(args, image.Name())...).CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w: %s", maker, err, out), v.close())
	}
	return v, os.MkdirAll(dir, 0o700)
}

// attachLoop binds an image to a free loop device.
func attachLoop(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("free loop device: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &config)
		if err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) { // somebody else was quicker
			return nil, fmt.Errorf("loop device: %w", err)
		}
	}
	return nil, errors.New("no loop device could be had")
}

// mount takes a new loop device each time: one that stayed open would keep
// pages from before the cut in memory, which would be taken for the disk's.
func (v *volume) mount(data string, flags uintptr) error {
	source := v.kind // tmpfs has no device
	if v.image != nil {
		loop, err := attachLoop(v.image)
		if err != nil {
			return err
		}
		defer loop.Close()
		source = loop.Name()
	}
	if err := unix.Mount(source, v.dir, v.kind, flags, data); err != nil {
		return fmt.Errorf("mount %s with %q: %w", v.kind, data, err)
	}
	v.mounted = true
	return nil
}

// unmount waits a little for the kernel to finish work for killed
// processes.
func (v *volume) unmount() error {
	if !v.mounted {
		return nil
	}
	var err error
	for range 1000 {
		if err = unix.Unmount(v.dir, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	v.mounted = err != nil
	return err
}

// shutdownNoLogFlush stops a file system at once, without writing out even
// its log: what ext4 and XFS call EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN.
const (
	shutdown           = 0x8004587D
	shutdownNoLogFlush = 2
)

// cut cuts the power: nothing that is not on the disk reaches it any more.
func (v *volume) cut() error {
	d, err := os.Open(v.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	how := uint32(shutdownNoLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("shutdown of %s: %w", v.kind, errno)
	}
	return nil
}

func (v *volume) close() error {
	err := v.unmount()
	if v.image == nil {
		return err
	}
	return errors.Join(err, v.image.Close())
}
