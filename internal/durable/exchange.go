package durable

// Exchange lets two files change their names, in one step. Unlike Rename it leaves the
// file that had the name of the newer one: to free its room takes some disks a
// millisecond, and some file systems write the newer file out at once when the older
// one is replaced. It is false where that cannot be done, or one of them is not there.
func Exchange(fsys FS, a, b string) (exchanged bool, err error) {
	if d := dirOf(fsys); d != nil {
		return d.exchange(a, b)
	}
	return false, nil
}
