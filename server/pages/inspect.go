package pages

import "time"

// Inspection is what is known about the storage of a principal. Nothing in
// it is secret: no key, no password of a database.
type Inspection struct {
	Kind     string // sqlite, files, postgres
	Place    string // a path, or a URL without its password
	Bytes    int64  // on disk, 0 if unknown
	Sealed   bool
	Rotating bool // a key rotation was begun and not finished
	Keys     []KeyInfo
	Backups  []BackupInfo // newest first; empty when none were recorded
}

// KeyInfo is one way to open a sealed store, without the key itself.
type KeyInfo struct {
	ID, Type, Label string
	CreatedAt       time.Time
	Opened          bool // this server opened the store with it
}

// BackupInfo is a copy that was made or attempted.
type BackupInfo struct {
	What    string // export, restore-drill
	At      time.Time
	Outcome string
}
