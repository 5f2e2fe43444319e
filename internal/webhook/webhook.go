// Package webhook sends the events of the journals to webhooks: it queues a delivery per event and
// webhook, signs it according to Standard Webhooks, and retries for a day.
//
// It may import the root, webhook, store and the Standard Webhooks library.
//
//	journal ── cursor of its session ──► delivery (queued) ── claim: attempt + 1, due again after a lease ──► POST ──► settle
//
// The one thing to know: nothing is sent from memory. The cursor moves in the commit that queues
// the deliveries, and a delivery is claimed by a commit that says when it is due again. A process
// that dies in between leaves a row that the next one sends. A delivery that is sent twice has the
// same id both times, so that the receiver can recognise it.
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

// The defaults of [Config], and the limits of a sender.
const (
	defaultPoll    = time.Second
	defaultTimeout = 15 * time.Second
	idlePoll       = 10 * time.Second // while another process may create the first webhook
	pruneEvery     = time.Hour
	pruneBatch     = 500
	// RotationTime is how long the former secret signs beside the new one.
	RotationTime = 24 * time.Hour

	maxSlots        = 32 // deliveries sent at once, without those that take longer than slowAfter
	maxFailingSlots = 16 // of them, to endpoints whose last try failed
	maxSlotsPerHook = 4  // to one endpoint, slow ones included; one if its last try failed
	slowAfter       = 2 * time.Second
)

// Egress sends requests out under the guard's rules.
type Egress interface {
	// Do carries out one request. The error is a *perdure.EgressError, or ctx's cause.
	Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error)
	// Resolve returns the addresses that a URL would be connected to, or why it may not be.
	Resolve(ctx context.Context, purpose, rawURL string, list perdure.NetworkList) ([]netip.AddrPort, error)
}

// Config configures a sender. Store, Seal and Open are required.
type Config struct {
	Store  store.Store
	Egress Egress // nil: webhooks cannot be created, and nothing is sent
	// Seal and Open encrypt and decrypt a webhook's secret. Unavailable: there is no keyring.
	Seal func(id perdure.WebhookID, secret string) ([]byte, error)
	Open func(id perdure.WebhookID, sealed []byte) (string, error)
	Show func(perdure.Event) perdure.Event // returns an event as the API shows it; nil: unchanged
	Mask func(string) string               // removes secrets from a response; nil: unchanged

	Shared  bool          // other processes use the store, too, and may create webhooks
	Poll    time.Duration // how often journals are polled; 0: 1 s
	Timeout time.Duration // of a try; 0: 15 s
	Log     *slog.Logger  // nil: discarded
}

// Sender manages webhooks and sends to them. It is safe for concurrent use; only one Run may run at
// a time.
type Sender struct {
	cfg     Config
	changed chan struct{} // capacity 1: there is something to do; one round finds all of it
	freed   chan struct{} // capacity 1: a slot is free

	mu         sync.Mutex
	sending    map[perdure.WebhookID]int  // guarded by mu: tries in progress
	failing    int                        // guarded by mu: of total, to failing endpoints
	total      int                        // guarded by mu: slots in use
	turn       int                        // only touched in Run: which webhook is served first
	pruned     time.Time                  // only touched in Run
	spans      []store.HookSpan           // only touched in Run: of the last list, what is not queued yet
	unreadable map[perdure.SessionID]bool // only touched in Run: sessions whose journals could not be read
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
	return &Sender{cfg: cfg, changed: make(chan struct{}, 1), freed: make(chan struct{}, 1), sending: map[perdure.WebhookID]int{}, unreadable: map[perdure.SessionID]bool{}}
}

// lease is how long after its claim a delivery is due again if it is not settled.
func (s *Sender) lease() time.Duration { return 2 * s.cfg.Timeout }

// signal wakes the reader of a signal, if it is not signalled already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run queues and sends until ctx ends, and then returns nil. It returns an error when the store can
// no longer promise durability. While there is no webhook it does not read the store, except now
// and then if other processes may create one.
func (s *Sender) Run(ctx context.Context) error {
	if s.cfg.Egress == nil {
		return nil
	}
	if !s.cfg.Shared { // a process that was sending before is dead
		switch err := s.requeueInterrupted(ctx); {
		case ctx.Err() != nil:
			return nil
		case store.Broken(err):
			return fmt.Errorf("webhooks: %w", err)
		case err != nil:
			s.cfg.Log.Warn("deliveries of the previous process not requeued; they are sent after their lease", "error", err)
		}
	}
	var group sync.WaitGroup
	defer group.Wait()
	nap := time.NewTimer(0)
	defer nap.Stop()
	var next time.Time // when the journals are listed again
	for {
		step, err := s.runOnce(ctx, &group, !time.Now().Before(next))
		switch {
		case ctx.Err() != nil:
			return nil
		case store.Broken(err):
			return fmt.Errorf("webhooks: %w", err)
		case err != nil:
			s.cfg.Log.Warn("webhook round failed; retrying", "error", err)
		}
		// Listing takes at most a twentieth of the time, however many sessions there are.
		if step.listTime > 0 || err != nil {
			next = time.Now().Add(max(s.cfg.Poll, 20*step.listTime))
		}
		nap.Stop()
		var rings <-chan time.Time
		switch {
		case err == nil && len(s.spans) > 0:
			continue
		case step.hasEnabled || err != nil:
			nap.Reset(time.Until(next))
			rings = nap.C
		case s.cfg.Shared:
			nap.Reset(idlePoll)
			rings = nap.C
		case step.hasWebhooks: // old deliveries are still to be pruned
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

// round is what a round of Run found.
type round struct {
	hasWebhooks bool          // there are webhooks
	hasEnabled  bool          // at least one of them is enabled
	listTime    time.Duration // how long the list of journals took; 0: none was read
}

// runOnce starts to send the due deliveries. If look is set, or journals of the last list are left,
// it first queues some of their new events.
func (s *Sender) runOnce(ctx context.Context, group *sync.WaitGroup, look bool) (did round, err error) {
	hooks, some, err := s.enabledHooks(ctx)
	did = round{hasWebhooks: some, hasEnabled: len(hooks) > 0}
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
		did.listTime = max(time.Since(began), 1)
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

// enabledHooks lists the enabled webhooks, and reports whether there are any webhooks at all.
func (s *Sender) enabledHooks(ctx context.Context) (hooks []store.Webhook, some bool, err error) {
	return hooks, some, s.cfg.Store.View(ctx, func(r store.Reader) error {
		all, err := r.Webhooks().List()
		hooks, some = hooks[:0], len(all) > 0
		for _, w := range all {
			if w.Enabled {
				hooks = append(hooks, w)
			}
		}
		return err
	})
}

// prune deletes the deliveries that ended long ago.
func (s *Sender) prune(ctx context.Context) error {
	for {
		n := 0
		err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			n, err = tx.Webhooks().PruneDeliveries(tx.Now().Add(-hook.Retention), pruneBatch)
			return err
		})
		if err != nil || n < pruneBatch {
			return err
		}
	}
}
