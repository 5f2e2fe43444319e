package payment

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Policy says what may be paid. All of it is enforced (PA1), and what it does not name is refused: the zero value pays nothing.
type Policy struct {
	Capabilities []string        // whose tools may pay
	Hosts        []string        // who may be paid: exact names, or *.host for a host and all below it
	Caps         map[string]Caps // by currency
}

// Caps bound what is paid in one currency. They are decimal numbers, for instance "2.50"; the first three are required. What
// is in flight, and what nobody knows about, counts as paid.
type Caps struct {
	PerRequest string // of one payment
	PerTurn    string // of all that a turn of a root session pays, its subagents included
	PerDay     string // of all that the organisation pays in any 24 hours
	AskAbove   string // a payment over this needs a person's approval of its call; empty: every one does
}

// rules is a policy that was read.
type rules struct {
	capabilities []string
	hosts        perdure.NetworkList
	caps         map[string]caps
}

// caps are Caps in millionths.
type caps struct{ request, turn, day, ask int64 }

// spent is what counts against the caps before a payment, in millionths of its currency.
type spent struct{ turn, day int64 }

// read checks a policy. Invalid: what is wrong with it.
func (p Policy) read() (rules, error) {
	r := rules{capabilities: p.Capabilities, hosts: perdure.NetworkList{Allowed: p.Hosts}, caps: map[string]caps{}}
	if err := r.hosts.Check(); err != nil {
		return rules{}, fmt.Errorf("payment policy: hosts: %w", err)
	}
	for currency, given := range p.Caps {
		var c caps
		for _, cap := range []struct {
			name, text string
			into       *int64
		}{{"PerRequest", given.PerRequest, &c.request}, {"PerTurn", given.PerTurn, &c.turn}, {"PerDay", given.PerDay, &c.day}, {"AskAbove", given.AskAbove, &c.ask}} {
			if cap.name == "AskAbove" && (cap.text == "" || cap.text == "0") {
				continue
			}
			a, err := tool.ParseAmount(cap.text, currency)
			if err != nil {
				return rules{}, fmt.Errorf("payment policy: %s of %q: %w", cap.name, currency, err)
			}
			*cap.into = a.Micros
		}
		r.caps[currency] = c
	}
	return r, nil
}

// admits says what the policy has against an order by itself: nil for nothing.
func (r rules) admits(capability string, o tool.PaymentOrder) *tool.PaymentError {
	c, known := r.caps[o.Amount.Currency]
	switch {
	case !slices.Contains(r.capabilities, capability):
		return refuse(tool.PaymentCapabilityRefused, "the operator does not let the capability %s pay", capability)
	case !r.pays(o.Host):
		return refuse(tool.PaymentHostRefused, "the operator does not let %s be paid", o.Host)
	case !known:
		return refuse(tool.PaymentCurrencyRefused, "the operator does not let anything be paid in %s", o.Amount.Currency)
	case o.Amount.Micros > c.request:
		return refuse(tool.PaymentOverRequest, "%s is over the %s that one payment may have", o.Amount, amount(c.request, o))
	}
	return nil
}

// pays reports whether a host may be paid. A list that allows nobody in particular allows nobody.
func (r rules) pays(host string) bool {
	if len(r.hosts.Allowed) == 0 {
		return false
	}
	ok, _ := r.hosts.Permits("https://" + host + "/")
	return ok
}

// fits says what the policy has against an order that admits let through, with what was spent and who approved its call.
func (r rules) fits(o tool.PaymentOrder, s spent, approvedBy string) *tool.PaymentError {
	c := r.caps[o.Amount.Currency]
	switch {
	case o.Amount.Micros > c.turn-s.turn:
		return refuse(tool.PaymentOverTurn, "%s is over what is left of the %s that a turn may pay", o.Amount, amount(c.turn, o))
	case o.Amount.Micros > c.day-s.day:
		return refuse(tool.PaymentOverDay, "%s is over what is left of the %s that may be paid in 24 hours", o.Amount, amount(c.day, o))
	case r.asks(o) && approvedBy == "":
		return refuse(tool.PaymentNeedsApproval, "a payment of %s needs a person's approval of the call, which it does not have", o.Amount)
	}
	return nil
}

// asks reports whether an order needs a person's approval.
func (r rules) asks(o tool.PaymentOrder) bool {
	return o.Amount.Micros > r.caps[o.Amount.Currency].ask
}

// amount is a cap for people.
func amount(micros int64, o tool.PaymentOrder) tool.Amount {
	return tool.Amount{Micros: micros, Currency: o.Amount.Currency}
}

func refuse(code, format string, args ...any) *tool.PaymentError {
	return &tool.PaymentError{Code: code, Text: fmt.Sprintf(format, args...)}
}
