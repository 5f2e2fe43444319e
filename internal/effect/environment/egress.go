package environment

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// maxDenials is how many denials of one execution are recorded in the journal.
const maxDenials = 32

// journaledEgress is the egress of one execution. Denied requests are recorded in the journal.
type journaledEgress struct {
	tool.Egress
	environment *Environment
	by          tool.Call
	mask        func(string) string // masks secrets in the record; nil: there are none
	left        *atomic.Int64       // denials that may still be recorded
	ports       tool.Ports          // of the execution; its secrets and connections are inserted by reference
}

// Do implements tool.Egress.
func (w journaledEgress) Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error) {
	var resp perdure.WebResponse
	req, err := w.withSecrets(ctx, req)
	if err == nil {
		resp, err = w.Egress.Do(ctx, req)
	}
	var denial *perdure.EgressError
	if errors.As(err, &denial) && denial.Code == perdure.EgressDenied && w.left.Add(-1) >= 0 {
		w.tell(perdure.RequestDenied{Host: denial.Host, Layer: denial.Layer, Rule: denial.Rule, Why: denial.Text})
	}
	return resp, err
}

// tell records a denial. If that fails, the request stays denied.
func (w journaledEgress) tell(fact perdure.RequestDenied) {
	if w.mask != nil {
		fact.Host, fact.Why = w.mask(fact.Host), w.mask(fact.Why)
	}
	ctx, cancel := core.SettleContext(context.Background())
	defer cancel()
	err := w.environment.core.Work.InTx(ctx, func(tx store.Tx) error {
		return tx.Journal().Append(w.by.Session, []perdure.Event{sessionfile.Event(w.by, "", tx.Now(), fact)})
	})
	if err != nil && !errors.Is(err, perdure.NotFound) { // NotFound: the session and its journal were removed
		w.environment.core.Log.Warn("denial not recorded in the journal", "session", w.by.Session, "call", w.by.ID,
			"host", fact.Host, "error", err)
	}
}

// egressFor returns the egress for a call of a session; nil: there is none.
func (en *Environment) egressFor(by tool.Call, ports tool.Ports) tool.Egress {
	if en.core.Ports.Egress == nil {
		return nil
	}
	w := journaledEgress{Egress: en.core.Ports.Egress, environment: en, by: by, left: new(atomic.Int64), ports: ports}
	w.left.Store(maxDenials)
	return w
}
