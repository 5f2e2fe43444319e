package budget

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// Scope is what kind of thing a budget is for (BU1).
type Scope string

// The scopes.
const (
	Session Scope = "session" // and its subagents
	Agent   Scope = "agent"   // all sessions of a kept agent, by its id, or of a name
	User    Scope = "user"    // all sessions of a user
	Org     Scope = "org"     // all sessions
)

// Valid reports whether the scope is one.
func (s Scope) Valid() bool { return s == Session || s == Agent || s == User || s == Org }

// The subjects where nobody says who they are.
const (
	LocalUser  = "user"
	DefaultOrg = "default"
)

// Subject is whose budget it is.
type Subject struct {
	Scope Scope  `json:"scope"`
	ID    string `json:"subject"`
}

// Currency is what a budget counts.
type Currency string

// The currencies that the runtime counts. Any other name, usd and credits among them, is money: what the table of prices says
// in that currency.
const (
	Tokens     Currency = "tokens"      // of models: in and out
	Calls      Currency = "calls"       // of tools
	ModelCalls Currency = "model_calls" // questions to models
	Seconds    Currency = "seconds"     // that tools and models were at work
	Bytes      Currency = "bytes"       // of the arguments and results of tools
	USD        Currency = "usd"
)

var currencyName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`) })

// Money reports whether amounts of the currency come from the table of prices.
func (c Currency) Money() bool {
	switch c {
	case Tokens, Calls, ModelCalls, Seconds, Bytes:
		return false
	}
	return true
}

// unitSeparator stands between an org and the name of one of its users or agents. No name of an org has one.
const unitSeparator = "\x1f"

// In returns a subject as it is kept for an org. Users and agents of two orgs are not the same, whatever their names.
func (s Subject) In(org string) Subject {
	switch {
	case s.Scope != User && s.Scope != Agent:
	case org == "" || org == DefaultOrg:
		s.ID = strings.ReplaceAll(s.ID, unitSeparator, "?")
	default:
		s.ID = org + unitSeparator + s.ID
	}
	return s
}

// Of returns whose org a subject is of, and what it is called there. A session's org is empty: the session knows it.
func (s Subject) Of() (org string, plain Subject) {
	switch s.Scope {
	case Org:
		return s.ID, s
	case User, Agent:
		if org, name, ok := strings.Cut(s.ID, unitSeparator); ok {
			s.ID = name
			return org, s
		}
		return DefaultOrg, s
	}
	return "", s
}

// Action is what a budget does at its limit.
type Action string

// The actions. Stop is that of a budget that names none.
const (
	Warn  Action = "warn"  // it only says so
	Pause Action = "pause" // a person may let the session go on
	Stop  Action = "stop"  // nothing goes on until there is something left
)

// Valid reports whether the action is one.
func (a Action) Valid() bool { return a == Warn || a == Pause || a == Stop }

// Budget is a cap on what may be spent. Of each subject, currency and period there is one.
type Budget struct {
	ID perdure.BudgetID `json:"id"`
	Subject
	Currency  Currency  `json:"currency"`
	Limit     Amount    `json:"limit"`
	Soft      Amount    `json:"soft,omitzero"` // beyond it the session pauses (BU3); 0: there is none
	Period    Period    `json:"period"`        // in which the limit holds; the zero value: for ever
	Action    Action    `json:"action"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// maxSubject bounds the name of a subject, in bytes.
const maxSubject = 256

// Checked returns the budget with its defaults. Invalid: what is wrong with it.
func (b Budget) Checked() (Budget, error) {
	if b.Action == "" {
		b.Action = Stop
	}
	if b.Scope == Org && b.Subject.ID == "" {
		b.Subject.ID = DefaultOrg
	}
	switch {
	case !b.Scope.Valid():
		return b, fmt.Errorf("%w scope %.40q: session, agent, user or org", perdure.Invalid, b.Scope)
	case b.Subject.ID == "" || len(b.Subject.ID) > maxSubject:
		return b, fmt.Errorf("%w budget: name the %s that it is for, in at most %d bytes", perdure.Invalid, b.Scope, maxSubject)
	case !currencyName().MatchString(string(b.Currency)):
		return b, fmt.Errorf("%w currency %.40q: usd, tokens, calls, model_calls, seconds, bytes, or another name of small letters, digits and _", perdure.Invalid, b.Currency)
	case b.Limit < 0 || b.Soft < 0:
		return b, fmt.Errorf("%w budget: limit %s and soft limit %s are not below zero", perdure.Invalid, b.Limit, b.Soft)
	case b.Soft > b.Limit:
		return b, fmt.Errorf("%w soft limit %s: it is at most the limit, %s", perdure.Invalid, b.Soft, b.Limit)
	case !b.Action.Valid():
		return b, fmt.Errorf("%w action %.40q: warn, pause or stop", perdure.Invalid, b.Action)
	}
	return b, b.Period.Check()
}
