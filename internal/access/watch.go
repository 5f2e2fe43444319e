package access

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// openRequest is one open request of a token.
type openRequest struct{ end context.CancelCauseFunc }

// Admit returns a context that ends with the cause Ended when the principal's token ends, whichever
// server revoked it (S24). The caller calls leave when the request has ended.
func (k *Keyring) Admit(ctx context.Context, p Principal) (_ context.Context, leave func()) {
	ctx, end := context.WithCancelCause(WithPrincipal(ctx, p))
	id := perdure.TokenID(p.ID)
	if p.ID == Root || k.cfg.Store == nil {
		return ctx, func() { end(nil) }
	}
	g := &openRequest{end}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watched[id] == nil {
		k.watched[id] = map[*openRequest]bool{}
	}
	k.watched[id][g] = true
	if k.end == nil {
		watching, stop := context.WithCancel(context.Background())
		k.end = stop
		go k.watch(watching)
	}
	return ctx, func() {
		end(nil)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.watched[id], g)
		if len(k.watched[id]) == 0 {
			delete(k.watched, id)
		}
		if len(k.watched) == 0 && k.end != nil {
			k.end()
			k.end = nil
		}
	}
}

// watch checks the tokens of open requests until there are none.
func (k *Keyring) watch(ctx context.Context) {
	ticks := time.NewTicker(k.cfg.CheckInterval)
	defer ticks.Stop()
	for away := false; ; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		err := k.endInvalid(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			k.cfg.Log.Warn("tokens in use not checked, will retry", "error", err)
		case err == nil && away:
			k.cfg.Log.Info("tokens in use checked again")
		}
		away = err != nil
	}
}

// endInvalid ends the requests of tokens that are no longer valid.
func (k *Keyring) endInvalid(ctx context.Context) error {
	k.mu.Lock()
	ids := make([]perdure.TokenID, 0, len(k.watched))
	for id := range k.watched {
		ids = append(ids, id)
	}
	k.mu.Unlock()
	var dead []perdure.TokenID
	err := k.cfg.Store.View(ctx, func(r store.Reader) error {
		dead = nil
		for _, id := range ids {
			t, err := r.Tokens().Get(id)
			if err != nil && !errors.Is(err, perdure.NotFound) {
				return err
			}
			if err != nil || !isValid(t, r.Now()) {
				dead = append(dead, id)
			}
		}
		return nil
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range dead {
		for g := range k.watched[id] {
			g.end(Ended)
		}
	}
	return err
}
