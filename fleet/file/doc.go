// Package file reads fleet.yaml, which says which agents a fleet has and when
// each is due.
//
// [Parse] finds everything that is wrong with a file and says where; [Template]
// is one to start from, [File.YAML] writes one, [FromHerdctl] converts a
// configuration of herdctl, and [File.Changes] is what a reload would do. It
// reads the disk only through [Options], starts nothing, and reads no
// environment.
//
//	f, err := file.Parse("fleet.yaml", data, &file.Options{Files: os.DirFS(folder)})
package file
