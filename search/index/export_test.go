package index

// InBatchesOf has segments committed in smaller batches, so that a small one takes
// several.
func (ix *Index) InBatchesOf(bytes int) { ix.batch = bytes }
