package redact

import "sync"

// Set holds the values of known secrets, and finds them in any text or stream.
//
// A secret of eight or more bytes is found as it is; escaped for URLs, JSON or HTML, completely or
// in part, even twice; in hex; and in base64, alone or among other bytes, even across lines. A
// shorter value such as "ollama" does not protect anything, and removing it from other words would
// only damage text, so it is found only as it is and as a word of its own.
//
// The zero value and nil hold no secrets. Safe for concurrent use. An open stream follows changes
// of the set from its next chunk on.
type Set struct {
	mu     sync.Mutex
	values map[string]*value // guarded by mu
	built  *table            // guarded by mu; nil: outdated
}

// value is a secret of a set.
type value struct {
	times int // how often it was added and not removed
	forms []form
}

// NewSet returns a set of secrets. Empty strings are ignored.
func NewSet(secrets ...string) *Set {
	s := &Set{}
	for _, secret := range secrets {
		s.Add(secret)
	}
	return s
}

// Add adds a secret. The empty string is ignored. A secret that was added twice must be removed
// twice, so that two sessions can have the same secret.
func (s *Set) Add(secret string) {
	if secret == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.values[secret]; known != nil {
		known.times++
		return
	}
	if s.values == nil {
		s.values = make(map[string]*value)
	}
	s.values[secret] = &value{times: 1, forms: formsOf(secret)}
	s.built = nil
}

// Remove removes a secret. Removing an unknown one does nothing.
func (s *Set) Remove(secret string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.values[secret]
	if known == nil {
		return
	}
	if known.times--; known.times == 0 {
		delete(s.values, secret)
		s.built = nil
	}
}

// Mask replaces all secrets in a text.
func (s *Set) Mask(text string) string { return s.table().mask(text) }

// table returns the table of the current secrets; nil: there are none. It is reused until they
// change.
func (s *Set) table() *table {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.built == nil && len(s.values) > 0 {
		all := make([][]form, 0, len(s.values))
		for _, v := range s.values {
			all = append(all, v.forms)
		}
		s.built = newTable(all)
	}
	return s.built
}
