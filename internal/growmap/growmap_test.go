package growmap_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/perdure/perdure/internal/growmap"
)

// TestClone wants that no copy sees what is put into another one, and that each keeps all of its
// entries, however many there are.
func TestClone(t *testing.T) {
	t.Parallel()
	var m growmap.Map[string, int]
	if !m.IsZero() {
		t.Error("the zero value is not empty")
	}
	for i := range 1000 {
		before := m
		m = before.Clone()
		m.Put(fmt.Sprint("key ", i), i)

		if _, early := before.Get(fmt.Sprint("key ", i)); early {
			t.Fatalf("the copy of before has entry %d", i)
		}
	}
	for i := range 1000 {
		if got, ok := m.Get(fmt.Sprint("key ", i)); !ok || got != i {
			t.Errorf("entry %d: got %d, %t", i, got, ok)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var m, read growmap.Map[string, int]
	for i := range 200 {
		m.Put(fmt.Sprint("key ", i), i)
	}
	m.Put("key 0", -1)

	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}

	if got, _ := read.Get("key 0"); !read.Equal(m) || got != -1 {
		t.Errorf("key 0 is %d; got %s", got, text)
	}
	read.Put("key 1", -1)
	if read.Equal(m) {
		t.Error("a changed copy is equal")
	}
}
