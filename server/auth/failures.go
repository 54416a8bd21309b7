package auth

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// After this many failures an address has to wait before each further
	// one: a person who mistypes never gets there, a program that guesses
	// does at once.
	failuresAtOnce = 50
	failuresEvery  = time.Second
	// A stranger opens a link by two requests. All people behind one proxy have one
	// address.
	visitsAtOnce = 500
	visitsEvery  = 50 * time.Millisecond
)

// failures slows down guessing, for each address by itself, so that nobody
// elsewhere is locked out. Its zero value is ready.
type failures struct {
	mu   sync.Mutex
	from map[string]*rate.Limiter
}

// tooMany reports whether an address has to wait.
func (f *failures) tooMany(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.from[address]
	return l != nil && l.Tokens() < 1
}

func (f *failures) add(address string) { f.count(address, failuresEvery, failuresAtOnce) }

func (f *failures) count(address string, every time.Duration, atOnce int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil || len(f.from) >= maxRemembered {
		f.from = make(map[string]*rate.Limiter)
	}
	l := f.from[address]
	if l == nil {
		l = rate.NewLimiter(rate.Every(every), atOnce)
		f.from[address] = l
	}
	l.Allow()
}

// Visitors bound what strangers may ask for, each address by itself. Their zero value
// is ready.
type Visitors struct{ visits failures }

// Enter reports whether the address of a request may ask now.
func (v *Visitors) Enter(r *http.Request) bool {
	address := addressOf(r)
	if v.visits.tooMany(address) {
		return false
	}
	v.visits.count(address, visitsEvery, visitsAtOnce)
	return true
}

// addressOf is where a request comes from. A household has many IPv6 addresses
// and one prefix, which is used.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() && !a.Is4In6() {
		if p, err := a.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return host
}
