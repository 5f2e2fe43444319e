// Package meter reserves the largest possible cost of work when it starts, and counts the real cost
// when it ends, on all budgets that apply.
//
// It may import the root, budget and store. The one thing to know: it runs in the transaction that
// records the start or the end of the work. A reservation therefore exists exactly as long as its
// work is in progress, and a crash leaks none. The caller has locked the session's row; the meter
// then locks all accounts that apply at once, ordered by id, so that transactions cannot deadlock.
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

// defaultAnswer is the assumed length of a model response in tokens, if no limit is configured.
const defaultAnswer = 4096

// maxTokens is the largest token count of one piece of work that is believable. A larger one is
// treated as unknown usage.
const maxTokens = 1_000_000_000

// Config configures a meter. The zero value is ready to use.
type Config struct {
	Prices budget.Table // of models and tools
	Model  string       // default model, by the name that it has in Prices
	Answer int          // assumed length of a response in tokens; 0: 4,096
	// Owner returns the user and organisation of a session. It is called inside transactions, so it
	// must not do I/O. nil: those of the session's row, or budget.LocalUser and budget.DefaultOrg.
	Owner func(perdure.SessionID) (user, org string)
}

// Meter reserves and counts on accounts. Safe for concurrent use.
type Meter struct{ cfg Config }

// New returns a meter.
func New(cfg Config) *Meter {
	if cfg.Answer <= 0 {
		cfg.Answer = defaultAnswer
	}
	return &Meter{cfg: cfg}
}

// Answer returns the assumed length of a response in tokens.
func (m *Meter) Answer() int { return m.cfg.Answer }

// Prices returns the price table of the meter.
func (m *Meter) Prices() budget.Table { return m.cfg.Prices }

// Owner identifies the session that work belongs to.
type Owner struct {
	Session perdure.SessionID
	Agent   perdure.Agent
	Lineage *perdure.Lineage // nil: not a subagent
}

// OwnerOf returns the Who of a folded session.
func OwnerOf(s *perdure.Session) Owner {
	return Owner{Session: s.ID, Agent: s.Agent, Lineage: s.Lineage}
}

// subjects returns everything whose budgets the work counts against: the session and the sessions
// above it, their agents, the user and the organisation.
func (m *Meter) subjects(w Owner, user, org string) []budget.Subject {
	found := []budget.Subject{{Scope: budget.Session, ID: string(w.Session)}}
	if w.Lineage != nil {
		for _, id := range []perdure.SessionID{w.Lineage.Parent, w.Lineage.Root} {
			if s := (budget.Subject{Scope: budget.Session, ID: string(id)}); !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	}
	found = append(found, budget.Subject{Scope: budget.User, ID: user}.StoredIn(org),
		budget.Subject{Scope: budget.Org, ID: org})
	for _, name := range w.Agent.BudgetAgents(w.Lineage) {
		found = append(found, budget.Subject{Scope: budget.Agent, ID: name}.StoredIn(org))
	}
	return found[:min(len(found), store.MaxSubjects)]
}

// owner returns the user and organisation of a session, from its row, which the caller has locked.
// A subagent has those of its root session.
func (m *Meter) owner(r store.Reader, w Owner) (user, org string, err error) {
	if m.cfg.Owner != nil {
		user, org = m.cfg.Owner(w.root())
		return user, org, nil
	}
	row, err := r.Sessions().Get(w.Session)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return "", "", err
	}
	return cmp.Or(row.User, budget.LocalUser), cmp.Or(row.Org, budget.DefaultOrg), nil
}

// root returns the root session of the tree.
func (w Owner) root() perdure.SessionID {
	if w.Lineage != nil {
		return w.Lineage.Root
	}
	return w.Session
}

// WorkUsage is what work uses, or may use at most. Zero means not used.
type WorkUsage struct {
	Model    string // model that is called; empty for a tool call
	Tool     string // tool that is called; empty for a model call
	Usage    perdure.Usage
	Duration time.Duration
	Bytes    int64
}

// Known reports whether u can be the usage of a model call. Missing, negative and implausibly large
// numbers cannot.
func Known(u perdure.Usage) bool {
	fits := func(n int64) bool { return n >= 0 && n <= maxTokens }
	return fits(u.InputTokens) && fits(u.OutputTokens) && fits(u.CachedTokens) && u.InputTokens+u.OutputTokens > 0
}

// need returns what work uses of a currency. Not some: nothing.
func (m *Meter) need(u WorkUsage, c budget.Currency, at time.Time) (n budget.Need, some bool) {
	modelCall := u.Tool == ""
	switch c {
	case budget.Tokens:
		n.Amount, some = budget.Whole(u.Usage.InputTokens+u.Usage.OutputTokens), modelCall
	case budget.ModelCalls:
		n.Amount, some = budget.Whole(1), modelCall
	case budget.Calls:
		n.Amount, some = budget.Whole(1), !modelCall
	case budget.Seconds:
		n.Amount, some = budget.Amount(max(u.Duration, 0).Microseconds()), true
	case budget.Bytes:
		n.Amount, some = budget.Whole(u.Bytes), !modelCall
	default:
		return m.cost(u, c, at)
	}
	return n, some
}

// cost returns what work costs in a currency of the price table.
func (m *Meter) cost(u WorkUsage, c budget.Currency, at time.Time) (n budget.Need, some bool) {
	if u.Tool != "" {
		price, known := m.cfg.Prices.Tool(u.Tool, c, at)
		return budget.Need{Amount: price.Call}, known
	}
	price, known := m.cfg.Prices.Model(u.Model, c, at)
	if !known {
		return budget.Need{Unpriced: cmp.Or(u.Model, unnamedModel)}, true
	}
	return budget.Need{Amount: price.Cost(u.Usage)}, true
}

// unnamedModel stands for the engine's default model if its name is not configured.
const unnamedModel = "(the engine's model)"

// ModelOf returns the name of the model that is called if a session names this one.
func (m *Meter) ModelOf(name string) string {
	if name == "" {
		return m.cfg.Model
	}
	return name
}

// Priced returns the name under which a model is priced: the one that the provider reports or, if
// that has no price, the one that was requested.
func (m *Meter) Priced(reported, asked string, at time.Time) string {
	asked = m.ModelOf(asked)
	if reported == "" || len(m.cfg.Prices.Costs(reported, perdure.Usage{}, at)) == 0 &&
		len(m.cfg.Prices.Costs(asked, perdure.Usage{}, at)) > 0 {
		return asked
	}
	return reported
}

// accounts returns the accounts that apply, as of now.
func (m *Meter) accounts(r store.Reader, w Owner) ([]budget.Account, error) {
	user, org, err := m.owner(r, w)
	if err != nil {
		return nil, err
	}
	found, err := r.Budgets().List(store.BudgetFilter{Subjects: m.subjects(w, user, org)})
	for i := range found {
		if err == nil {
			found[i], err = Current(r, found[i])
		}
	}
	return found, err
}

// Current returns an account as of now: entries that its period no longer covers are subtracted.
func Current(r store.Reader, a budget.Account) (budget.Account, error) {
	from, later := a.NextWindow(r.Now())
	if !later {
		return a, nil
	}
	gone, err := r.Budgets().Sum(a.ID, a.From, from)
	return a.InWindow(from, gone), err
}

// Request asks for a reservation.
type Request struct {
	Owner
	Work   string    // from budget.StepWork, budget.CallWork or the like
	Uses   WorkUsage // at most
	Step   bool      // a step of a turn, to which soft limits apply
	Waives func(perdure.BudgetID) bool
}

// Reserve reserves what work may use on all budgets that apply, or on none. In the latter case it
// returns the strictest refusal. Reserving again for the same work replaces the earlier
// reservation.
func (m *Meter) Reserve(tx store.Tx, o Request) (*budget.Refusal, error) {
	some, err := tx.Budgets().Any()
	if err != nil || !some {
		return nil, err
	}
	accounts, err := m.accounts(tx.Reader(), o.Owner)
	if err != nil || len(accounts) == 0 {
		return nil, err
	}
	before, err := tx.Budgets().Holds(store.HoldFilter{Session: o.Session, Work: o.Work})
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
		held = append(held, budget.Hold{Budget: a.ID, Session: o.Session, Work: o.Work, Amount: need.Amount,
			At: tx.Now()})
	}
	if refused != nil {
		return refused, nil
	}
	return nil, reserve(tx, accounts, held)
}

// reserve writes the holds and their accounts.
func reserve(tx store.Tx, accounts []budget.Account, held []budget.Hold) error {
	for _, h := range held {
		if err := tx.Budgets().PutHold(h); err != nil {
			return err
		}
		i := slices.IndexFunc(accounts, func(a budget.Account) bool { return a.ID == h.Budget })
		if err := tx.Budgets().Put(accounts[i]); err != nil {
			return err
		}
	}
	return nil
}

// Bill is what work used.
type Bill struct {
	Owner
	Work         string
	Uses         WorkUsage
	UsageUnknown bool // the token usage is unknown: the reservation counts, or else the estimate in Uses
	Release      bool // the work did not start: nothing counts
}

// Settle replaces the reservation of work with what it used, on all budgets that apply, and returns
// the facts to record. It counts each work once. It also counts if nothing was reserved, because
// the budget may have been set later.
func (m *Meter) Settle(tx store.Tx, b Bill) (facts []perdure.Fact, err error) {
	some, err := tx.Budgets().Any()
	if err != nil || !some {
		return nil, err
	}
	accounts, err := m.accounts(tx.Reader(), b.Owner)
	if err != nil {
		return nil, err
	}
	holds, err := tx.Budgets().Holds(store.HoldFilter{Session: b.Session})
	if err != nil {
		return nil, err
	}
	holds = slices.DeleteFunc(holds, func(h budget.Hold) bool {
		return h.Work != b.Work && !budget.PartOf(h.Work, b.Work)
	})
	for _, h := range holds { // accounts that no longer apply but still hold a reservation
		if !slices.ContainsFunc(accounts, func(a budget.Account) bool { return a.ID == h.Budget }) {
			more, err := tx.Budgets().List(store.BudgetFilter{ID: h.Budget})
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
			facts = append(facts, *warns)
		}
	}
	return facts, nil
}

// settle is Settle for one account.
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
		if _, err := tx.Budgets().RemoveHold(holds[i]); err != nil {
			return nil, err
		}
	}
	need, some := m.need(b.Uses, a.Currency, tx.Now())
	if b.Release || !some {
		if !changed {
			return nil, nil
		}
		return nil, tx.Budgets().Put(a)
	}
	e := budget.Entry{
		Budget: a.ID, Kind: budget.Charge, Session: b.Session, Work: b.Work,
		Name: b.Uses.Tool + b.Uses.Model, Amount: need.Amount,
		Unpriced: need.Unpriced != "", At: tx.Now(),
	}
	if b.UsageUnknown && (a.Currency == budget.Tokens || a.Currency.Money()) {
		e.Estimate = true
		if hold != nil {
			e.Amount = hold.Amount
		}
	}
	added, err := tx.Budgets().AddEntry(e)
	if err != nil {
		return nil, err
	}
	if added {
		a = a.WithEntry(e)
	}
	var warns *perdure.BudgetWarning
	if a.WarningDue() {
		a.Warned = true
		warns = &perdure.BudgetWarning{BudgetNotice: Notice(a, tx.Now())}
	}
	return warns, tx.Budgets().Put(a)
}

// ReleaseSteps releases the reservations of a session's model calls, after its turn has ended.
func (m *Meter) ReleaseSteps(tx store.Tx, w Owner) error {
	some, err := tx.Budgets().Any()
	if err != nil || !some {
		return err
	}
	holds, err := tx.Budgets().Holds(store.HoldFilter{Session: w.Session})
	for _, h := range holds {
		if err == nil && budget.IsStep(h.Work) {
			_, err = m.Settle(tx, Bill{Owner: w, Work: h.Work, Release: true})
		}
	}
	return err
}

// Notice returns the notice of an account.
func Notice(a budget.Account, now time.Time) perdure.BudgetNotice {
	_, of := a.Subject.Plain()
	n := perdure.BudgetNotice{
		BudgetID: a.ID, Scope: string(of.Scope), Subject: of.ID, Currency: string(a.Currency), Limit: a.Limit.String(),
		Balance: a.Balance().String(), ResetsAt: a.ResetsAt(now),
	}
	if a.Soft > 0 {
		n.SoftLimit = a.Soft.String()
	}
	return n
}

// RefusalFact returns the fact that records a refusal.
func RefusalFact(no budget.Refusal, now time.Time) perdure.Fact {
	n := Notice(no.Account, now)
	n.Why, n.Unpriced = no.Why, no.Unpriced
	if no.Soft {
		return perdure.BudgetPaused{BudgetNotice: n}
	}
	return perdure.BudgetExhausted{BudgetNotice: n}
}

// MayResume reports whether a halted session may continue: its budget was removed, or has something
// left again.
func (m *Meter) MayResume(r store.Reader, s *perdure.Session) (bool, error) {
	if s.Halt == nil {
		return false, nil
	}
	found, err := m.accounts(r, OwnerOf(s)) // all of them, so that they are locked in order
	if err != nil {
		return false, fmt.Errorf("read budgets of %s: %w", s.ID, err)
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

// Report returns the state of all budgets of a session.
func (m *Meter) Report(r store.Reader, w Owner, waives func(perdure.BudgetID) bool) (budget.Report, error) {
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

// ReadOwner reads the Who of a session from the first event of its journal, the only event that
// holds it. NotFound: no such session.
func ReadOwner(r store.Reader, id perdure.SessionID) (Owner, error) {
	first, err := r.Journal().Events(id, 0, 1)
	if err != nil || len(first) == 0 {
		return Owner{}, cmp.Or(err, fmt.Errorf("session %s: %w", id, perdure.NotFound))
	}
	created, _ := first[0].Fact.(perdure.SessionCreated)
	return Owner{Session: id, Agent: created.Agent, Lineage: created.Lineage}, nil
}
