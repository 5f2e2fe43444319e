package sessionport

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// budgets reports how much a session may still spend.
type budgets struct {
	binding
	meter *meter.Meter
}

var _ tool.Budgets = budgets{}

// CheckBudgets reports the state of every budget of the session.
func (p budgets) CheckBudgets(ctx context.Context) (report budget.Report, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		account, err := meter.ReadOwner(r, p.session)
		if err == nil {
			report, err = p.meter.Report(r, account, func(perdure.BudgetID) bool { return false })
		}
		return err
	})
	if err != nil {
		return report, fmt.Errorf("check budgets: %w", err)
	}
	return report, nil
}

// reserve reserves the estimated cost of a request to the utility model, if a meter is configured.
// A reservation that a crash leaves behind is released with the call. Limit: a budget refuses, and
// the error says why.
func (p utility) reserve(ctx context.Context, work string, uses meter.WorkUsage) error {
	// A use outside a call reserves nothing: the reservation is released at the end of the call.
	if p.meter == nil || p.call.ID == "" {
		return nil
	}
	return p.write(ctx, func(tx store.Tx, _ store.Session) error {
		some, err := tx.Budgets().Any()
		if err != nil || !some {
			return err
		}
		account, err := meter.ReadOwner(tx.Reader(), p.session)
		if err != nil {
			return err
		}
		refused, err := p.meter.Reserve(tx, meter.Request{Owner: account, Work: work, Uses: uses})
		if err == nil && refused != nil {
			err = fmt.Errorf("%w: %s", perdure.Limit, refused.Why)
		}
		return err
	})
}

// pay replaces the reservation of a request by what the request used, in the transaction that
// records the bill.
func (p utility) pay(tx store.Tx, work string, uses meter.WorkUsage, g perdure.Generation) error {
	if p.meter == nil {
		return nil
	}
	some, err := tx.Budgets().Any()
	if err != nil || !some {
		return err
	}
	account, err := meter.ReadOwner(tx.Reader(), p.session)
	if err != nil {
		return err
	}
	b := meter.Bill{Owner: account, Work: work, Uses: uses, UsageUnknown: true}
	if meter.Known(g.Usage) {
		b.Uses.Usage, b.UsageUnknown = g.Usage, false
	} else if g.Error != "" && g.Usage == (perdure.Usage{}) {
		b.Release = true
	}
	facts, err := p.meter.Settle(tx, b)
	for _, fact := range facts {
		if err == nil {
			err = p.appendFact(tx, fact)
		}
	}
	return err
}
