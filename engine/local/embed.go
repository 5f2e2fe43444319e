package local

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/model/provider"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// What only the embedding program may ask.

// Ensure returns the session that has a key of the program, and creates it for an agent if there is
// none, as Sessions().Ensure does.
func (e *Engine) Ensure(ctx context.Context, key string, agent perdure.Agent) (engine.Session, error) {
	return e.Sessions().Ensure(ctx, key, agent)
}

// Ask sends a message to a session and returns the answer, as engine.Ask does. Run runs beside it,
// in another goroutine.
func (e *Engine) Ask(ctx context.Context, id perdure.SessionID, m perdure.Message) (engine.Answer, error) {
	return engine.Ask(ctx, e, id, m)
}

// startGrace is how long Running waits for Run, which another goroutine may be about to call.
const startGrace = 2 * time.Second

// Running reports whether anything does the work of sessions: Run of this engine or, on a shared
// store, another worker. If Run has not begun, Running waits for it for two seconds, because the
// goroutine that calls it may only be starting. It returns a channel that is closed when Run ends;
// nil if another worker does the work. engine.NotRunning: nothing does it.
func (e *Engine) Running(ctx context.Context) (<-chan struct{}, error) {
	if others, err := e.othersRun(ctx); others || err != nil {
		return nil, err
	}
	timer := time.NewTimer(startGrace)
	defer timer.Stop()
	select {
	case <-e.started:
	case <-timer.C:
		return nil, engine.NotRunning
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case <-e.stopped:
		return nil, engine.NotRunning
	default:
		return e.stopped, nil
	}
}

// othersRun reports whether another worker of a shared store is alive.
func (e *Engine) othersRun(ctx context.Context) (others bool, err error) {
	if !e.cfg.Workers.Shared {
		return false, nil
	}
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		others = false
		workers, err := r.Workers().List()
		for _, w := range workers {
			others = others || w.ID != e.worker.ID && w.LeaseUntil.After(r.Now())
		}
		return err
	})
	return others, err
}

// OutboundCounts returns how many outbound calls were allowed and refused, and how many of these
// decisions the process made locally because the store did not answer (RL2). It returns the zero
// value if the limiter is the program's own, or there is none.
func (e *Engine) OutboundCounts() OutboundCounts { return e.host.OutboundCounts() }

// Platform returns the port that lets tools administer this engine (PL1). A tool with this port may
// do everything that it offers, so a program gives it only to tools that it trusts. baseURL is the
// address of the runtime for people; empty: none.
func (e *Engine) Platform(baseURL string) (tool.Platform, error) { return e.host.Platform(baseURL) }

// NewHTTPWallet returns a wallet that is reached at a URL; authorization is sent in the
// Authorization header. docs/how-to/let-tools-pay.md describes the protocol. Invalid: the URL is
// not acceptable.
func NewHTTPWallet(url, authorization string) (Wallet, error) {
	return host.NewHTTPWallet(url, authorization)
}

// ProviderSource returns the stored providers of a store as a source for the models of package
// provider. It reads the store at each request, so that a provider that another process has changed
// is used at once. defaultModel is the model of sessions that name none; empty: the default of
// their org in the store, or else that of the runtime.
func ProviderSource(st store.Store, keys Secrets, defaultModel string) provider.Source {
	return host.ProviderSource(st, keys, defaultModel)
}

// TestResult adds to the description of a test of a model what it found out.
func TestResult(test engine.ProviderTest, got provider.Result) engine.ProviderTest {
	return host.TestResult(test, got)
}

// NewHTTPPaymentAuthority returns an authority that is asked at a URL before each payment, with
// questions that are signed with the secret as webhooks are. docs/how-to/let-tools-pay.md describes
// the protocol. Invalid: the URL or the secret is not acceptable.
func NewHTTPPaymentAuthority(url, secret string) (PaymentAuthority, error) {
	return host.NewHTTPPaymentAuthority(url, secret)
}

// StartAgent creates a session of a stored agent as the tools of a platform do.
func (e *Engine) StartAgent(ctx context.Context, o tool.SessionRequest) (engine.Session, error) {
	return e.host.StartAgent(ctx, o)
}
