package remote

import "context"

// Flight bounds what is under way to a place or from it at the same time: enough that
// nobody waits for one answer after the other, and that memory stays small. One
// goroutine at a time may Enter.
type Flight struct {
	units chan struct{} // each for one blob, and for as many more as it has of unitBytes
}

const (
	flightUnits = 16
	unitBytes   = 1 << 20
)

// NewFlight returns one in which nothing is under way.
func NewFlight() *Flight { return &Flight{make(chan struct{}, flightUnits)} }

// Enter waits until there is room for a blob of this size. Leave has to be called with
// the same size.
func (f *Flight) Enter(ctx context.Context, size int64) error {
	for n := range units(size) {
		select {
		case f.units <- struct{}{}:
		case <-ctx.Done():
			for range n {
				<-f.units
			}
			return ctx.Err()
		}
	}
	return nil
}

// Leave makes room for others.
func (f *Flight) Leave(size int64) {
	for range units(size) {
		<-f.units
	}
}

// units is how many a blob takes: one that is larger than all that may be under way
// goes alone.
func units(size int64) int64 { return min(1+size/unitBytes, flightUnits) }
