package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// recent caches results for a while, but no errors.
type recent[T any] struct {
	mu sync.Mutex
	of map[[32]byte]remembered[T]
}

type remembered[T any] struct {
	value T
	until time.Time
}

func (m *recent[T]) forget() {
	m.mu.Lock()
	m.of = nil
	m.mu.Unlock()
}

func (m *recent[T]) get(token string, fresh time.Duration, find func() (T, error)) (T, error) {
	if fresh <= 0 {
		return find()
	}
	sum := sha256.Sum256([]byte(token))
	m.mu.Lock()
	have, ok := m.of[sum]
	m.mu.Unlock()
	if ok && time.Now().Before(have.until) {
		return have.value, nil
	}
	value, err := find()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.of, sum)
		return value, err
	}
	if m.of == nil || len(m.of) >= maxRemembered {
		m.of = make(map[[32]byte]remembered[T])
	}
	m.of[sum] = remembered[T]{value, time.Now().Add(fresh)}
	return value, nil
}
