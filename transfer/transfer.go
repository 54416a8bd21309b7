// Package transfer moves sessions into a store and out of it: imports from
// other tools, exports, and archives of whole stores.
//
// An import detects the format of a path. A second one adds only what is new: a
// session that grew gets the rest, a changed entry becomes a branch beside the
// old one, and nothing is overwritten. Files of other tools are only read.
//
// It never prints, prompts or reads the environment: progress is reported
// through functions in the options, and the outcome is returned.
//
//	results, err := transfer.Import(ctx, s, "/home/ada/.claude", nil)
package transfer
