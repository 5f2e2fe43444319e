// Package webhook sends events to webhooks: it queues what their journals say, signs it as Standard Webhooks says, and tries again
// for a day (H13, S20).
//
// It may import the root, webhook, store and the library of Standard Webhooks.
//
//	journal ── cursor of its session ──► delivery (queued) ── claim: attempt + 1, due again after a lease ──► POST ──► settle
//
// The one thing to know: nothing is sent out of memory. The cursor moves in the commit that queues the deliveries, and a delivery
// is claimed by a commit that says when it is due again; so whoever dies in between leaves a row that is sent by the next one, under
// the same id. What is sent twice has the same id twice.
package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	hook "github.com/perdure/perdure/webhook"
)

// What holds where [Config] says nothing.
const (
	defaultPoll    = time.Second
	defaultTimeout = 15 * time.Second
	idlePoll       = 10 * time.Second // where others may make the first webhook
	pruneEvery     = time.Hour
	pruneBatch     = 500
	// RotationTime is how long the former secret signs beside the new one.
	RotationTime = 24 * time.Hour

	places        = 32 // deliveries that are sent at once, but for those that take longer than slowAfter
	placesFailing = 16 // of them, to endpoints whose last try failed
	placesEach    = 4  // to one endpoint, also of slow ones; one, if its last try failed
	slowAfter     = 2 * time.Second
)

// Egress is the way out, under the guard.
type Egress interface {
	// Do carries out one request. The error is a *perdure.EgressError, or ctx's cause.
	Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error)
	// Try says where a URL would be connected to, or why not.
	Try(ctx context.Context, purpose, rawURL string, list perdure.NetworkList) ([]netip.AddrPort, error)
}

// Config is what a sender is made of. Store, Seal and Open are required.
type Config struct {
	Store  store.Store
	Egress Egress // nil: no webhook can be made, and nothing is sent
	// Seal and Open keep the secret of a webhook. Unavailable: there is no keyring.
	Seal func(id perdure.WebhookID, secret string) ([]byte, error)
	Open func(id perdure.WebhookID, sealed []byte) (string, error)
	Show func(perdure.Event) perdure.Event // an event as the API shows it; nil: as it is
	Mask func(string) string               // takes what is secret out of an answer; nil: nothing is

	Shared  bool          // other processes use the store, too, and may make webhooks
	Poll    time.Duration // how often journals are looked at; 0: a second
	Timeout time.Duration // of a try; 0: 15 s
	Log     *slog.Logger  // nil: discarded
}

// Sender keeps webhooks and sends to them. Safe for concurrent use; Run runs once at a time.
type Sender struct {
	cfg     Config
	changed chan struct{} // capacity 1: there is something to do, one look finds all of it
	freed   chan struct{} // capacity 1: a place is free

	mu      sync.Mutex
	sending map[perdure.WebhookID]int  // guarded by mu: tries under way
	failing int                        // guarded by mu: of total, to endpoints that fail
	total   int                        // guarded by mu: places that are taken
	turn    int                        // only touched in Run: which webhook is served first
	pruned  time.Time                  // only touched in Run
	spans   []store.HookSpan           // only touched in Run: of the last look, what was not queued yet
	stuck   map[perdure.SessionID]bool // only touched in Run: whose journals could not be read
}

// New returns a sender.
func New(cfg Config) *Sender {
	if cfg.Poll <= 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Show == nil {
		cfg.Show = func(e perdure.Event) perdure.Event { return e }
	}
	if cfg.Mask == nil {
		cfg.Mask = func(text string) string { return text }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Sender{cfg: cfg, changed: make(chan struct{}, 1), freed: make(chan struct{}, 1), sending: map[perdure.WebhookID]int{}, stuck: map[perdure.SessionID]bool{}}
}

// lease is when a delivery that was claimed is due again, if nobody settles it.
func (s *Sender) lease() time.Duration { return 2 * s.cfg.Timeout }

// ring wakes whoever waits for a signal.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run queues and sends until ctx ends. It returns nil then, and an error when the store cannot promise durability any more. While
// there is no webhook it asks the store for nothing, but now and then where others may make one.
func (s *Sender) Run(ctx context.Context) error {
	if s.cfg.Egress == nil {
		return nil
	}
	if !s.cfg.Shared { // who sent before is dead
		switch err := s.takeOver(ctx); {
		case ctx.Err() != nil:
			return nil
		case store.Broken(err):
			return fmt.Errorf("webhooks: %w", err)
		case err != nil:
			s.cfg.Log.Warn("what was being sent is sent again only after its lease", "error", err)
		}
	}
	var group sync.WaitGroup
	defer group.Wait()
	nap := time.NewTimer(0)
	defer nap.Stop()
	var next time.Time // when journals are looked at again
	for {
		step, err := s.runOnce(ctx, &group, !time.Now().Before(next))
		switch {
		case ctx.Err() != nil:
			return nil
		case store.Broken(err):
			return fmt.Errorf("webhooks: %w", err)
		case err != nil:
			s.cfg.Log.Warn("webhooks were not served, and will be", "error", err)
		}
		if step.listed > 0 || err != nil { // a list takes a twentieth of the time, however many sessions there are
			next = time.Now().Add(max(s.cfg.Poll, 20*step.listed))
		}
		nap.Stop()
		var rings <-chan time.Time
		switch {
		case err == nil && len(s.spans) > 0:
			continue
		case step.serves || err != nil:
			nap.Reset(time.Until(next))
			rings = nap.C
		case s.cfg.Shared:
			nap.Reset(idlePoll)
			rings = nap.C
		case step.some: // what ended long ago is still to be forgotten
			nap.Reset(pruneEvery)
			rings = nap.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			next = time.Time{}
		case <-s.freed:
		case <-rings:
		}
	}
}

// step is what a round of Run found.
type step struct {
	some   bool          // there are webhooks
	serves bool          // and one of them is enabled
	listed time.Duration // how long the list of journals took; 0: none was read
}

// runOnce begins to send what is due; where it looks, or has not done with what it saw, it queues some of what is new before.
func (s *Sender) runOnce(ctx context.Context, group *sync.WaitGroup, look bool) (did step, err error) {
	hooks, some, err := s.enabledHooks(ctx)
	did = step{some: some, serves: len(hooks) > 0}
	if err != nil || !some {
		return did, err
	}
	if now := time.Now(); now.Sub(s.pruned) >= pruneEvery {
		s.pruned = now
		if err := s.prune(ctx); err != nil {
			return did, err
		}
	}
	if len(hooks) == 0 {
		s.spans = nil
		return did, nil
	}
	if look && len(s.spans) == 0 {
		began := time.Now()
		if err := s.list(ctx); err != nil {
			return did, err
		}
		did.listed = max(time.Since(began), 1)
	}
	if err := s.queue(ctx); err != nil {
		return did, err
	}
	claimed, err := s.claim(ctx, hooks)
	for _, c := range claimed {
		group.Go(func() { s.deliver(ctx, c) })
	}
	return did, err
}

// enabledHooks lists the webhooks that are served, and says whether there are any at all.
func (s *Sender) enabledHooks(ctx context.Context) (hooks []store.Webhook, some bool, err error) {
	return hooks, some, s.cfg.Store.View(ctx, func(r store.Reader) error {
		all, err := r.Webhooks()
		hooks, some = hooks[:0], len(all) > 0
		for _, w := range all {
			if w.Enabled {
				hooks = append(hooks, w)
			}
		}
		return err
	})
}

// prune forgets what ended long ago.
func (s *Sender) prune(ctx context.Context) error {
	for {
		n := 0
		err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			n, err = tx.PruneHookDeliveries(tx.Now().Add(-hook.Keep), pruneBatch)
			return err
		})
		if err != nil || n < pruneBatch {
			return err
		}
	}
}
