package host

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

// maxResumedPerBudget limits the sessions of one budget that resume in one pass, because they all
// reserve from the same remainder.
const maxResumedPerBudget = 16

// Billing configures prices and the owners of sessions. The zero value uses the built-in prices and
// one user.
type Billing struct {
	Prices *budget.Table // nil: budget.Prices()
	Model  string        // the name of the engine's default model in the price table; empty: its price is unknown
	Answer int           // output tokens to reserve for one model response; 0: 4,096
	// SessionLimit is the budget in US dollars that each new session has, together with its
	// subagents. It is set in the commit that creates the session. 0: none.
	SessionLimit budget.Amount
	// Owner returns the owner of a session; for a subagent it is called with the root session. It
	// is called within transactions and must do no I/O. nil: the owner in the session's row, or
	// budget.LocalUser and budget.DefaultOrg.
	Owner func(perdure.SessionID) (user, org string)
}

// newMeter creates the meter of an engine.
func newMeter(m Billing) *meter.Meter {
	prices := budget.Prices
	if m.Prices != nil {
		prices = func() budget.Table { return *m.Prices }
	}
	return meter.New(meter.Config{Prices: prices(), Model: m.Model, Answer: m.Answer, Owner: m.Owner})
}

// budgetID derives the id of the only budget of a subject, currency and period.
func budgetID(b budget.Budget) perdure.BudgetID {
	return perdure.DeriveID[perdure.BudgetID](perdure.Secret{}, time.Unix(0, 0), string(b.Scope), b.Subject.ID,
		string(b.Currency), b.Period.String())
}

func (e hostBudgets) Set(ctx context.Context, b budget.Budget, by string) (set budget.Standing, err error) {
	b, err = b.WithDefaults()
	if err != nil {
		return set, fmt.Errorf("set budget: %w", err)
	}
	b.ID = budgetID(b)
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if b.Scope == budget.Session {
			if _, err := tx.Sessions().Get(perdure.SessionID(b.Subject.ID)); err != nil {
				return err
			}
		}
		a, err := e.updatedAccount(tx, b)
		if err != nil {
			return err
		}
		line := budget.Entry{
			Budget: a.ID, Kind: budget.Set, Name: by, Amount: a.Limit, At: tx.Now(),
			Work: "set " + strconv.FormatInt(tx.Now().UnixMicro(), 10),
		}
		if _, err := tx.Budgets().AddEntry(line); err != nil {
			return err
		}
		set = a.Standing(tx.Now(), false)
		if err := tx.Budgets().Put(a); err != nil {
			return err
		}
		return e.auditBudget(tx, a.Budget, "budget.set", by)
	})
	if err != nil {
		return set, fmt.Errorf("set budget of %s %s: %w", b.Scope, b.Subject.ID, err)
	}
	e.ResumeHalted(context.WithoutCancel(ctx))
	return set, nil
}

// setSessionLimit gives a new session the budget that every session has.
func (e hostBudgets) setSessionLimit(tx store.Tx, id perdure.SessionID) error {
	b, err := budget.Budget{
		Subject:  budget.Subject{Scope: budget.Session, ID: string(id)},
		Currency: budget.USD, Limit: e.cfg.Billing.SessionLimit,
	}.WithDefaults()
	if err != nil {
		return fmt.Errorf("budget of session %s: %w", id, err)
	}
	b.ID = budgetID(b)
	a, err := e.updatedAccount(tx, b)
	if err != nil {
		return err
	}
	line := budget.Entry{
		Budget: a.ID, Kind: budget.Set, Name: "configuration", Amount: a.Limit, At: tx.Now(),
		Work: "set " + strconv.FormatInt(tx.Now().UnixMicro(), 10),
	}
	if _, err := tx.Budgets().AddEntry(line); err != nil {
		return err
	}
	return tx.Budgets().Put(a)
}

// auditBudget adds an entry to the audit log of the budget's org.
func (e hostBudgets) auditBudget(tx store.Tx, b budget.Budget, action, by string) error {
	org, plain := b.Subject.Plain()
	if b.Scope == budget.Session {
		row, err := tx.Sessions().Get(perdure.SessionID(b.Subject.ID))
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		org = row.Org
	}
	return tx.Audit().Add(store.AuditEntry{Org: org, Actor: by, Action: action, Subject: string(b.ID),
		Detail: map[string]string{
			"scope": string(b.Scope), "of": plain.ID, "limit": b.Limit.String(), "currency": string(b.Currency),
		}})
}

// updatedAccount returns the account of a budget with new settings. Its counted and reserved
// amounts stay.
func (e hostBudgets) updatedAccount(tx store.Tx, b budget.Budget) (budget.Account, error) {
	now := tx.Now()
	found, err := tx.Budgets().List(store.BudgetFilter{ID: b.ID})
	if err != nil {
		return budget.Account{}, err
	}
	b.CreatedAt, b.UpdatedAt = now, now
	if len(found) == 0 {
		a := budget.Account{Budget: b}
		a.From, _ = a.NextWindow(now)
		return a, nil
	}
	a, err := meter.Current(tx.Reader(), found[0])
	b.CreatedAt = a.CreatedAt
	a.Budget, a.Warned = b, false
	return a, err
}

// List lists budgets with their current standing.
func (e hostBudgets) List(ctx context.Context, f engine.BudgetFilter) (found []budget.Standing, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		found = nil
		all, err := r.Budgets().List(store.BudgetFilter{})
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

func (e hostBudgets) Remove(ctx context.Context, id perdure.BudgetID) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		found, err := tx.Budgets().List(store.BudgetFilter{ID: id})
		if err == nil {
			err = tx.Budgets().Remove(id)
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
	e.ResumeHalted(context.WithoutCancel(ctx))
	return nil
}

func (e hostBudgets) Entries(ctx context.Context, id perdure.BudgetID, limit int) (found []budget.Entry, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		known, err := r.Budgets().List(store.BudgetFilter{ID: id})
		if err == nil && (id == "" || len(known) == 0) {
			err = perdure.NotFound
		}
		if err == nil {
			found, err = r.Budgets().Entries(store.EntryFilter{Budget: id, Limit: limit})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the ledger of budget %s: %w", id, err)
	}
	return found, nil
}

func (e hostBudgets) Check(ctx context.Context, id perdure.SessionID) (report budget.Report, err error) {
	s, err := e.effects.FoldInPages(ctx, id)
	if err != nil {
		return report, fmt.Errorf("check the budgets of %s: %w", id, err)
	}
	err = e.view(ctx, func(r store.Reader) (err error) {
		report, err = e.meter.Report(r, meter.OwnerOf(s), func(b perdure.BudgetID) bool { return s.Waives(b, r.Now()) })
		return err
	})
	if err != nil {
		return report, fmt.Errorf("check the budgets of %s: %w", id, err)
	}
	return report, nil
}

// ResumeHalted resumes sessions that a budget had stopped and that may continue now, a limited
// number of each budget. It works whether or not this engine runs. Without stopped sessions it
// costs one read. The next heartbeat retries a failure.
func (e *Host) ResumeHalted(ctx context.Context) {
	warn := func(text string, args ...any) {
		if ctx.Err() == nil { // errors while the program stops are expected
			e.cfg.Log.Warn(text, args...)
		}
	}
	var ready []perdure.SessionID
	err := e.view(ctx, func(r store.Reader) error {
		ready = nil
		halts, err := r.Budgets().Halts()
		woken := map[perdure.BudgetID]int{}
		for _, h := range halts {
			if woken[h.Budget] == maxResumedPerBudget {
				continue
			}
			may, unread := e.mayResume(r, h)
			if errors.Is(unread, perdure.Unavailable) || store.Broken(unread) {
				return unread
			}
			if unread != nil { // does not affect the other sessions
				warn("budget-stopped session not checked", "session", h.Session, "error", unread)
			}
			if may {
				woken[h.Budget]++
				ready = append(ready, h.Session)
			}
		}
		return err
	})
	if err != nil {
		warn("budget-stopped sessions not checked", "error", err)
	}
	for _, id := range ready {
		if err := (hostSessions{e}).resume(ctx, id, "runtime"); err != nil && !errors.Is(err, perdure.Conflict) {
			warn("budget-stopped session not resumed", "session", id, "error", err)
		}
	}
}

// mayResume reports whether a stopped session may continue. It checks the budget first, because
// many sessions share it.
func (e *Host) mayResume(r store.Reader, h store.BudgetHalt) (bool, error) {
	found, err := r.Budgets().List(store.BudgetFilter{ID: h.Budget})
	if err != nil {
		return false, err
	}
	if len(found) > 0 {
		a, err := meter.Current(r, found[0])
		if err != nil || a.Action == budget.Stop && a.Available() <= 0 {
			return false, err
		}
	}
	s, err := e.effects.Fold(r, h.Session)
	if err != nil {
		return false, err
	}
	return e.meter.MayResume(r, s)
}

// skipIfPaused turns a fire into a skip if the session is paused by a person, or stopped by a
// budget that does not allow it to continue. If the budget allows it by now, for example because a
// new period has begun, the schedule fires: the fire wakes the driver, and the driver resumes the
// session (SC21).
func (tk *Timekeeper) skipIfPaused(r store.Reader, s perdure.Schedule, step perdure.ScheduleStep) (perdure.ScheduleStep, error) {
	if step.Outcome != perdure.Fired {
		return step, nil
	}
	row, err := r.Sessions().Get(s.Session)
	if errors.Is(err, perdure.NotFound) { // the session is being deleted
		return step, nil
	}
	if err != nil || row.Status != perdure.SessionPaused {
		return step, err
	}
	session, err := tk.e.effects.Fold(r, s.Session)
	if err == nil && session.Paused != nil {
		return s.SkippedForBudget(step, "its session is paused "+pausedBy(session.Paused)), nil
	}
	if err != nil || session.Halt == nil { // nil: the driver has resumed it but not updated the row yet
		return step, err
	}
	may, err := tk.e.meter.MayResume(r, session)
	if err == nil && !may {
		step = s.SkippedForBudget(step, "its session is paused: "+session.Halt.Why)
	}
	return step, err
}
