// Package meter reserves what work may cost before it begins, and counts what it did cost when it has ended, on all budgets
// that apply.
//
// It may import the root, budget and store. The one thing to know: it runs in the transaction that records the beginning or the
// end of the work, so a reservation is there exactly as long as its work is under way, and nothing leaks in a crash. Whoever
// calls it has locked the session's row; it then locks all accounts that apply, by their ids, at once.
package meter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

// defaultAnswer is how many tokens an answer is reckoned with, where nobody says how long it may be.
const defaultAnswer = 4096

// The most that one piece of work can have used: what somebody claims beyond it is no usage.
const mostTokens = 1_000_000_000

// Config is what a meter needs to know. The zero value is ready to use.
type Config struct {
	Prices budget.Table // of models and tools
	Model  string       // that is asked where a session names none, as the prices call it
	Answer int          // tokens that an answer may have, for its reservation; 0: 4,096
	// Owner is whose a session is. It is asked within transactions, so it does no I/O. nil: what its row says,
	// or budget.LocalUser and budget.DefaultOrg.
	Owner func(perdure.SessionID) (user, org string)
}

// Meter moves accounts. It is safe for concurrent use.
type Meter struct{ cfg Config }

// New returns a meter.
func New(cfg Config) *Meter {
	if cfg.Answer <= 0 {
		cfg.Answer = defaultAnswer
	}
	return &Meter{cfg: cfg}
}

// Answer is how many tokens an answer is reckoned with.
func (m *Meter) Answer() int { return m.cfg.Answer }

// Prices is the table that the meter goes by.
func (m *Meter) Prices() budget.Table { return m.cfg.Prices }

// Who is whose work it is.
type Who struct {
	Session perdure.SessionID
	Agent   perdure.Agent
	Lineage *perdure.Lineage // of a subagent
}

// WhoOf is the session of a fold.
func WhoOf(s *perdure.Session) Who { return Who{Session: s.ID, Agent: s.Agent, Lineage: s.Lineage} }

// subjects are all on whose budgets the work counts: the session and those whose subagent it is, the agents of both, the user
// and the organisation (BU1).
func (m *Meter) subjects(w Who, user, org string) []budget.Subject {
	found := []budget.Subject{{Scope: budget.Session, ID: string(w.Session)}}
	if w.Lineage != nil {
		for _, id := range []perdure.SessionID{w.Lineage.Parent, w.Lineage.Root} {
			if s := (budget.Subject{Scope: budget.Session, ID: string(id)}); !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	}
	found = append(found, budget.Subject{Scope: budget.User, ID: user}.In(org), budget.Subject{Scope: budget.Org, ID: org})
	for _, name := range w.Agent.Payers(w.Lineage) {
		found = append(found, budget.Subject{Scope: budget.Agent, ID: name}.In(org))
	}
	return found[:min(len(found), store.MaxSubjects)]
}

// owner is whose a session is, as its row says, which whoever works in it has locked already. A subagent's is the one of those
// whose subagent it is.
func (m *Meter) owner(r store.Reader, w Who) (user, org string, err error) {
	if m.cfg.Owner != nil {
		user, org = m.cfg.Owner(w.root())
		return user, org, nil
	}
	row, err := r.Session(w.Session)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return "", "", err
	}
	return cmp.Or(row.User, budget.LocalUser), cmp.Or(row.Org, budget.DefaultOrg), nil
}

// root is the root of the tree that the session is in.
func (w Who) root() perdure.SessionID {
	if w.Lineage != nil {
		return w.Lineage.Root
	}
	return w.Session
}

// Uses is what work uses, or may use. What is zero is not used.
type Uses struct {
	Model string // that is asked; empty for a call of a tool
	Tool  string // that is called; empty for a question to a model
	Usage perdure.Usage
	Took  time.Duration
	Bytes int64
}

// Known reports whether a usage can be what a model used: missing, negative and senseless numbers cannot (BU3).
func Known(u perdure.Usage) bool {
	fits := func(n int64) bool { return n >= 0 && n <= mostTokens }
	return fits(u.InputTokens) && fits(u.OutputTokens) && fits(u.CachedTokens) && u.InputTokens+u.OutputTokens > 0
}

// need is what work uses of a currency. Not some: none of it.
func (m *Meter) need(u Uses, c budget.Currency, at time.Time) (n budget.Need, some bool) {
	asks := u.Tool == ""
	switch c {
	case budget.Tokens:
		n.Amount, some = budget.Whole(u.Usage.InputTokens+u.Usage.OutputTokens), asks
	case budget.ModelCalls:
		n.Amount, some = budget.Whole(1), asks
	case budget.Calls:
		n.Amount, some = budget.Whole(1), !asks
	case budget.Seconds:
		n.Amount, some = budget.Amount(max(u.Took, 0).Microseconds()), true
	case budget.Bytes:
		n.Amount, some = budget.Whole(u.Bytes), !asks
	default:
		return m.cost(u, c, at)
	}
	return n, some
}

// cost is what work costs in a currency of the table of prices.
func (m *Meter) cost(u Uses, c budget.Currency, at time.Time) (n budget.Need, some bool) {
	if u.Tool != "" {
		price, known := m.cfg.Prices.Tool(u.Tool, c, at)
		return budget.Need{Amount: price.Call}, known
	}
	price, known := m.cfg.Prices.Model(u.Model, c, at)
	if !known {
		return budget.Need{Unpriced: cmp.Or(u.Model, noName)}, true
	}
	return budget.Need{Amount: price.Cost(u.Usage)}, true
}

// noName stands for the engine's own model where nobody says what it is called.
const noName = "(the engine's model)"

// ModelOf is the name of the model that is asked where a session names this one.
func (m *Meter) ModelOf(name string) string {
	if name == "" {
		return m.cfg.Model
	}
	return name
}

// Priced is the name under which a model has a price: the one that the provider reports or, where that has none, the one that
// was asked for.
func (m *Meter) Priced(reported, asked string, at time.Time) string {
	asked = m.ModelOf(asked)
	if reported == "" || len(m.cfg.Prices.Costs(reported, perdure.Usage{}, at)) == 0 && len(m.cfg.Prices.Costs(asked, perdure.Usage{}, at)) > 0 {
		return asked
	}
	return reported
}

// accounts are the accounts that apply, as of now.
func (m *Meter) accounts(r store.Reader, w Who) ([]budget.Account, error) {
	user, org, err := m.owner(r, w)
	if err != nil {
		return nil, err
	}
	found, err := r.Budgets(store.BudgetFilter{Subjects: m.subjects(w, user, org)})
	for i := range found {
		if err == nil {
			found[i], err = Current(r, found[i])
		}
	}
	return found, err
}

// Current is an account as of now: what its period does not cover any more is gone from it.
func Current(r store.Reader, a budget.Account) (budget.Account, error) {
	from, later := a.Moves(r.Now())
	if !later {
		return a, nil
	}
	gone, err := r.BudgetSum(a.ID, a.From, from)
	return a.Moved(from, gone), err
}

// Order asks for a reservation.
type Order struct {
	Who
	Work   string // which it is for: budget.WorkOfStep, budget.WorkOfCall
	Uses   Uses   // at most
	Step   bool   // a step of a turn, where soft limits count
	Waives func(perdure.BudgetID) bool
}

// Reserve reserves what work may use on all budgets that apply, or on none: then it says which of them refuses, the strictest
// first. The same work is reserved for once.
func (m *Meter) Reserve(tx store.Tx, o Order) (*budget.Refusal, error) {
	some, err := tx.Budgeted()
	if err != nil || !some {
		return nil, err
	}
	accounts, err := m.accounts(tx, o.Who)
	if err != nil || len(accounts) == 0 {
		return nil, err
	}
	before, err := tx.BudgetHolds(store.HoldFilter{Session: o.Session, Work: o.Work})
	if err != nil {
		return nil, err
	}
	var refused *budget.Refusal
	var held []budget.Hold
	for i, a := range accounts {
		for _, h := range before {
			if h.Budget == a.ID {
				a.Reserved = a.Reserved.Less(h.Amount)
			}
		}
		need, some := m.need(o.Uses, a.Currency, tx.Now())
		if !some {
			continue
		}
		waived := o.Waives != nil && o.Waives(a.ID)
		if no := a.Refuses(need, o.Step, waived); no != nil && (refused == nil || refused.Soft && !no.Soft) {
			refused = no
		}
		accounts[i].Reserved = a.Reserved.Plus(need.Amount)
		held = append(held, budget.Hold{Budget: a.ID, Session: o.Session, Work: o.Work, Amount: need.Amount, At: tx.Now()})
	}
	if refused != nil {
		return refused, nil
	}
	return nil, reserve(tx, accounts, held)
}

// reserve writes the holds and their accounts.
func reserve(tx store.Tx, accounts []budget.Account, held []budget.Hold) error {
	for _, h := range held {
		if err := tx.PutHold(h); err != nil {
			return err
		}
		i := slices.IndexFunc(accounts, func(a budget.Account) bool { return a.ID == h.Budget })
		if err := tx.PutBudget(accounts[i]); err != nil {
			return err
		}
	}
	return nil
}

// Bill is what work used.
type Bill struct {
	Who
	Work    string
	Uses    Uses
	Unsaid  bool // nobody said what of tokens it used: what was reserved counts, or else the estimate of Uses (BU3)
	Release bool // it did not begin: nothing counts
}

// Settle puts what work used in the place of its reservation, on all budgets that apply, and returns what is to be told. It
// counts once, and also where nothing was reserved, since the budget was set later.
func (m *Meter) Settle(tx store.Tx, b Bill) (told []perdure.Fact, err error) {
	some, err := tx.Budgeted()
	if err != nil || !some {
		return nil, err
	}
	accounts, err := m.accounts(tx, b.Who)
	if err != nil {
		return nil, err
	}
	holds, err := tx.BudgetHolds(store.HoldFilter{Session: b.Session})
	if err != nil {
		return nil, err
	}
	holds = slices.DeleteFunc(holds, func(h budget.Hold) bool { return h.Work != b.Work && !budget.PartOf(h.Work, b.Work) })
	for _, h := range holds { // on what does not apply any more
		if !slices.ContainsFunc(accounts, func(a budget.Account) bool { return a.ID == h.Budget }) {
			more, err := tx.Budgets(store.BudgetFilter{ID: h.Budget})
			if err != nil {
				return nil, err
			}
			accounts = append(accounts, more...)
		}
	}
	for _, a := range accounts {
		warns, err := m.settle(tx, a, holds, b)
		if err != nil {
			return nil, err
		}
		if warns != nil {
			told = append(told, *warns)
		}
	}
	return told, nil
}

// settle is Settle on one account.
func (m *Meter) settle(tx store.Tx, a budget.Account, holds []budget.Hold, b Bill) (*perdure.BudgetWarning, error) {
	var hold *budget.Hold
	changed := false
	for i := range holds {
		if holds[i].Budget != a.ID {
			continue
		}
		if holds[i].Work == b.Work {
			hold = &holds[i]
		}
		changed = true
		a.Reserved = a.Reserved.Less(holds[i].Amount)
		if _, err := tx.RemoveHold(holds[i]); err != nil {
			return nil, err
		}
	}
	need, some := m.need(b.Uses, a.Currency, tx.Now())
	if b.Release || !some {
		if !changed {
			return nil, nil
		}
		return nil, tx.PutBudget(a)
	}
	e := budget.Entry{
		Budget: a.ID, Kind: budget.Charge, Session: b.Session, Work: b.Work, Name: b.Uses.Tool + b.Uses.Model, Amount: need.Amount,
		Unpriced: need.Unpriced != "", At: tx.Now(),
	}
	if b.Unsaid && (a.Currency == budget.Tokens || a.Currency.Money()) {
		e.Estimate = true
		if hold != nil {
			e.Amount = hold.Amount
		}
	}
	added, err := tx.AddEntry(e)
	if err != nil {
		return nil, err
	}
	if added {
		a = a.Charged(e)
	}
	var warns *perdure.BudgetWarning
	if a.Warns() {
		a.Warned = true
		warns = &perdure.BudgetWarning{BudgetNotice: Notice(a, tx.Now())}
	}
	return warns, tx.PutBudget(a)
}

// ReleaseSteps gives back what is reserved for questions of a session that nobody asks any more: its turn is over.
func (m *Meter) ReleaseSteps(tx store.Tx, w Who) error {
	some, err := tx.Budgeted()
	if err != nil || !some {
		return err
	}
	holds, err := tx.BudgetHolds(store.HoldFilter{Session: w.Session})
	for _, h := range holds {
		if err == nil && budget.IsStep(h.Work) {
			_, err = m.Settle(tx, Bill{Who: w, Work: h.Work, Release: true})
		}
	}
	return err
}

// Notice is what is told of an account.
func Notice(a budget.Account, now time.Time) perdure.BudgetNotice {
	_, of := a.Subject.Of()
	n := perdure.BudgetNotice{
		BudgetID: a.ID, Scope: string(of.Scope), Subject: of.ID, Currency: string(a.Currency), Limit: a.Limit.String(),
		Balance: a.Balance().String(), ResetsAt: a.ResetsAt(now),
	}
	if a.Soft > 0 {
		n.SoftLimit = a.Soft.String()
	}
	return n
}

// Told is the fact of a refusal.
func Told(no budget.Refusal, now time.Time) perdure.Fact {
	n := Notice(no.Account, now)
	n.Why, n.Unpriced = no.Why, no.Unpriced
	if no.Soft {
		return perdure.BudgetPaused{BudgetNotice: n}
	}
	return perdure.BudgetExhausted{BudgetNotice: n}
}

// MayResume reports whether what stopped a session does not any more: its budget is gone, or has something left.
func (m *Meter) MayResume(r store.Reader, s *perdure.Session) (bool, error) {
	if s.Halt == nil {
		return false, nil
	}
	found, err := m.accounts(r, WhoOf(s)) // all of them, so that they are locked in their order
	if err != nil {
		return false, fmt.Errorf("look at the budgets of %s: %w", s.ID, err)
	}
	i := slices.IndexFunc(found, func(a budget.Account) bool { return a.ID == s.Halt.BudgetID })
	if i < 0 {
		return true, nil
	}
	a := found[i]
	need := budget.Need{}
	if name := s.Halt.Unpriced; name != "" {
		if _, known := m.cfg.Prices.Model(name, a.Currency, r.Now()); !known {
			need.Unpriced = name
		}
	}
	return a.Refuses(need, true, s.Waives(a.ID, r.Now())) == nil, nil
}

// Report is how all budgets of a session stand.
func (m *Meter) Report(r store.Reader, w Who, waives func(perdure.BudgetID) bool) (budget.Report, error) {
	accounts, err := m.accounts(r, w)
	if err != nil {
		return budget.Report{}, err
	}
	var all []budget.Standing
	for _, a := range accounts {
		all = append(all, a.Standing(r.Now(), waives(a.ID)))
	}
	return budget.NewReport(all), nil
}

// WhoIs reads whose work the work of a session is from the first event of its journal: no other says it. NotFound: no such
// session.
func WhoIs(r store.Reader, id perdure.SessionID) (Who, error) {
	first, err := r.Events(id, 0, 1)
	if err != nil || len(first) == 0 {
		return Who{}, cmp.Or(err, fmt.Errorf("session %s: %w", id, perdure.NotFound))
	}
	told, _ := first[0].Fact.(perdure.SessionCreated)
	return Who{Session: id, Agent: told.Agent, Lineage: told.Lineage}, nil
}
