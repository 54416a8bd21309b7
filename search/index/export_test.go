package index

// InBatchesOf has segments committed in smaller batches, so that a small one takes
// several.
func (ix *Index) InBatchesOf(bytes int) { ix.batch = bytes }

// HelpedBy has so many gather what CatchUp indexes alone, a few lines at a time, when
// one has a few.
func (ix *Index) HelpedBy(many int) { ix.help = help{many: many, from: 5, task: 7} }
