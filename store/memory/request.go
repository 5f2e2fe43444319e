package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Get returns the row with its answer.
func (v requestStore) Get(scope, key string) (store.Request, error) {
	r, ok := v.requests.get(requestKey(scope, key))
	if !ok {
		return store.Request{}, fmt.Errorf("request %q of %q: %w", key, scope, perdure.NotFound)
	}
	r.Answer.Body = clone(r.Answer.Body)
	return r, nil
}

// Begin adds a row that has no answer.
func (t requestStore) Begin(r store.Request) error {
	key := requestKey(r.Scope, r.Key)
	switch {
	case len(r.Scope) > store.MaxRequestKeyBytes || len(r.Key) > store.MaxRequestKeyBytes:
		return fmt.Errorf("begin request: %w: its scope has %d bytes and its key %d, at most %d are allowed for each",
			perdure.Invalid, len(r.Scope), len(r.Key), store.MaxRequestKeyBytes)
	case t.requests.has(key):
		return fmt.Errorf("begin request %q of %q: %w: it exists already", r.Key, r.Scope, perdure.Conflict)
	}
	r.At, r.Answer = t.now, store.Answer{}
	t.requests = t.requests.put(key, r)
	return nil
}

func (t requestStore) End(scope, key string, answer store.Answer) error {
	if answer.Status <= 0 {
		return fmt.Errorf("end request %q of %q: %w status %d", key, scope, perdure.Invalid, answer.Status)
	}
	r, ok := t.requests.get(requestKey(scope, key))
	switch {
	case !ok:
		return fmt.Errorf("end request %q of %q: %w", key, scope, perdure.NotFound)
	case r.Answer.Status != 0:
		return nil
	}
	answer.Body = clone(answer.Body)
	r.Answer = answer
	t.requests = t.requests.put(requestKey(scope, key), r)
	return nil
}

func (t requestStore) Prune(before time.Time, limit int) (int, error) {
	before = micro(before)
	var old []store.Request
	for _, r := range t.requests.from("") {
		if r.At.Before(before) {
			old = append(old, r)
		}
	}
	slices.SortFunc(old, func(a, b store.Request) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
	})
	old = first(old, limit)
	for _, r := range old {
		t.requests = t.requests.remove(requestKey(r.Scope, r.Key))
	}
	return len(old), nil
}

// requestKey joins two texts of any bytes into one key. The length of the first marks the boundary.
func requestKey(scope, key string) string { return fmt.Sprintf("%d %s%s", len(scope), scope, key) }
