package segment

// PairsFrom makes segments of so many lines or more have pairs, in slabs of so many, and
// returns what undoes that.
func PairsFrom(lines int, slab int64) (undo func()) {
	from, of := pairedFrom, slabLines
	pairedFrom, slabLines = lines, slab
	return func() { pairedFrom, slabLines = from, of }
}
