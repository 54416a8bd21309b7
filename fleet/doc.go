// Package fleet runs agents by a file: fleet.yaml says which agents there are
// and when each is due, and of every due instant it is known whether it ran,
// once, or why it did not.
//
// The file is read by [Parse], which finds all that is wrong with it and says
// where; [Template] is the one to begin with, and [File.Changes] is what a
// reload would do. A schedule's instants are absolute, whatever the clocks of
// its zone do. What is kept, is kept by the store: nothing here writes a row of
// its own, reads the environment, or prints; files it makes only in an inbox
// and in a mirror.
//
//	file, err := fleet.Parse("fleet.yaml", data, &fleet.Options{Files: os.DirFS(folder)})
package fleet
