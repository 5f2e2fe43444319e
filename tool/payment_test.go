package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// TestAmounts: money is exact, and what is not a plain decimal number of a plain currency is
// refused.
func TestAmounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1_000_000, "1.25": 1_250_000, "0.000001": 1, "000.10": 100_000, "1000000000": 1_000_000_000_000_000, "999999999.999999": 999_999_999_999_999, "0.1": 100_000, "0.3": 300_000,
	} {
		a, err := tool.ParseAmount(text, "usd")
		if err != nil || a.Micros != want {
			t.Errorf("%s: got %+v, %v, want %d", text, a, err, want)
		}
		body, err := json.Marshal(a)
		var back tool.Amount
		if err := errors.Join(err, json.Unmarshal(body, &back)); err != nil || back != a {
			t.Errorf("%s: %s came back as %+v, %v", text, body, back, err)
		}
	}
	for _, text := range []string{
		"", "0", "0.0", "-1", "+1", "1e3", "1.", ".5", "1,5", "1.0000001", "1000000000.000001", "99999999999", " 1", "1 ", "0x1", "NaN", "Inf", "١", "1.2.3", strings.Repeat("1", 400),
	} {
		if a, err := tool.ParseAmount(text, "usd"); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: got %+v, %v", text, a, err)
		}
	}
	for _, currency := range []string{"", "u", "USD", "us-d", "1usd", "_usd", "ünd", strings.Repeat("u", 17)} {
		if a, err := tool.ParseAmount("1", currency); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: got %+v, %v", currency, a, err)
		}
	}
	for _, body := range []string{`{"value":1.25,"currency":"usd"}`, `{"value":"1.25"}`, `"1.25"`, `{"value":"-1","currency":"usd"}`, `{"value":"1","value":"2","currency":"usd"}`} {
		var a tool.Amount
		if err := json.Unmarshal([]byte(body), &a); err == nil {
			t.Errorf("%s: got %+v", body, a)
		}
	}
	if a, _ := tool.ParseAmount("12.50", "credits"); a.String() != "12.5 credits" {
		t.Errorf("got %s", a)
	}
}

// TestPayingToolsAreAtMostOnce: a tool that pays with a gentler class, or for no capability, is
// refused at registration (PA2).
func TestPayingToolsAreAtMostOnce(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, c := range map[string]struct {
		class   perdure.EffectClass
		hints   tool.Hints
		refused string
	}{
		"at most once":       {perdure.AtMostOnce, tool.Hints{Payment: &yes, CapabilityID: "search"}, ""},
		"idempotent":         {perdure.Idempotent, tool.Hints{Payment: &yes, CapabilityID: "search"}, "at_most_once"},
		"pure":               {perdure.Pure, tool.Hints{Payment: &yes, CapabilityID: "search"}, "at_most_once"},
		"without capability": {perdure.AtMostOnce, tool.Hints{Payment: &yes}, "CapabilityID"},
		"does not pay":       {perdure.Pure, tool.Hints{Payment: &no}, ""},
	} {
		run := func(context.Context, tool.Call, tool.Env) tool.Result { return tool.Success(nil) }
		r := tool.NewRegistry(tool.Adapt(tool.Spec{Name: "buy", Description: "x", Class: c.class, Hints: c.hints}, run))
		err := r.Err()
		if (err == nil) != (c.refused == "") || err != nil && (!errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	r := tool.NewRegistry(tool.Adapt(tool.Spec{Name: "buy", Description: "x", Hints: tool.Hints{Payment: &yes, Idempotent: &yes, CapabilityID: "search"}}, nil))
	if r.Err() == nil {
		t.Error("a foreign definition that pays, and whose hints make it idempotent, was taken")
	}
}

// TestPaymentErrors: the kinds of refusals.
func TestPaymentErrors(t *testing.T) {
	t.Parallel()
	for code, kind := range map[string]perdure.Kind{
		tool.PaymentOverRequest: perdure.Limit, tool.PaymentOverTurn: perdure.Limit, tool.PaymentOverDay: perdure.Limit, tool.PaymentUnknown: perdure.UnknownOutcome,
		tool.PaymentReplayed: perdure.Conflict, tool.PaymentInFlight: perdure.Conflict, tool.PaymentNeedsApproval: perdure.Conflict,
		tool.PaymentHostRefused: perdure.Invalid, tool.PaymentRefused: perdure.Invalid,
	} {
		err := &tool.PaymentError{Code: code, Text: "why"}
		if !errors.Is(err, kind) || err.Error() != code+": why" {
			t.Errorf("%s: %v is not %v", code, err, kind)
		}
	}
}
