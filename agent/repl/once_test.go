package repl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts writes.
type counted struct {
	strings.Builder
	writes int
	fails  error
}

func (c *counted) Write(p []byte) (int, error) {
	if c.fails != nil {
		return 0, c.fails
	}
	c.writes++
	return c.Builder.Write(p)
}

func TestWordsThatComeTogetherShareAWriteAndNoneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &counted{}
		g := gather(out)
		var want strings.Builder
		write := func(i int) {
			fmt.Fprintf(&want, "word%d ", i)
			if _, err := fmt.Fprintf(g, "word%d ", i); err != nil {
				t.Fatal(err)
			}
		}
		write(0)
		synctest.Wait()
		if out.String() != "word0 " {
			t.Errorf("the first word waits: %q", out.String())
		}
		for i := range 1000 {
			write(i)
		}
		time.Sleep(gatherPause)
		synctest.Wait()
		if out.String() != want.String() || out.writes != 2 {
			t.Errorf("%d bytes of %d in %d writes", out.Len(), want.Len(), out.writes)
		}
		write(1001)
		began := time.Now()
		if err := g.Close(); err != nil || out.String() != want.String() || time.Since(began) > 0 {
			t.Errorf("at the end %d bytes of %d, %v, after %v", out.Len(), want.Len(), err, time.Since(began))
		}
	})
}

func TestAReaderWhoIsGoneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		g := gather(&counted{fails: gone})
		if _, err := g.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := g.Write([]byte("b")); !errors.Is(err, gone) {
			t.Errorf("the next write: %v", err)
		}
		if err := g.Close(); !errors.Is(err, gone) {
			t.Errorf("at the end: %v", err)
		}
	})
}
