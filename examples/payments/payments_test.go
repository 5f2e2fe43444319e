package payments_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/examples/payments"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// newsTool buys news for 0.25 usd.
func newsTool() tool.Tool {
	type In struct {
		Topic string `json:"topic"`
	}
	type Out struct {
		Receipt string `json:"receipt"`
	}
	pays := true
	return tool.New(tool.Spec{
		Name: "buy_news", Description: "Buys news about a topic, for 0.25 usd.", Class: perdure.AtMostOnce, NeedsEnv: true,
		Hints: tool.Hints{CapabilityID: "news", Payment: &pays},
	}, func(ctx context.Context, in In, env tool.Env) (Out, error) {
		price, err := tool.ParseAmount("0.25", "usd")
		if err != nil {
			return Out{}, err
		}
		what, err := json.Marshal(in)
		if err != nil {
			return Out{}, err
		}
		receipt, err := env.Payments.Pay(ctx, tool.PaymentRequest{Host: "news.example.com", Operation: "buy", Amount: price, Parameters: what})
		if err != nil {
			return Out{}, tool.Errorf("The news were not bought: %s", err)
		}
		return Out{Receipt: receipt.Text}, nil
	})
}

// TestPayments: an engine of an outside program pays from the fake wallet what the fake authority
// allows, and lists it.
func TestPayments(t *testing.T) {
	t.Parallel()
	for topic, want := range map[string]string{"tides": "receipt for 0.25 usd to news.example.com", "gossip": "denies it: \\\"no gossip\\\""} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			wallet := &payments.Wallet{Authorization: "Bearer of the operator"}
			asked := make(chan payments.Question, 1) // capacity 1: one call is made
			authority, err := payments.NewAuthority(secret, func(q payments.Question) (bool, string) {
				asked <- q
				return topic != "gossip", "no gossip"
			})
			if err != nil {
				t.Fatal(err)
			}
			paths := http.NewServeMux()
			paths.Handle("/pay", wallet)
			paths.Handle("/ask", authority)
			server := httptest.NewServer(paths)
			defer server.Close()

			answer, made := buy(t, server.URL, topic)

			if !strings.Contains(answer, want) {
				t.Errorf("answered %s, want %s", answer, want)
			}
			if q := <-asked; q.Host != "news.example.com" || q.Amount.Value != "0.25" || q.Tool != "buy_news" {
				t.Errorf("asked about %+v", q)
			}
			if paid := topic == "tides"; paid != (len(made) == 1) || paid != (len(wallet.Made()) == 1) {
				t.Errorf("listed %+v, the wallet made %v", made, wallet.Made())
			}
			for _, p := range made {
				if _, ok := wallet.Made()[p.ID]; !ok || p.State != engine.PaymentPaid || p.Amount != "0.25" {
					t.Errorf("listed %+v, the wallet made %v", p, wallet.Made())
				}
			}
		})
	}
}

// buy lets an agent buy news, and returns its answer and the payments.
func buy(t *testing.T, url, topic string) (answer string, made []engine.Payment) {
	t.Helper()
	wallet, err := local.NewHTTPWallet(url+"/pay", "Bearer of the operator")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := local.NewHTTPPaymentAuthority(url+"/ask", secret)
	if err != nil {
		t.Fatal(err)
	}
	model, err := scripted.Parse("buyer", fmt.Appendf(nil, "steps:\n  - calls: [{name: buy_news, args: {topic: %s}}]\n  - text: '{{last}}'\n", topic))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: memory.New(memory.Config{}), Model: model, Tools: tool.NewRegistry(newsTool()),
		Payments: local.Payments{Wallet: wallet, Authority: authority, Policy: local.PaymentPolicy{
			Capabilities: []string{"news"}, Hosts: []string{"news.example.com"},
			Caps: map[string]local.PaymentCaps{"usd": {PerRequest: "1", PerTurn: "3", PerDay: "20", ApproveAbove: "0.50"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	defer func() { stop(); <-ended }()
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("Buy the news"))
	}
	if err == nil {
		err = eng.Sessions().WaitIdle(ctx, s.ID)
	}
	if err == nil {
		made, err = eng.Payments().List(ctx, engine.PaymentFilter{Session: s.ID})
	}
	if err != nil {
		t.Fatal(err)
	}
	events, err := eng.Events(ctx, s.ID, 0, 0)
	for _, e := range events {
		if done, ok := e.Fact.(perdure.OutputCompleted); ok && err == nil {
			answer = done.Message.Text()
		}
	}
	return answer, made
}
