package local

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/store"
)

// revivedAtOnce is how many sessions of one budget go on in one look: they ask for what is left all at once.
const revivedAtOnce = 16

// Money says what work costs and whose it is. The zero value knows the prices that come with the program, and one user.
type Money struct {
	Prices *budget.Table // nil: budget.Prices()
	Model  string        // what the prices call the engine's own model; empty: its price is not known
	Answer int           // tokens that an answer may have, for what is reserved; 0: 4,096
	// Owner is whose a session is: that of a subagent is asked for with its root. It is asked within transactions, so it does no
	// I/O. nil: what its row says, or budget.LocalUser and budget.DefaultOrg.
	Owner func(perdure.SessionID) (user, org string)
}

// newMeter is the meter of an engine.
func newMeter(m Money) *meter.Meter {
	prices := budget.Prices
	if m.Prices != nil {
		prices = func() budget.Table { return *m.Prices }
	}
	return meter.New(meter.Config{Prices: prices(), Model: m.Model, Answer: m.Answer, Owner: m.Owner})
}

// budgetID is the id of the budget of a subject, currency and period: there is one.
func budgetID(b budget.Budget) perdure.BudgetID {
	return perdure.DeriveID[perdure.BudgetID](perdure.Secret{}, time.Unix(0, 0), string(b.Scope), b.Subject.ID, string(b.Currency), b.Period.String())
}

// SetBudget adds a budget or changes it.
func (e *Engine) SetBudget(ctx context.Context, b budget.Budget, by string) (set budget.Standing, err error) {
	b, err = b.Checked()
	if err != nil {
		return set, fmt.Errorf("set budget: %w", err)
	}
	b.ID = budgetID(b)
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if b.Scope == budget.Session {
			if _, err := tx.Session(perdure.SessionID(b.Subject.ID)); err != nil {
				return err
			}
		}
		a, err := e.accountOf(tx, b)
		if err != nil {
			return err
		}
		line := budget.Entry{
			Budget: a.ID, Kind: budget.Set, Name: by, Amount: a.Limit, At: tx.Now(), Work: "set " + strconv.FormatInt(tx.Now().UnixMicro(), 10),
		}
		if _, err := tx.AddEntry(line); err != nil {
			return err
		}
		set = a.Standing(tx.Now(), false)
		if err := tx.PutBudget(a); err != nil {
			return err
		}
		return e.auditBudget(tx, a.Budget, "budget.set", by)
	})
	if err != nil {
		return set, fmt.Errorf("set budget of %s %s: %w", b.Scope, b.Subject.ID, err)
	}
	e.wakeHalted(context.WithoutCancel(ctx))
	return set, nil
}

// auditBudget adds to the audit log of the org whose budget it is.
func (e *Engine) auditBudget(tx store.Tx, b budget.Budget, action, by string) error {
	org, plain := b.Subject.Of()
	if b.Scope == budget.Session {
		row, err := tx.Session(perdure.SessionID(b.Subject.ID))
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		org = row.Org
	}
	return tx.AddAudit(store.AuditEntry{Org: org, Actor: by, Action: action, Subject: string(b.ID), Detail: map[string]string{
		"scope": string(b.Scope), "of": plain.ID, "limit": b.Limit.String(), "currency": string(b.Currency),
	}})
}

// accountOf is the account of a budget as it is to be: what stands on it stays.
func (e *Engine) accountOf(tx store.Tx, b budget.Budget) (budget.Account, error) {
	now := tx.Now()
	found, err := tx.Budgets(store.BudgetFilter{ID: b.ID})
	if err != nil {
		return budget.Account{}, err
	}
	b.CreatedAt, b.UpdatedAt = now, now
	if len(found) == 0 {
		a := budget.Account{Budget: b}
		a.From, _ = a.Moves(now)
		return a, nil
	}
	a, err := meter.Current(tx, found[0])
	b.CreatedAt = a.CreatedAt
	a.Budget, a.Warned = b, false
	return a, err
}

// Budgets lists budgets as they stand.
func (e *Engine) Budgets(ctx context.Context, f engine.BudgetFilter) (found []budget.Standing, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		found = nil
		all, err := r.Budgets(store.BudgetFilter{})
		for _, a := range all {
			if err != nil {
				return err
			}
			if (f.Scope != "" && f.Scope != a.Scope) || (f.Subject != "" && f.Subject != a.Subject.ID) {
				continue
			}
			a, err = meter.Current(r, a)
			found = append(found, a.Standing(r.Now(), false))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list budgets: %w", err)
	}
	return found, nil
}

// RemoveBudget removes a budget with its ledger.
func (e *Engine) RemoveBudget(ctx context.Context, id perdure.BudgetID) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		found, err := tx.Budgets(store.BudgetFilter{ID: id})
		if err == nil {
			err = tx.RemoveBudget(id)
		}
		for _, a := range found {
			if err == nil {
				err = e.auditBudget(tx, a.Budget, "budget.removed", store.ActorOf(ctx))
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	e.wakeHalted(context.WithoutCancel(ctx))
	return nil
}

// BudgetEntries returns the last lines of a ledger.
func (e *Engine) BudgetEntries(ctx context.Context, id perdure.BudgetID, limit int) (found []budget.Entry, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		known, err := r.Budgets(store.BudgetFilter{ID: id})
		if err == nil && (id == "" || len(known) == 0) {
			err = perdure.NotFound
		}
		if err == nil {
			found, err = r.BudgetEntries(store.EntryFilter{Budget: id, Limit: limit})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the ledger of budget %s: %w", id, err)
	}
	return found, nil
}

// CheckBudgets says how all budgets of a session stand.
func (e *Engine) CheckBudgets(ctx context.Context, id perdure.SessionID) (report budget.Report, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		s, err := e.effects.Fold(r, id)
		if err != nil {
			return err
		}
		report, err = e.meter.Report(r, meter.WhoOf(s), func(b perdure.BudgetID) bool { return s.Waives(b, r.Now()) })
		return err
	})
	if err != nil {
		return report, fmt.Errorf("check the budgets of %s: %w", id, err)
	}
	return report, nil
}

// wakeHalted lets the sessions go on that a budget had stopped and that may by now, some of each budget, whether or not this
// engine runs. Where none is stopped it costs one look. What fails is tried again with the next beat.
func (e *Engine) wakeHalted(ctx context.Context) {
	warn := func(text string, args ...any) {
		if ctx.Err() == nil { // a program that stops is no fault
			e.cfg.Log.Warn(text, args...)
		}
	}
	var ready []perdure.SessionID
	err := e.view(ctx, func(r store.Reader) error {
		ready = nil
		halts, err := r.BudgetHalts()
		woken := map[perdure.BudgetID]int{}
		for _, h := range halts {
			if woken[h.Budget] == revivedAtOnce {
				continue
			}
			may, unread := e.mayResume(r, h)
			if errors.Is(unread, perdure.Unavailable) || store.Broken(unread) {
				return unread
			}
			if unread != nil { // it keeps none of the others
				warn("a session that a budget stopped could not be looked at", "session", h.Session, "error", unread)
			}
			if may {
				woken[h.Budget]++
				ready = append(ready, h.Session)
			}
		}
		return err
	})
	if err != nil {
		warn("what budgets stopped could not be looked at", "error", err)
	}
	for _, id := range ready {
		if err := e.resume(ctx, id, "runtime"); err != nil && !errors.Is(err, perdure.Conflict) {
			warn("a session was not let go on", "session", id, "error", err)
		}
	}
}

// mayResume looks at the budget first, which many sessions share.
func (e *Engine) mayResume(r store.Reader, h store.BudgetHalt) (bool, error) {
	found, err := r.Budgets(store.BudgetFilter{ID: h.Budget})
	if err != nil {
		return false, err
	}
	if len(found) > 0 {
		a, err := meter.Current(r, found[0])
		if err != nil || a.Action == budget.Stop && a.Left() <= 0 {
			return false, err
		}
	}
	s, err := e.effects.Fold(r, h.Session)
	if err != nil {
		return false, err
	}
	return e.meter.MayResume(r, s)
}

// withheld is a step of a schedule, or the skip that it is in a session that a person paused, or that a budget stopped and that may not go
// on by now. What may, as when the period has just begun anew, fires: its driver, which the fire wakes, then lets the session go on (SC21).
func (e *Engine) withheld(r store.Reader, s perdure.Schedule, step perdure.ScheduleStep) (perdure.ScheduleStep, error) {
	if step.Outcome != perdure.Fired {
		return step, nil
	}
	row, err := r.Session(s.Session)
	if errors.Is(err, perdure.NotFound) { // it is being deleted
		return step, nil
	}
	if err != nil || row.Status != perdure.SessionPaused {
		return step, err
	}
	session, err := e.effects.Fold(r, s.Session)
	if err == nil && session.Paused != nil {
		return s.Withheld(step, "its session is paused "+byWhom(session.Paused)), nil
	}
	if err != nil || session.Halt == nil { // nil: it may go on, and its driver has not said so yet
		return step, err
	}
	may, err := e.meter.MayResume(r, session)
	if err == nil && !may {
		step = s.Withheld(step, "its session is paused: "+session.Halt.Why)
	}
	return step, err
}
