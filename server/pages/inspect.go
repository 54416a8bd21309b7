package pages

import "time"

// Inspection is what is known of where the things of a principal are kept.
// Nothing in it is a secret: no key, no password of a database.
type Inspection struct {
	Kind     string // sqlite, files, postgres
	Place    string // a path, or a URL without its password
	Bytes    int64  // on disk, 0 when nobody knows
	Sealed   bool
	Rotating bool // a rotation of keys was begun and not finished
	Keys     []KeyInfo
	Backups  []BackupInfo // the newest first; none when nobody wrote them down
}

// KeyInfo is one way to open a sealed store, without what opens it.
type KeyInfo struct {
	ID, Type, Label string
	CreatedAt       time.Time
	Opened          bool // it is what this server opened the store with
}

// BackupInfo is a copy that was made or tried.
type BackupInfo struct {
	What    string // export, restore-drill
	At      time.Time
	Outcome string
}
