package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store"
)

const (
	keyTime    = 24 * time.Hour // minimum time that a request is remembered
	pruneEvery = time.Hour
	pruneBatch = 500 // requests deleted per transaction, so that other transactions do not wait long
)

// keys stores requests by idempotency key, so that they survive a restart. It is safe for
// concurrent use.
type keys struct {
	store store.Store
	log   *slog.Logger
}

var _ api.Keys = (*keys)(nil)

// Begin implements api.Keys, in one transaction. At is the time of the store, by which requests
// expire.
//
// After an error or the end of ctx, the request may or may not be stored. Both are safe, because
// nothing was executed yet: the next attempt either begins the request, or finds it without an
// answer and executes it with the stored seed, which nothing has used.
func (k *keys) Begin(ctx context.Context, r api.Request) (api.Request, error) {
	var known store.Request
	ctx = urgently(ctx, r)
	err := k.store.InTx(ctx, func(tx store.Tx) error {
		err := tx.Requests().Begin(store.Request{Scope: r.Scope, Key: r.Key, Hash: r.Hash, Seed: r.Seed})
		if err != nil && !errors.Is(err, perdure.Conflict) {
			return err
		}
		known, err = tx.Requests().Get(r.Scope, r.Key)
		return err
	})
	if err != nil {
		return api.Request{}, err
	}
	if known.Hash != r.Hash {
		return api.Request{}, fmt.Errorf("begin request %q of %q: %w", r.Key, r.Scope, api.KeyReused)
	}
	return api.Request{
		Scope: known.Scope, Key: known.Key, Hash: known.Hash, Seed: known.Seed, At: known.At,
		Status: known.Answer.Status, ContentType: known.Answer.ContentType, Location: known.Answer.Location,
		Body: known.Answer.Body,
	}, nil
}

// End implements api.Keys, in one transaction.
//
// After an error or the end of ctx, the answer may or may not be stored. Both are safe: the next
// attempt gets the answer, or executes the request again with the same seed, hence with the same
// ids and without a second effect.
func (k *keys) End(ctx context.Context, r api.Request) error {
	answer := store.Answer{Status: r.Status, ContentType: r.ContentType, Location: r.Location, Body: r.Body}
	return k.store.InTx(urgently(ctx, r), func(tx store.Tx) error { return tx.Requests().End(r.Scope, r.Key, answer) })
}

// urgently marks the bookkeeping of a request that stops work: it works even on a full disk (R7).
func urgently(ctx context.Context, r api.Request) context.Context {
	if r.StopsWork {
		return store.Urgent(ctx)
	}
	return ctx
}

// Run deletes expired requests, at once and then every hour, until ctx ends. It returns nil then,
// and Storage when the store is broken. After any other error it continues, and the next run
// deletes the rest.
func (k *keys) Run(ctx context.Context) error {
	hours := time.NewTicker(pruneEvery)
	defer hours.Stop()
	for {
		n, err := k.prune(ctx)
		switch {
		case store.Broken(err):
			return err
		case ctx.Err() != nil:
			return nil
		case err != nil:
			k.log.Warn("deleting expired idempotency keys failed", "deleted", n, "error", err)
		case n > 0:
			k.log.Debug("expired idempotency keys deleted", "deleted", n)
		}
		select {
		case <-hours.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// prune deletes requests that began more than keyTime ago, in batches. It returns how many are
// certainly deleted.
func (k *keys) prune(ctx context.Context) (int, error) {
	for total := 0; ; {
		gone := 0
		err := k.store.InTx(ctx, func(tx store.Tx) (err error) {
			gone, err = tx.Requests().Prune(tx.Now().Add(-keyTime), pruneBatch)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("delete expired idempotency keys: %w", err)
		}
		total += gone
		if gone < pruneBatch {
			return total, nil
		}
	}
}
