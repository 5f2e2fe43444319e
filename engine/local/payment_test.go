package local_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// till is a payment server that counts its requests.
func till(t *testing.T) (url string, paid *atomic.Int32) {
	t.Helper()
	paid = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "receipt %d", paid.Add(1))
	}))
	t.Cleanup(server.Close)
	return server.URL, paid
}

// purse is a wallet at a URL, and a policy that asks above 2 usd.
func purse(t *testing.T, url string) local.Payments {
	t.Helper()
	wallet, err := local.NewHTTPWallet(url, "")
	if err != nil {
		t.Fatal(err)
	}
	if closer, ok := wallet.(interface{ Close() }); ok {
		t.Cleanup(closer.Close)
	}
	return local.Payments{Wallet: wallet, Policy: local.PaymentPolicy{
		Capabilities: []string{"shopping"}, Hosts: []string{"api.example.com"},
		Caps: map[string]local.PaymentCaps{"usd": {PerRequest: "5", PerTurn: "5", PerDay: "5", ApproveAbove: "2"}},
	}}
}

// buyOnce is a model that makes one purchase of a value.
func buyOnce(value string) string {
	return strings.ReplaceAll(`
rules:
  - when: {not_called: buy}
    calls: [{id: call_1, name: buy, args: {text: "VALUE"}}]
  - when: {called: buy}
    text: done
`, "VALUE", value)
}

// TestPaymentByATool: a tool pays through the engine, once, and the host sees the attempt.
func TestPaymentByATool(t *testing.T) {
	t.Parallel()
	url, paid := till(t)
	s := openShop(t, buyOnce("1.25"), local.Config{Org: "acme", Payments: purse(t, url)}, buyer(nil))
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	s.rest()

	ends, _ := s.ends()
	if len(ends) != 1 || string(ends[0].Result.Result) != `{"receipt":"receipt 1"}` || paid.Load() != 1 {
		t.Errorf("ends %+v, paid %d times", ends, paid.Load())
	}
	rows, err := s.eng.Payments().List(s.ctx, engine.PaymentFilter{})
	if err != nil || len(rows) != 1 || rows[0].State != engine.PaymentPaid || rows[0].Amount != "1.25" || rows[0].Org != "acme" || rows[0].Capability != "shopping" || !strings.HasPrefix(rows[0].Turn, "turn_") {
		t.Fatalf("rows %+v, %v", rows, err)
	}
	if _, err := s.eng.Payments().Resolve(s.ctx, rows[0].ID, engine.PaymentResolution{By: "ann"}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("a payment that is known was resolved: %v", err)
	}
	if err := s.eng.Sessions().Delete(s.ctx, s.id); err != nil {
		t.Fatal(err)
	}
	if rows, err := s.eng.Payments().List(s.ctx, engine.PaymentFilter{}); err != nil || len(rows) != 1 || rows[0].Session != "" {
		t.Errorf("after its session was deleted: %+v, %v", rows, err)
	}
}

// TestPaymentPolicyByATool: the model receives the policy's refusal, and nothing is paid.
func TestPaymentPolicyByATool(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"5.01": tool.PaymentOverRequest, "2.01": tool.PaymentNeedsApproval, "0": "amount"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			url, paid := till(t)
			s := openShop(t, buyOnce(value), local.Config{Payments: purse(t, url)}, buyer(nil))
			s.run()
			defer s.over()
			s.session()
			s.say("go")
			s.rest()

			ends, done := s.ends()
			if len(ends) != 1 || !strings.Contains(string(ends[0].Result.Result), want) || !done || paid.Load() != 0 {
				t.Errorf("ends %+v, paid %d times", ends, paid.Load())
			}
		})
	}
}

// TestPaymentApproved: above the threshold, an approval of the call lets it pay, in the foreground
// and in the background.
func TestPaymentApproved(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"foreground", "background", "with other arguments"} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			url, paid := till(t)
			asks := buyer(func(sp *tool.Spec) { sp.Policy = tool.PolicyRequiresApproval })
			script := buyOnce("3")
			if lane == "background" {
				script = strings.Replace(strings.ReplaceAll(spawnOne, "bg_note", "buy"), "args: {}", `args: {text: "3"}`, 1)
			}
			s := openShop(t, script, local.Config{Payments: purse(t, url)}, asks)
			s.run()
			defer s.over()
			s.session()
			s.say("go")
			var asked perdure.Approval
			_ = s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
				if f.Event == nil {
					return nil
				}
				if q, ok := f.Event.Fact.(perdure.ApprovalRequested); ok {
					asked = q.Approval
					return perdure.Limit // stop following
				}
				return nil
			})
			verdict := perdure.Verdict{Approve: true, By: "ann"}
			if lane == "with other arguments" {
				verdict.Args = []byte(`{"text":"4"}`)
			}
			if _, err := s.eng.Approvals().Decide(s.ctx, asked.ID, verdict); err != nil {
				t.Fatal(err)
			}
			if err := s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
				if f.Event != nil {
					switch e := f.Event.Fact.(type) {
					case perdure.ToolCompleted:
						if e.Name == "buy" {
							return perdure.Limit
						}
					case perdure.TaskUpdated:
						if e.Task.State.Terminal() {
							return perdure.Limit
						}
					}
				}
				return nil
			}); !errors.Is(err, perdure.Limit) {
				t.Fatal(err)
			}
			s.rest()

			rows, err := s.eng.Payments().List(s.ctx, engine.PaymentFilter{})
			if err != nil || len(rows) != 1 || rows[0].ApprovedBy != "ann" || rows[0].State != engine.PaymentPaid || paid.Load() != 1 {
				ends, _ := s.ends()
				t.Errorf("rows %+v, %v; paid %d times; ends %+v", rows, err, paid.Load(), ends)
			}
		})
	}
}

// TestNoPayments: without a wallet, in a dry run, and for a tool that does not declare payments,
// there is no port.
func TestNoPayments(t *testing.T) {
	t.Parallel()
	const missing = "Payment authority not available in this context. buy pays."
	for _, name := range []string{"no wallet", "dry run", "no hint"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, paid := till(t)
			buy, cfg := buyer(nil), local.Config{Payments: purse(t, url)}
			switch name {
			case "no hint":
				buy = buyer(func(sp *tool.Spec) { sp.Hints.Payment = nil })
			case "no wallet":
				cfg.Payments.Wallet = nil
			}
			s := openShop(t, buyOnce("1"), cfg, buy)
			s.run()
			defer s.over()
			session, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{DryRun: name == "dry run"})
			if err != nil {
				t.Fatal(err)
			}
			s.id = session.ID
			s.say("go")
			s.rest()

			ends, _ := s.ends()
			if len(ends) != 1 || !strings.Contains(string(ends[0].Result.Result), missing) || paid.Load() != 0 {
				t.Errorf("ends %+v, paid %d times", ends, paid.Load())
			}
			if _, err := s.eng.Payments().Resolve(s.ctx, "pay_h_1", engine.PaymentResolution{By: "ann"}); !errors.Is(err, perdure.NotFound) {
				t.Errorf("resolved what does not exist: %v", err)
			}
		})
	}
}

// TestPaymentPolicyIsRead: an engine with an invalid policy does not open.
func TestPaymentPolicyIsRead(t *testing.T) {
	t.Parallel()
	wallet, err := local.NewHTTPWallet("http://127.0.0.1:1/pay", "")
	if err != nil {
		t.Fatal(err)
	}
	cfg := local.Config{Store: memory.New(memory.Config{}), Model: parsed(t, askOnce), Tools: tool.NewRegistry(buyer(nil)), Payments: local.Payments{
		Wallet: wallet, Policy: local.PaymentPolicy{Caps: map[string]local.PaymentCaps{"usd": {}}},
	}}
	if _, err := local.Open(t.Context(), cfg); !errors.Is(err, perdure.Invalid) {
		t.Errorf("got %v, want %v", err, perdure.Invalid)
	}
	if _, err := local.NewHTTPWallet("ftp://example.com", ""); err == nil {
		t.Error("a wallet behind ftp was taken")
	}
}
