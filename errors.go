package tidemark

import (
	"errors"
	"fmt"
)

// The sentinels. Every error that leaves a room answers to at most one of
// them under errors.Is, and says which thing it is about.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("already there")
	ErrConflict    = errors.New("changed meanwhile")
	ErrHeld        = errors.New("held by another writer")
	ErrInvalid     = errors.New("not valid")
	ErrCorrupt     = errors.New("damaged")
	ErrSealed      = errors.New("wrong or missing key")
	ErrDenied      = errors.New("not allowed")
	ErrUnsupported = errors.New("not supported")
	ErrNoStore     = errors.New("no such store")
	ErrUnknown     = errors.New("outcome unknown")
	ErrStorage     = errors.New("storage failed")
)

// Finer kinds, for callers that advise people what to do. Each also answers to
// one of the sentinels above, whose code it has outside of Go.
var (
	ErrTrashed    = Errorf(ErrNotFound, "in the trash")
	ErrNoSessions = Errorf(ErrNotFound, "there is no session yet")
	ErrOnHold     = Errorf(ErrDenied, "on hold")
	ErrLocalOnly  = Errorf(ErrInvalid, "local-only")
	// ErrColdAway: the place of older lines does not answer. Nothing else suffers.
	ErrColdAway = Errorf(ErrStorage, "the cold place does not answer")
	ErrWentBack = Errorf(ErrConflict, "the log went back: the store was restored, or failed over to a copy that lacked its end")
)

// Code is what one sentinel is called outside of Go.
type Code struct {
	Err  error
	Name string // the code in JSON errors
	Exit int    // the exit code of the command line
	HTTP int    // the status of the server
}

// Codes maps each sentinel to its names outside of Go. The first row whose Err
// matches wins; an error that matches none is exit 1 and status 500.
var Codes = []Code{
	{ErrNoStore, "no_store", 10, 503},
	{ErrHeld, "held", 11, 423},
	{ErrSealed, "sealed", 12, 403},
	{ErrCorrupt, "corrupt", 13, 500},
	{ErrStorage, "storage", 14, 507},
	{ErrDenied, "denied", 4, 403},
	{ErrNotFound, "not_found", 5, 404},
	{ErrInvalid, "invalid", 2, 400},
	{ErrExists, "exists", 1, 409},
	{ErrConflict, "conflict", 1, 409},
	{ErrUnsupported, "unsupported", 1, 501},
	{ErrUnknown, "unknown_outcome", 1, 502},
}

// CodeOf returns the row of Codes that err answers to, and a row named
// "failed" when it answers to none.
func CodeOf(err error) Code {
	for _, c := range Codes {
		if errors.Is(err, c.Err) {
			return c
		}
	}
	return Code{Err: err, Name: "failed", Exit: 1, HTTP: 500}
}

// Damage says where stored data does not match what was written. It is
// ErrCorrupt under errors.Is.
type Damage struct {
	Key   Key    // the record or log
	Seq   int64  // the line, 0 for a record or a whole log
	Place string // where on disk: a file and line, a table and row
	What  string // what is wrong with it
}

func (d *Damage) Error() string {
	thing := d.Key.String()
	if d.Seq != 0 {
		thing = fmt.Sprintf("%s: line %d", thing, d.Seq)
	}
	if d.Place != "" {
		thing += " (" + d.Place + ")"
	}
	return thing + ": damaged: " + d.What
}

// Is makes a Damage answer to ErrCorrupt.
func (d *Damage) Is(target error) bool { return target == ErrCorrupt }

// TrimmedError says that lines of a log are not in the Backend that was asked: they
// were trimmed, and are kept elsewhere. It is ErrStorage under errors.Is.
type TrimmedError struct {
	Log  Key
	Upto int64 // the newest line that is not here

	// Where lines were read: which of the spans it was, and what is left of it.
	Span        int
	First, Last int64
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("%s: lines 1 to %d are at a cold place, and this program does not look there", e.Log, e.Upto)
}

func (e *TrimmedError) Is(target error) bool { return target == ErrStorage }

// Errorf returns an error that answers to kind, and to whatever it wraps with %w.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Errorf(format, args...)}
}

// Invalidf returns an error that answers to ErrInvalid.
func Invalidf(format string, args ...any) error { return Errorf(ErrInvalid, format, args...) }

// NotFoundf returns an error that answers to ErrNotFound.
func NotFoundf(format string, args ...any) error { return Errorf(ErrNotFound, format, args...) }

// Conflictf returns an error that answers to ErrConflict.
func Conflictf(format string, args ...any) error { return Errorf(ErrConflict, format, args...) }

// Existsf returns an error that answers to ErrExists.
func Existsf(format string, args ...any) error { return Errorf(ErrExists, format, args...) }

// Storagef returns an error that answers to ErrStorage.
func Storagef(format string, args ...any) error { return Errorf(ErrStorage, format, args...) }

// Deniedf returns an error that answers to ErrDenied.
func Deniedf(format string, args ...any) error { return Errorf(ErrDenied, format, args...) }

// Unsupportedf returns an error that answers to ErrUnsupported.
func Unsupportedf(format string, args ...any) error { return Errorf(ErrUnsupported, format, args...) }

// kindError carries a sentence of its own and still answers to a sentinel, so
// that messages need not end in the sentinel's words.
type kindError struct {
	kind error
	err  error
}

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// NewerError says that something was written by a newer program, in a format
// that this one does not know. Nothing of it was changed. It answers to
// ErrUnsupported.
type NewerError struct {
	What   string // such as "store /srv/tidemark.db"
	Format int64  // the format that it has
	Known  int64  // the newest that this program knows
	Backup string // the copy from before the change of format, "" when none is known
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: has format %d, made by a newer program; this one knows format %d", e.What, e.Format, e.Known)
}

func (e *NewerError) Is(target error) bool { return target == ErrUnsupported }
