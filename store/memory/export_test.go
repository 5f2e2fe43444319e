package memory

import (
	"reflect"

	"github.com/perdure/perdure/store/storetest"
)

// Traces returns the paths of the fields of the committed state that contain a text.
func (s *Store) Traces(word string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return storetest.TracesOf(reflect.ValueOf(s.state), "state", word)
}
