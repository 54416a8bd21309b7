package web

import (
	"html/template"
	"slices"
	"strings"
	"time"
)

// Store is what the page of the store shows. Part is the current tab; the
// fields of the others are empty.
type Store struct {
	Part   string   `json:"part"` // overview, audit, tokens, users, links, tenants
	Parts  []string `json:"-"`    // those that the user may see
	Tenant string   `json:"tenant,omitempty"`

	Overview *StoreOverview `json:"overview,omitempty"`
	Audit    *StoreAudit    `json:"audit,omitempty"`
	Tokens   *StoreTokens   `json:"tokens,omitempty"`
	Users    *StoreUsers    `json:"users,omitempty"`
	Links    *StoreLinks    `json:"links,omitempty"`
	Tenants  *StoreTenants  `json:"tenants,omitempty"`
	Leaving  *StoreLeaving  `json:"leaving,omitempty"`
}

// StoreOverview is the store itself.
type StoreOverview struct {
	Kind   string `json:"kind,omitempty"`  // sqlite, postgres, files
	Place  string `json:"place,omitempty"` // for admins
	Bytes  int64  `json:"bytes,omitempty"`
	Known  bool   `json:"known"` // everything above and the keys are known
	Sealed bool   `json:"sealed"`

	Census *Task         `json:"census"`
	Counts *StoreCounts  `json:"counts,omitempty"`
	Growth template.HTML `json:"-"`
	Born   template.HTML `json:"-"`
	Days   []StoreDay    `json:"days"`

	Limits []StoreLimit `json:"limits,omitempty"` // of the user and the tenant, where there are some

	Verify  *Task         `json:"verify,omitempty"`
	Damage  []StoreDamage `json:"damage"`
	Damages int           `json:"damages"`  // total number
	Checked int64         `json:"verified"` // sessions

	Watch *Watch    `json:"watch,omitempty"` // nil: nobody knows
	Met   []Meeting `json:"met,omitempty"`   // remotes, and when they were last met

	Leases     []StoreLease `json:"leases"`
	LeasesLeft bool         `json:"leases_left,omitempty"` // there are more

	Index   string `json:"index"` // none, current, behind
	Behind  int64  `json:"behind"`
	Reindex *Task  `json:"reindex,omitempty"`

	Keys     []StoreKey    `json:"keys"`
	Rotating bool          `json:"rotating,omitempty"`
	Backups  []StoreBackup `json:"backups"`
}

// Watch is what a watcher follows on this machine.
type Watch struct {
	Running     bool            `json:"running"`
	Watcher     string          `json:"watcher,omitempty"`
	Since       time.Time       `json:"since,omitzero"`
	PausedUntil time.Time       `json:"paused_until,omitzero"`
	Sources     []WatchedSource `json:"sources"`
}

// WatchedSource is a folder where a tool keeps its sessions, as the watcher last reported
// it.
type WatchedSource struct {
	Tool     string    `json:"tool"`
	Path     string    `json:"path"`
	State    string    `json:"state"`    // following, or why nothing is imported now
	At       time.Time `json:"at"`       // of the report
	Sessions int       `json:"sessions"` // that were new or changed then
	Failing  bool      `json:"failing,omitempty"`
	Problems []string  `json:"problems,omitempty"`
}

// Failing is how many sources have a problem.
func (w Watch) Failing() int {
	n := 0
	for _, s := range w.Sources {
		if s.Failing {
			n++
		}
	}
	return n
}

// Paused reports whether the watcher takes in nothing now.
func (w Watch) Paused(now time.Time) bool { return w.PausedUntil.After(now) }

// Refresh reports whether something is in progress that is worth another look.
func (o StoreOverview) Refresh() bool {
	for _, t := range []*Task{o.Census, o.Verify, o.Reindex} {
		if t != nil && t.Running {
			return true
		}
	}
	return false
}

// StoreCounts is how much there is.
type StoreCounts struct {
	Sessions int64 `json:"sessions"`
	Forks    int64 `json:"forks"`
	Trash    int64 `json:"trash"`
	Entries  int64 `json:"entries"`
	Damaged  int64 `json:"damaged"` // sessions whose record cannot be read
}

// StoreLimit is how much of a limit is used.
type StoreLimit struct {
	Name string `json:"name"` // sessions, storage, bytes; with tenant- before it for the whole tenant
	Used int64  `json:"used"`
	Most int64  `json:"most"` // 0: there is none
}

// Sized reports whether it is a number of bytes.
func (l StoreLimit) Sized() bool { return !strings.HasSuffix(l.Name, "sessions") }

// High is how much of it is nearly all.
func (l StoreLimit) High() int64 { return l.Most / 10 * 9 }

// StoreDay is what a day added.
type StoreDay struct {
	Day      string `json:"day"`
	Sessions int64  `json:"sessions"`
	Messages int64  `json:"messages"`
}

// StoreDamage is something that cannot be read.
type StoreDamage struct {
	Session string `json:"session,omitempty"` // where to look at it
	Seq     int64  `json:"seq,omitempty"`
	What    string `json:"what"`
}

// StoreLease is the writer of a session.
type StoreLease struct {
	Session string    `json:"session"`
	Title   string    `json:"title,omitempty"`
	Holder  string    `json:"holder"`
	Since   time.Time `json:"since"`
	HeardAt time.Time `json:"heard_at"`
	State   string    `json:"state"` // alive, silent, dead
}

// StoreKey is a way to open the store. It contains nothing of the key itself.
type StoreKey struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Label     string    `json:"label,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	Opened    bool      `json:"opened"`
}

// StoreBackup is a known copy.
type StoreBackup struct {
	What    string    `json:"what"`
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
}

// StoreAudit is a page of the audit log.
type StoreAudit struct {
	AuditFilter
	Lines  []AuditLine  `json:"lines"`
	Next   string       `json:"next,omitempty"`
	More   string       `json:"-"`              // the address of the next page
	Export string       `json:"-"`              // the address of all of it, as JSON lines
	None   bool         `json:"none,omitempty"` // the store keeps no audit log
	Verify *Task        `json:"verify,omitempty"`
	Report *AuditReport `json:"report,omitempty"`
}

// AuditFilter is which lines of the audit log are shown; "" is any.
type AuditFilter struct {
	Who   string `json:"who,omitempty"`
	What  string `json:"what,omitempty"`
	Since string `json:"since,omitempty"` // a day
	Until string `json:"until,omitempty"` // a day that is included
}

// Narrow reports whether not all lines are shown.
func (f AuditFilter) Narrow() bool { return f != AuditFilter{} }

// AuditLine is what somebody did.
type AuditLine struct {
	Seq     int64     `json:"seq"` // 0 if it is not chained yet
	At      time.Time `json:"at,omitzero"`
	Who     string    `json:"who"`
	Token   string    `json:"token,omitempty"`
	Action  string    `json:"action"`
	Thing   string    `json:"thing,omitempty"`
	Outcome string    `json:"outcome"`
}

// AuditReport is the result of verifying the audit log.
type AuditReport struct {
	Length  int64         `json:"length"`
	Hash    string        `json:"hash"`
	Anchors int           `json:"anchors"`
	Faults  []StoreDamage `json:"faults"`
}

// StoreTokens are the service tokens.
type StoreTokens struct {
	Tokens []Token `json:"tokens"`
	Next   string  `json:"next,omitempty"`
	New    *Token  `json:"new,omitempty"`
	Text   string  `json:"text,omitempty"` // of the new one, shown once
	// Making means that the user may make one: a token cannot.
	Making bool     `json:"-"`
	Roles  []string `json:"-"`
	Scopes []string `json:"-"`
}

// Token is a service token.
type Token struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Scopes    []string  `json:"scopes,omitempty"`
	For       string    `json:"for"`   // me, tenant, or the id of a user
	State     string    `json:"state"` // active, expired, revoked
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	UsedAt    time.Time `json:"used_at,omitzero"`
}

// StoreUsers are the users of the tenant.
type StoreUsers struct {
	Users []User   `json:"users"`
	Next  string   `json:"next,omitempty"`
	Roles []string `json:"-"`
	Leave bool     `json:"-"` // there is a page for each of them
}

// User is a known user.
type User struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Email      string    `json:"email,omitempty"`
	Role       string    `json:"role"`
	State      string    `json:"state"`
	LastSeenAt time.Time `json:"last_seen_at,omitzero"`
	Self       bool      `json:"self,omitempty"`
	// Keeps is what the user keeps, of what they may; empty if it was never counted.
	Keeps []StoreLimit `json:"keeps,omitempty"`
}

// StoreLinks are the links that users of the tenant made.
type StoreLinks struct {
	Links []Link `json:"links"`
	Next  string `json:"next,omitempty"`
}

// Link leads whoever has it and its key to a sealed copy of a session.
type Link struct {
	Name      string    `json:"name"`
	Owner     string    `json:"owner"`
	Self      bool      `json:"self,omitempty"`
	State     string    `json:"state"` // active, expired, revoked
	Bytes     int64     `json:"bytes"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// StoreTenants are the tenants of the server, for its operator.
type StoreTenants struct {
	Tenants []Tenant `json:"tenants"`
	Next    string   `json:"next,omitempty"`
	Leave   bool     `json:"-"` // there is a page for each of them
}

// Tenant is a group of users.
type Tenant struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Issuer    string    `json:"issuer,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	Self      bool      `json:"self,omitempty"`
	// Keeps is what its users keep, of what the tenant may; empty if it was never counted.
	Keeps []StoreLimit `json:"keeps,omitempty"`
}

// StoreLeaving is a user, or a tenant, and what is done when they leave.
type StoreLeaving struct {
	ID     string `json:"id"`
	Name   string `json:"name"` // what has to be typed before they are erased
	Email  string `json:"email,omitempty"`
	State  string `json:"state"`
	Whole  bool   `json:"whole_tenant,omitempty"`
	Self   bool   `json:"self,omitempty"` // nobody sees to themselves
	Others []User `json:"-"`              // who may get the sessions of a user

	Erase    *Task    `json:"erase,omitempty"`
	Erasure  *Erasure `json:"erasure,omitempty"`
	HandOver *Task    `json:"hand_over,omitempty"`
	Handed   []string `json:"handed,omitempty"` // what came of it
}

// Refresh reports whether something is in progress that is worth another look.
func (l StoreLeaving) Refresh() bool {
	return l.Erase != nil && l.Erase.Running || l.HandOver != nil && l.HandOver.Running
}

// Erasure is what was erased, what is on hold, and what is left.
type Erasure struct {
	State    string    `json:"state"` // erasing, erased, on hold
	BegunAt  time.Time `json:"begun_at"`
	EndedAt  time.Time `json:"ended_at,omitzero"`
	Sessions int64     `json:"sessions"`
	Lines    int64     `json:"lines"`
	Keys     int64     `json:"keys"`
	Links    int64     `json:"links"`
	OnHold   []string  `json:"on_hold,omitempty"`
	Left     []string  `json:"left,omitempty"`
}

// StateText is the name of the text that says how far it is.
func (e Erasure) StateText() string {
	return "store.leaving.state." + strings.ReplaceAll(e.State, " ", "-")
}

// ScopeGroup is scopes of tokens that belong together.
type ScopeGroup struct {
	Name   string
	Scopes []string
}

// scopeGroups says which scopes belong together; any other is for programs.
var scopeGroups = []ScopeGroup{
	{"sessions", []string{"sessions", "search", "resolve", "import", "stats", "memory"}},
	{"fleet", []string{"agents", "schedules", "jobs", "fleet"}},
	{"people", []string{"workspaces", "users", "tenants", "tokens", "audit", "scim"}},
}

// Groups are the scopes in groups, for a form.
func (t StoreTokens) Groups() []ScopeGroup {
	var all []ScopeGroup
	rest := slices.Clone(t.Scopes)
	for _, g := range scopeGroups {
		in := ScopeGroup{Name: g.Name}
		for _, s := range g.Scopes {
			if at := slices.Index(rest, s); at >= 0 {
				in.Scopes, rest = append(in.Scopes, s), slices.Delete(rest, at, at+1)
			}
		}
		if len(in.Scopes) > 0 {
			all = append(all, in)
		}
	}
	if len(rest) > 0 {
		all = append(all, ScopeGroup{"programs", rest})
	}
	return all
}
