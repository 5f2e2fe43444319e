package redact

import "sync"

// Set holds the values of secrets that are known, and finds them in any text or stream (RD5).
//
// A secret of eight bytes and more is found as it is; escaped for a URL, for JSON or for HTML, wholly or here and
// there, also twice over; in hex; and in base64, alone or among other bytes, also over lines. A shorter one, such as
// "ollama", is no secret that holds, and to take it out of other words would only spoil them: it is found as it is and
// as a word of its own.
//
// The zero value and nil know no secret. Safe for concurrent use. A stream that is open follows what is added and
// removed, from its next chunk on.
type Set struct {
	mu     sync.Mutex
	values map[string]*value // guarded by mu
	built  *table            // guarded by mu; nil: values have changed since
}

// value is a secret of a set.
type value struct {
	times int // it was added so often more than removed
	forms []form
}

// NewSet returns a set of secrets. Empty ones count for nothing.
func NewSet(secrets ...string) *Set {
	s := &Set{}
	for _, secret := range secrets {
		s.Add(secret)
	}
	return s
}

// Add makes a secret known. The empty one is none. Whoever adds one twice removes it twice, so that two sessions may
// have the same.
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

// Remove forgets a secret that was added. One that is not known is no error.
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

// Mask takes all secrets out of a text.
func (s *Set) Mask(text string) string { return s.table().mask(text) }

// table returns what finds the secrets that are known now; nil: there are none. It is the same one until they change.
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
