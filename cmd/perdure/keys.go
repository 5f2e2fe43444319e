package main

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
	keyTime    = 24 * time.Hour // how long a request is remembered at least (H4)
	pruneEvery = time.Hour
	pruneBatch = 500 // requests that one transaction forgets, so that nobody waits long behind it
)

// keys remembers requests by idempotency key in the store, so that they outlive the process (H4, R15). It is safe
// for concurrent use.
type keys struct {
	store store.Store
	log   *slog.Logger
}

var _ api.Keys = (*keys)(nil)

// Begin implements api.Keys, in one transaction. At is the store's clock, by which requests are forgotten.
//
// Where an error or the end of ctx leaves open whether the request was noted, either does no harm: nothing was
// carried out yet. Whoever asks again begins it, or finds it without an answer and carries it out under the seed
// that was noted, which nobody has used.
func (k *keys) Begin(ctx context.Context, r api.Request) (api.Request, error) {
	var known store.Request
	ctx = urgently(ctx, r)
	err := k.store.InTx(ctx, func(tx store.Tx) error {
		err := tx.BeginRequest(store.Request{Scope: r.Scope, Key: r.Key, Hash: r.Hash, Seed: r.Seed})
		if err != nil && !errors.Is(err, perdure.Conflict) {
			return err
		}
		known, err = tx.Request(r.Scope, r.Key)
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
		Status: known.Answer.Status, ContentType: known.Answer.ContentType, Location: known.Answer.Location, Body: known.Answer.Body,
	}, nil
}

// End implements api.Keys, in one transaction.
//
// Where an error or the end of ctx leaves open whether the answer was stored, either does no harm: whoever asks
// again gets it, or has the request carried out again under the same seed, hence the same ids, with no second effect.
func (k *keys) End(ctx context.Context, r api.Request) error {
	answer := store.Answer{Status: r.Status, ContentType: r.ContentType, Location: r.Location, Body: r.Body}
	return k.store.InTx(urgently(ctx, r), func(tx store.Tx) error { return tx.EndRequest(r.Scope, r.Key, answer) })
}

// urgently marks what is noted of a request that stops work: it is carried out on a full disk as well (R7).
func urgently(ctx context.Context, r api.Request) context.Context {
	if api.StopsWork(r.Scope) {
		return store.Urgent(ctx)
	}
	return ctx
}

// Run forgets old requests, at once and then every hour, until ctx ends. It returns nil then, and Storage when the
// store cannot promise durability any more. After any other error it goes on: the next hour takes what is left.
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
			k.log.Warn("old idempotency keys were not forgotten; it is tried again in an hour", "forgotten", n, "error", err)
		case n > 0:
			k.log.Debug("old idempotency keys were forgotten", "forgotten", n)
		}
		select {
		case <-hours.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// prune forgets the requests that were begun longer than keyTime ago, batch by batch, and returns how many it knows
// to be gone.
func (k *keys) prune(ctx context.Context) (int, error) {
	for total := 0; ; {
		gone := 0
		err := k.store.InTx(ctx, func(tx store.Tx) (err error) {
			gone, err = tx.PruneRequests(tx.Now().Add(-keyTime), pruneBatch)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("forget idempotency keys: %w", err)
		}
		total += gone
		if gone < pruneBatch {
			return total, nil
		}
	}
}
