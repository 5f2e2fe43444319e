package memory

import (
	"reflect"

	"github.com/perdure/perdure/store/storetest"
)

// Traces returns where a word stands in what is committed, by the path of the fields that lead there.
func (s *Store) Traces(word string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return storetest.TracesOf(reflect.ValueOf(s.state), "state", word)
}
