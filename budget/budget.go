package budget

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// Scope is the kind of a budget's subject.
type Scope string

// The scopes.
const (
	Session Scope = "session" // and its subagents
	Agent   Scope = "agent"   // all sessions of a stored agent, by its id, or of a name
	User    Scope = "user"    // all sessions of a user
	Org     Scope = "org"     // all sessions of the org
)

// Valid reports whether s is one of the four scopes.
func (s Scope) Valid() bool { return s == Session || s == Agent || s == User || s == Org }

// The subjects of a server without users and orgs.
const (
	LocalUser  = "user"
	DefaultOrg = "default"
)

// Subject is the session, agent, user or org that a budget is for.
type Subject struct {
	Scope Scope  `json:"scope"`
	ID    string `json:"subject"`
}

// Currency is the unit of a budget.
type Currency string

// The currencies that the runtime counts itself. Any other name, such as usd or credits, is money:
// its amounts come from the price table.
const (
	Tokens     Currency = "tokens"      // input and output tokens of models
	Calls      Currency = "calls"       // calls of tools
	ModelCalls Currency = "model_calls" // calls of models
	Seconds    Currency = "seconds"     // working time of tools and models
	Bytes      Currency = "bytes"       // arguments and results of tools
	USD        Currency = "usd"
)

var currencyName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`) })

// Money reports whether the amounts of the currency come from the price table.
func (c Currency) Money() bool {
	switch c {
	case Tokens, Calls, ModelCalls, Seconds, Bytes:
		return false
	}
	return true
}

// unitSeparator separates an org from the name of one of its users or agents. The names of orgs do
// not contain it.
const unitSeparator = "\x1f"

// StoredIn returns the subject as it is stored for an org. Users and agents of two orgs are
// different, even if they have the same name.
func (s Subject) StoredIn(org string) Subject {
	switch {
	case s.Scope != User && s.Scope != Agent:
	case org == "" || org == DefaultOrg:
		s.ID = strings.ReplaceAll(s.ID, unitSeparator, "?")
	default:
		s.ID = org + unitSeparator + s.ID
	}
	return s
}

// Plain returns the org of a stored subject, and the subject with its plain name. The org of a
// session is empty, because the session knows it.
func (s Subject) Plain() (org string, plain Subject) {
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

// The actions. Stop is the default.
const (
	Warn  Action = "warn"  // it only warns
	Pause Action = "pause" // the session pauses until a person lets it continue
	Stop  Action = "stop"  // nothing continues until money is available
)

// Valid reports whether a is one of the three actions.
func (a Action) Valid() bool { return a == Warn || a == Pause || a == Stop }

// Budget is a limit on spending. There is one for each subject, currency and period.
type Budget struct {
	ID perdure.BudgetID `json:"id"`
	Subject
	Currency  Currency  `json:"currency"`
	Limit     Amount    `json:"limit"`
	Soft      Amount    `json:"soft,omitzero"` // the session pauses beyond it; 0: none
	Period    Period    `json:"period"`        // for which the limit holds; the zero value: without end
	Action    Action    `json:"action"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// maxSubject bounds the name of a subject, in bytes.
const maxSubject = 256

// WithDefaults returns the budget with its defaults filled in, or an Invalid error that says what
// is wrong.
func (b Budget) WithDefaults() (Budget, error) {
	b.Action = cmp.Or(b.Action, Stop)
	if b.Scope == Org && b.Subject.ID == "" {
		b.Subject.ID = DefaultOrg
	}
	switch {
	case !b.Scope.Valid():
		return b, fmt.Errorf("%w scope %.40q: use session, agent, user or org", perdure.Invalid, b.Scope)
	case b.Subject.ID == "" || len(b.Subject.ID) > maxSubject:
		return b, fmt.Errorf("%w budget: name the %s that it is for, in at most %d bytes", perdure.Invalid, b.Scope, maxSubject)
	case !currencyName().MatchString(string(b.Currency)):
		return b, fmt.Errorf("%w currency %.40q: use usd, tokens, calls, model_calls, seconds, bytes, "+
			"or another name of lower-case letters, digits and _", perdure.Invalid, b.Currency)
	case b.Limit < 0 || b.Soft < 0:
		return b, fmt.Errorf("%w budget: limit %s and soft limit %s must not be negative",
			perdure.Invalid, b.Limit, b.Soft)
	case b.Soft > b.Limit:
		return b, fmt.Errorf("%w soft limit %s: it must be at most the limit, %s", perdure.Invalid, b.Soft, b.Limit)
	case !b.Action.Valid():
		return b, fmt.Errorf("%w action %.40q: use warn, pause or stop", perdure.Invalid, b.Action)
	}
	return b, b.Period.Check()
}
