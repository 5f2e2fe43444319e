package payment

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// usd is an amount for tests.
func usd(t *testing.T, value string) tool.Amount {
	t.Helper()
	a, err := tool.ParseAmount(value, "usd")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestPolicyRules: each rule of a policy refuses by itself, at its edge, and what no rule names is
// refused.
func TestPolicyRules(t *testing.T) {
	t.Parallel()
	whole := Policy{
		Capabilities: []string{"search"}, Hosts: []string{"api.example.com", "*.shop.example"},
		Caps: map[string]Caps{"usd": {PerRequest: "5", PerTurn: "8", PerDay: "10", ApproveAbove: "2"}, "eur": {PerRequest: "1", PerTurn: "1", PerDay: "1"}},
	}
	for name, c := range map[string]struct {
		policy     Policy
		capability string
		host       string
		amount     string
		currency   string
		spent      spent
		by         string
		want       string
	}{
		"small":                      {policy: whole, amount: "2"},
		"a capability":               {policy: whole, capability: "mail", amount: "1", want: tool.PaymentCapabilityRefused},
		"another host":               {policy: whole, host: "example.com", amount: "1", want: tool.PaymentHostRefused},
		"a host below":               {policy: whole, host: "x.api.example.com", amount: "1", want: tool.PaymentHostRefused},
		"a host below a wildcard":    {policy: whole, host: "x.shop.example", amount: "1"},
		"another currency":           {policy: whole, amount: "1", currency: "credits", want: tool.PaymentCurrencyRefused},
		"just over a request":        {policy: whole, amount: "5.000001", by: "ann", want: tool.PaymentOverRequest},
		"a whole request, approved":  {policy: whole, amount: "5", by: "ann"},
		"just over what is asked":    {policy: whole, amount: "2.000001", want: tool.PaymentNeedsApproval},
		"approved":                   {policy: whole, amount: "2.000001", by: "ann"},
		"the rest of a turn":         {policy: whole, amount: "2", spent: spent{turn: 6_000_000, day: 6_000_000}},
		"just over a turn":           {policy: whole, amount: "2", spent: spent{turn: 6_000_001, day: 6_000_001}, want: tool.PaymentOverTurn},
		"approved, and over a turn":  {policy: whole, amount: "4", spent: spent{turn: 6_000_000, day: 6_000_000}, by: "ann", want: tool.PaymentOverTurn},
		"the rest of a day":          {policy: whole, amount: "2", spent: spent{day: 8_000_000}},
		"just over a day":            {policy: whole, amount: "2", spent: spent{day: 8_000_001}, want: tool.PaymentOverDay},
		"no threshold asks always":   {policy: whole, amount: "0.000001", currency: "eur", want: tool.PaymentNeedsApproval},
		"a policy of nothing":        {amount: "1", want: tool.PaymentCapabilityRefused},
		"a policy without hosts":     {policy: Policy{Capabilities: whole.Capabilities, Caps: whole.Caps}, amount: "1", want: tool.PaymentHostRefused},
		"a policy without caps":      {policy: Policy{Capabilities: whole.Capabilities, Hosts: whole.Hosts}, amount: "1", want: tool.PaymentCurrencyRefused},
		"spent beyond, by other cap": {policy: whole, amount: "1", spent: spent{turn: 90_000_000, day: 90_000_000}, by: "ann", want: tool.PaymentOverTurn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, err := c.policy.read()
			if err != nil {
				t.Fatal(err)
			}
			amount := usd(t, c.amount)
			if c.currency != "" {
				amount.Currency = c.currency
			}
			o := tool.PaymentRequest{Host: orElse(c.host, "api.example.com"), Operation: "buy", Amount: amount}

			refused := rules.admits(orElse(c.capability, "search"), o)
			if refused == nil {
				refused = rules.fits(o, c.spent, c.by)
			}

			got := ""
			if refused != nil {
				got = refused.Code
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, refused, c.want)
			}
		})
	}
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// TestPolicyThatIsNone: an invalid policy is refused when it is configured, and the error says what
// is wrong.
func TestPolicyThatIsNone(t *testing.T) {
	t.Parallel()
	good := Caps{PerRequest: "1", PerTurn: "1", PerDay: "1"}
	for name, p := range map[string]Policy{
		"no request cap":    {Caps: map[string]Caps{"usd": {PerTurn: "1", PerDay: "1"}}},
		"no turn cap":       {Caps: map[string]Caps{"usd": {PerRequest: "1", PerDay: "1"}}},
		"no day cap":        {Caps: map[string]Caps{"usd": {PerRequest: "1", PerTurn: "1"}}},
		"a float":           {Caps: map[string]Caps{"usd": {PerRequest: "1e3", PerTurn: "1", PerDay: "1"}}},
		"a debt":            {Caps: map[string]Caps{"usd": {PerRequest: "-1", PerTurn: "1", PerDay: "1"}}},
		"an odd threshold":  {Caps: map[string]Caps{"usd": {PerRequest: "1", PerTurn: "1", PerDay: "1", ApproveAbove: "all"}}},
		"an odd currency":   {Caps: map[string]Caps{"USD": good}},
		"a host of nothing": {Hosts: []string{"*"}, Caps: map[string]Caps{"usd": good}},
	} {
		if _, err := p.read(); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, want %v", name, err, perdure.Invalid)
		}
	}
}
