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

// budgets is what a session may still spend.
type budgets struct {
	binding
	meter *meter.Meter
}

var _ tool.Budgets = budgets{}

// CheckBudgets says how all budgets of the session stand.
func (p budgets) CheckBudgets(ctx context.Context) (report budget.Report, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		who, err := meter.WhoIs(r, p.session)
		if err == nil {
			report, err = p.meter.Report(r, who, func(perdure.BudgetID) bool { return false })
		}
		return err
	})
	if err != nil {
		return report, fmt.Errorf("check budgets: %w", err)
	}
	return report, nil
}

// reserve reserves for a question to the utility model, where a meter counts. What a crash leaves is released with the call. Limit: a budget refuses, and says why.
func (p utility) reserve(ctx context.Context, work string, uses meter.Uses) error {
	if p.meter == nil || p.call.ID == "" { // its end would release what was reserved, and it has none
		return nil
	}
	return p.write(ctx, func(tx store.Tx, _ store.Session) error {
		some, err := tx.Budgeted()
		if err != nil || !some {
			return err
		}
		who, err := meter.WhoIs(tx, p.session)
		if err != nil {
			return err
		}
		refused, err := p.meter.Reserve(tx, meter.Order{Who: who, Work: work, Uses: uses})
		if err == nil && refused != nil {
			err = fmt.Errorf("%w: %s", perdure.Limit, refused.Why)
		}
		return err
	})
}

// pay puts what a question to the utility model used in the place of its reservation, in the transaction that bills it.
func (p utility) pay(tx store.Tx, work string, uses meter.Uses, g perdure.Generation) error {
	if p.meter == nil {
		return nil
	}
	some, err := tx.Budgeted()
	if err != nil || !some {
		return err
	}
	who, err := meter.WhoIs(tx, p.session)
	if err != nil {
		return err
	}
	b := meter.Bill{Who: who, Work: work, Uses: uses, Unsaid: true}
	if meter.Known(g.Usage) {
		b.Uses.Usage, b.Unsaid = g.Usage, false
	} else if g.Error != "" && g.Usage == (perdure.Usage{}) {
		b.Release = true
	}
	told, err := p.meter.Settle(tx, b)
	for _, fact := range told {
		if err == nil {
			err = p.tell(tx, fact)
		}
	}
	return err
}
