package durable

import "golang.org/x/sys/unix"

func timesFolders(st *unix.Statfs_t) bool { return unix.ByteSliceToString(st.Fstypename[:]) == "apfs" }
