package access_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// awayStore is a store that cannot be read now and then.
type awayStore struct {
	store.Store
	away atomic.Bool
}

func (s *awayStore) View(ctx context.Context, fn func(store.Reader) error) error {
	if s.away.Load() {
		return errors.New("away")
	}
	return s.Store.View(ctx, fn)
}

// TestWatchSaysOnce: the outage of the store is logged once, and its return once.
func TestWatchSaysOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		inner := memory.New(memory.Config{})
		defer inner.Close()
		st := &awayStore{Store: inner}
		k := access.NewKeyring(access.Config{Store: st, CheckInterval: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		_, leave := k.Admit(t.Context(), access.Principal{ID: "token_019aa0000000700080000000000000aa"})
		for _, away := range []bool{true, false, true, false} {
			st.away.Store(away)
			<-time.After(3500 * time.Millisecond)
		}
		leave()
		synctest.Wait()
		if away, back := strings.Count(log.String(), "tokens in use not checked"), strings.Count(log.String(), "tokens in use checked again"); away != 2 || back != 2 {
			t.Errorf("%d times away and %d times back were said:\n%s", away, back, log.String())
		}
	})
}
