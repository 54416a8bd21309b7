// Package file reads fleet.yaml, which says which agents a fleet has and when
// each is due.
//
// [Parse] finds all that is wrong with a file and says where; [Template] is the
// one to begin with, [File.YAML] writes one, [FromHerdctl] makes one of a
// configuration of herdctl, and [File.Changes] is what a reload would do. It
// looks at no disk but through [Options], starts nothing, and reads no
// environment.
//
//	f, err := file.Parse("fleet.yaml", data, &file.Options{Files: os.DirFS(folder)})
package file
