package tidemark

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFreshSessionIDsAreRandomUUIDs(t *testing.T) {
	seen := make(map[SessionID]bool)
	for range 1000 {
		id := NewSessionID()
		if again, err := ParseSessionID(string(id)); err != nil || again != id {
			t.Fatalf("ParseSessionID(%q) = %q, %v", id, again, err)
		}
		if id[14] != '4' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Fatalf("%s is not a UUID of version 4", id)
		}
		if seen[id] {
			t.Fatalf("%s came twice", id)
		}
		seen[id] = true
		if err := CheckID(string(id)); err != nil {
			t.Fatalf("%s cannot name a file: %v", id, err)
		}
	}
}

func TestADerivedSessionIDIsTheSameEverywhere(t *testing.T) {
	id := DerivedSessionID("import", "codex", "one")
	if id != "0941378f-aa21-8eca-9bc7-5da4c3d944c3" || !id.Derived() || NewSessionID().Derived() {
		t.Errorf("%s, which other machines must have, too", id)
	}
	if parsed, err := ParseSessionID(string(id)); err != nil || parsed != id || !strings.ContainsRune("89ab", rune(id[19])) {
		t.Errorf("%s is no UUID: %v", id, err)
	}
	seen := map[SessionID][]string{}
	for _, parts := range [][]string{{"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""}, {"1:a"}, {"a1:b"}, {"a", "b", ""}, {}} {
		if other, twice := seen[DerivedSessionID(parts...)]; twice {
			t.Errorf("%q and %q have the same id", parts, other)
		}
		seen[DerivedSessionID(parts...)] = parts
	}
}

func TestSessionIDsAreParsedInEitherCase(t *testing.T) {
	const want = SessionID("7f3a0c1e-0b2d-7c4e-8f60-112233445566")
	for _, s := range []string{string(want), strings.ToUpper(string(want)), "7F3a0c1e-0B2d-7c4E-8f60-112233445566"} {
		if got, err := ParseSessionID(s); err != nil || got != want {
			t.Errorf("ParseSessionID(%q) = %q, %v, want %q", s, got, err, want)
		}
	}
}

func TestWhatIsNotASessionIDIsRefused(t *testing.T) {
	for _, s := range []string{
		"", "7f3a", "last", "7f3a0c1e0b2d7c4e8f60112233445566",
		"7f3a0c1e-0b2d-7c4e-8f60-11223344556",
		"7f3a0c1e-0b2d-7c4e-8f60-1122334455667",
		"7f3a0c1e-0b2d-7c4e-8f60-11223344556g",
		"7f3a0c1e_0b2d-7c4e-8f60-112233445566",
		"7f3a0c1e-0b2d-7c4e-8f6-0112233445566",
		"{f3a0c1e-0b2d-7c4e-8f60-11223344556}",
		" f3a0c1e-0b2d-7c4e-8f60-112233445566",
		"../../etc/passwd-7c4e-8f60-112233445",
		"7f3a0c1e-0b2d-7c4e-8f60-1122334455\x00\n",
		"７f3a0c1e-0b2d-7c4e-8f60-1122334455",
		"\xff\xff\xff\xff\xff\xff\xff\xff-0b2d-7c4e-8f60-112233445566",
		strings.Repeat("a", 1<<20),
	} {
		id, err := ParseSessionID(s)
		if !errors.Is(err, ErrInvalid) || id != "" {
			t.Errorf("ParseSessionID(%.50q) = %q, %v, want ErrInvalid", s, id, err)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("ParseSessionID(%.50q): a message of %d bytes", s, len(err.Error()))
		}
	}
}

func TestIDsThatNameFilesAndRows(t *testing.T) {
	for _, s := range []string{
		"a", "0", "-", "_", "a.b", "A-Z_0.9", "7f3a0c1e-0b2d-7c4e-8f60-112233445566.worker-1", strings.Repeat("x", MaxIDBytes), "a.", "b" + NewBatchID(),
	} {
		if err := CheckID(s); err != nil {
			t.Errorf("CheckID(%q) = %v", s, err)
		}
	}
	for _, s := range []string{
		"", ".", "..", ".hidden", "a..b", "a/b", "/a", `a\b`, "a:b", "a b", "a\x00b", "a\nb", "a\x1b[2J", "ä", "a\u202eb", "\xff", "a*", "a?", "~", "a%2e", "'", `"`, ";",
		strings.Repeat("x", MaxIDBytes+1), strings.Repeat("../", 1<<16),
	} {
		err := CheckID(s)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckID(%.50q) = %v, want ErrInvalid", s, err)
		} else if len(err.Error()) > 500 {
			t.Errorf("CheckID(%.50q): a message of %d bytes", s, len(err.Error()))
		}
	}
}

func TestKeysHaveALowerCaseKind(t *testing.T) {
	for _, k := range []Key{{"session", "a"}, {"x", "a"}, {strings.Repeat("k", 32), "a"}} {
		if err := k.Check(); err != nil {
			t.Errorf("%v.Check() = %v", k, err)
		}
	}
	for _, k := range []Key{
		{}, {"session", ""}, {"", "a"}, {"Session", "a"}, {"ses sion", "a"}, {"s/s", "a"}, {"..", "a"}, {"k1", "a"}, {"ä", "a"},
		{strings.Repeat("k", 33), "a"}, {"session", "../a"},
	} {
		if err := k.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v.Check() = %v, want ErrInvalid", k, err)
		}
	}
	if got := (Key{"session", "a"}).String(); got != "session/a" {
		t.Errorf("String = %q", got)
	}
}

func TestAnAcceptedIDIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9._\-/\\ ]{0,140}`)).Draw(t, "id")
		if err := CheckID(s); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("CheckID(%q) = %v, want ErrInvalid", s, err)
			}
			return
		}
		if s == "" || len(s) > MaxIDBytes || strings.Contains(s, "..") || strings.HasPrefix(s, ".") || strings.ContainsAny(s, "/\\:\x00 \n") || !utf8.ValidString(s) {
			t.Fatalf("CheckID(%q) = nil", s)
		}
	})
}

func TestFreshBatchIDsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		id := NewBatchID()
		if len(id) != 16 || seen[id] {
			t.Fatalf("NewBatchID = %q, want 16 characters that never came before", id)
		}
		seen[id] = true
	}
}
