package tidemark_test

import (
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestACommitPositionIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []tidemark.CommitPosition{{}, {Timeline: 1, LSN: 0x16B3748}, {Timeline: 7, LSN: 0xA_0000_00FF}, tidemark.UnknownCommitPosition} {
		if got, err := tidemark.ParseCommitPosition(p.String()); err != nil || got != p {
			t.Errorf("ParseCommitPosition(%q) = %v, %v", p, got, err)
		}
	}
	if got := (tidemark.CommitPosition{Timeline: 1, LSN: 0x16B3748}).String(); got != "1-0/16B3748" {
		t.Errorf("String = %q", got)
	}
	for _, wrong := range []string{"", "1", "1-", "1-0", "1-0/", "-0/1", "x-0/1", "1-0/G", "1-0/1/2", "1-100000000/0", "4294967296-0/1", "1-0/-1", "1-0/1\n", " 1-0/1"} {
		if p, err := tidemark.ParseCommitPosition(wrong); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("ParseCommitPosition(%q) = %v, %v, want ErrInvalid", wrong, p, err)
		}
	}
}

func TestADatabaseHasWhatWasCommittedOnItsOwnTimelineAlone(t *testing.T) {
	t.Parallel()
	at := tidemark.CommitPosition{Timeline: 2, LSN: 100}
	for asked, want := range map[tidemark.CommitPosition]bool{
		{Timeline: 2, LSN: 99}: true, at: true, {Timeline: 2, LSN: 101}: false, {Timeline: 1, LSN: 50}: false, {Timeline: 3, LSN: 50}: false, tidemark.UnknownCommitPosition: false,
	} {
		if got := at.Has(asked); got != want {
			t.Errorf("%v has %v: %v", at, asked, got)
		}
	}
}
