// Package transfer takes sessions into a store and out of it: imports of what
// other tools keep, exports, and archives of whole stores.
//
// An import finds out what lies at a path. A second one adds only what is new: a
// session that grew gets the rest, an entry that was changed becomes a branch
// beside what it was, and nothing that is here is overwritten. Files of other
// tools are only read.
//
// It never prints, asks or reads the environment: what people want to see on the
// way is a function in the options, and what came of it is returned.
//
//	results, err := transfer.Import(ctx, s, "/home/ada/.claude", nil)
package transfer
