package tidemark

import (
	"encoding/json"
	"fmt"
	"strings"
)

// KindSnapshot is the kind of an entry that is kept before files of the user's are
// changed: it says what they were and what they become. It is no message, and it
// is in the log of the session also when a worker makes the change, so that the
// order of the log is the order of the changes.
const KindSnapshot = "snapshot"

// Snapshot is what such an entry holds.
type Snapshot struct {
	Root   string       `json:"root"`             // the absolute path of the folder that the paths are in
	Call   string       `json:"call,omitempty"`   // the id of the tool call that makes the change
	Worker string       `json:"worker,omitempty"` // the worker that made the call
	Rewind *Rewound     `json:"rewind,omitempty"` // files are put back
	Files  []FileChange `json:"files"`
}

// Rewound says where files are put back to.
type Rewound struct {
	To int64 `json:"to"` // the files as they were when this was the newest entry
}

// FileChange is what a change makes of one file.
type FileChange struct {
	Path   string      `json:"path"` // slash-separated, below Root
	Before FileVersion `json:"before"`
	After  FileVersion `json:"after"`
}

// The kinds of a FileVersion.
const (
	VersionAbsent = "absent"
	VersionFile   = "file"
	VersionLink   = "link"
)

// FileVersion is what stood, or will stand, at a path.
type FileVersion struct {
	Kind    string `json:"kind"`
	Mode    uint32 `json:"mode,omitempty"`    // of a file: permission bits, 0 where they are not known
	Size    int64  `json:"size,omitempty"`    // of a file
	SHA256  string `json:"sha256,omitempty"`  // of a file's content, "" where it was not read
	Content string `json:"content,omitempty"` // the last part of the id of the log that holds the content
	Lost    string `json:"lost,omitempty"`    // why the content is not kept, "" when it is
	Target  string `json:"target,omitempty"`  // of a link
	Folder  string `json:"folder,omitempty"`  // where nothing stands: the deepest folder above it that exists

	Data []byte `json:"-"` // the content that a store is to keep
}

// Same reports whether two versions are the same but for the mode and for the
// folders that exist.
func (v FileVersion) Same(o FileVersion) bool {
	return v.Kind == o.Kind && v.Size == o.Size && v.SHA256 == o.SHA256 && v.Target == o.Target && (v.Kind != VersionFile || v.SHA256 != "")
}

// maxNamed is how many files the text of a snapshot names.
const maxNamed = 20

// Summary says for people which files change.
func (s Snapshot) Summary() string {
	what := "files changed"
	if s.Rewind != nil {
		what = "files put back"
	}
	var names []string
	for _, f := range s.Files[:min(len(s.Files), maxNamed)] {
		names = append(names, strings.ToValidUTF8(f.Path, "\uFFFD"))
	}
	if len(s.Files) > maxNamed {
		names = append(names, "…")
	}
	return fmt.Sprintf("%s: %d (%s)", what, len(s.Files), strings.Join(names, ", "))
}

// SnapshotOf returns the snapshot in an entry, and whether it is one that can be
// understood.
func SnapshotOf(e Entry) (Snapshot, bool) {
	var extra struct {
		Snapshot *Snapshot `json:"snapshot"`
	}
	if e.Kind != KindSnapshot || json.Unmarshal(e.Extra, &extra) != nil || extra.Snapshot == nil {
		return Snapshot{}, false
	}
	return *extra.Snapshot, true
}
