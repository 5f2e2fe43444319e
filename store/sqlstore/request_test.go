package sqlstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// TestUnreadableRequest: an incomplete seed would derive other ids, so it is an error that names
// the request.
func TestUnreadableRequest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := filled(t, dir)
	err := s.InTx(context.Background(), func(tx store.Tx) error {
		return tx.Requests().Begin(store.Request{Scope: "scope", Key: "key 1"})
	})
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, dir, `UPDATE request SET seed = x'00'`)

	err = s.View(context.Background(), func(r store.Reader) error { _, err := r.Requests().Get("scope", "key 1"); return err })

	if err == nil || !strings.Contains(err.Error(), `request "key 1" of "scope": its seed has 1 bytes`) {
		t.Errorf("got %v, want an error about the seed", err)
	}
	if errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Storage) {
		t.Errorf("got %v, which says that the row is missing or the disk is broken", err)
	}
}
