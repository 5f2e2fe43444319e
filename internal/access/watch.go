package access

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// guest is one request of a token.
type guest struct{ end context.CancelCauseFunc }

// While returns a context that ends, with the cause Ended, when the principal's token does, whichever server was told (S24).
// leave is to be called when the request has ended.
func (k *Keyring) While(ctx context.Context, p Principal) (_ context.Context, leave func()) {
	ctx, end := context.WithCancelCause(With(ctx, p))
	id := perdure.TokenID(p.ID)
	if p.ID == Root || k.cfg.Store == nil {
		return ctx, func() { end(nil) }
	}
	g := &guest{end}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watched[id] == nil {
		k.watched[id] = map[*guest]bool{}
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

// watch looks after who is let in, until nobody is.
func (k *Keyring) watch(ctx context.Context) {
	ticks := time.NewTicker(k.cfg.Look)
	defer ticks.Stop()
	for away := false; ; {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		err := k.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			k.cfg.Log.Warn("it cannot be seen whether tokens in use still live; it is tried again", "error", err)
		case err == nil && away:
			k.cfg.Log.Info("it can be seen again whether tokens in use still live")
		}
		away = err != nil
	}
}

// look ends the requests of tokens that live no longer.
func (k *Keyring) look(ctx context.Context) error {
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
			t, err := r.AccessToken(id)
			if err != nil && !errors.Is(err, perdure.NotFound) {
				return err
			}
			if err != nil || !lives(t, r.Now()) {
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
