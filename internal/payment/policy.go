package payment

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Policy says what may be paid. The authority enforces all of it (PA1) and refuses what it does not
// name: the zero value allows no payment.
type Policy struct {
	Capabilities []string        // of the tools that may pay
	Hosts        []string        // that may be paid: exact names, or *.host for a host and its subdomains
	Caps         map[string]Caps // by currency
}

// Caps limit what is paid in one currency. They are decimal numbers, for example "2.50"; the first
// three are required. Payments that are in flight or unknown count as paid.
type Caps struct {
	PerRequest   string // of one payment
	PerTurn      string // of all payments of a turn of a root session, its subagents included
	PerDay       string // of all payments of the organisation in any 24 hours
	ApproveAbove string // a payment above this needs an approval of its call; empty: every payment does
}

// rules is a parsed policy.
type rules struct {
	capabilities []string
	hosts        perdure.NetworkList
	caps         map[string]caps
}

// caps are Caps in millionths.
type caps struct{ request, turn, day, approve int64 }

// spent is what counts against the caps before a payment, in millionths of its currency.
type spent struct{ turn, day int64 }

// Check returns what is wrong with a policy. Invalid: a host is no host, or a cap is missing or is
// no amount.
func (p Policy) Check() error {
	_, err := p.read()
	return err
}

// read parses a policy. Invalid: what is wrong with it.
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
		}{{"per_request", given.PerRequest, &c.request}, {"per_turn", given.PerTurn, &c.turn}, {"per_day", given.PerDay, &c.day}, {"approve_above", given.ApproveAbove, &c.approve}} {
			if cap.name == "approve_above" && (cap.text == "" || cap.text == "0") {
				continue
			}
			if cap.text == "" {
				return rules{}, fmt.Errorf("payment policy: %w caps of %q: %s is missing", perdure.Invalid, currency, cap.name)
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

// admits checks an order on its own against the policy. nil: it is allowed.
func (r rules) admits(capability string, o tool.PaymentRequest) *tool.PaymentError {
	c, known := r.caps[o.Amount.Currency]
	switch {
	case !slices.Contains(r.capabilities, capability):
		return refuse(tool.PaymentCapabilityRefused, "the operator's policy does not allow the capability %s to pay", capability)
	case !r.allowsHost(o.Host):
		return refuse(tool.PaymentHostRefused, "the operator's policy does not allow payments to %s", o.Host)
	case !known:
		return refuse(tool.PaymentCurrencyRefused, "the operator's policy does not allow payments in %s", o.Amount.Currency)
	case o.Amount.Micros > c.request:
		return refuse(tool.PaymentOverRequest, "%s exceeds the limit of %s per payment", o.Amount, amount(c.request, o))
	}
	return nil
}

// allowsHost reports whether a host may be paid. An empty list allows none.
func (r rules) allowsHost(host string) bool {
	if len(r.hosts.Allowed) == 0 {
		return false
	}
	ok, _ := r.hosts.Permits("https://" + host + "/")
	return ok
}

// fits checks an order that admits allowed against what was spent and who approved its call.
func (r rules) fits(o tool.PaymentRequest, s spent, approvedBy string) *tool.PaymentError {
	c := r.caps[o.Amount.Currency]
	switch {
	case o.Amount.Micros > c.turn-s.turn:
		return refuse(tool.PaymentOverTurn, "%s exceeds what is left of the limit of %s per turn", o.Amount, amount(c.turn, o))
	case o.Amount.Micros > c.day-s.day:
		return refuse(tool.PaymentOverDay, "%s exceeds what is left of the limit of %s per 24 hours", o.Amount, amount(c.day, o))
	case r.needsApproval(o) && approvedBy == "":
		return refuse(tool.PaymentNeedsApproval, "a payment of %s needs an approval of its call, and there is none", o.Amount)
	}
	return nil
}

// needsApproval reports whether an order needs an approval.
func (r rules) needsApproval(o tool.PaymentRequest) bool {
	return o.Amount.Micros > r.caps[o.Amount.Currency].approve
}

// amount returns a cap as an Amount, for a message.
func amount(micros int64, o tool.PaymentRequest) tool.Amount {
	return tool.Amount{Micros: micros, Currency: o.Amount.Currency}
}

func refuse(code, format string, args ...any) *tool.PaymentError {
	return &tool.PaymentError{Code: code, Text: fmt.Sprintf(format, args...)}
}
