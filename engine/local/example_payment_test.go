package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// A tool that buys news, and an engine that allows it, within limits.
func ExampleNewHTTPWallet() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "receipt 7") // 200: it is paid
	}))
	defer server.Close()
	if err := buyNews(context.Background(), server.URL); err != nil {
		fmt.Println(err)
	}
	// Output: Bought: receipt 7.
}

func newsTool() tool.Tool {
	type In struct {
		Topic string `json:"topic" jsonschema:"what the news are about"`
	}
	type Out struct {
		Receipt string `json:"receipt"`
	}
	pays := true
	return tool.New(tool.Spec{
		Name: "buy_news", Description: "Buys today's news about a topic, for 0.25 usd.", Class: perdure.AtMostOnce, NeedsEnv: true,
		Hints: tool.Hints{CapabilityID: "news", Payment: &pays},
	}, func(ctx context.Context, in In, env tool.Env) (Out, error) {
		if env.Payments == nil {
			return Out{}, tool.Errorf("%s", tool.Missing("Payment authority", "buy_news pays for what it fetches.").Text)
		}
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

func buyNews(ctx context.Context, url string) error {
	wallet, err := local.NewHTTPWallet(url, "Bearer of the operator")
	if err != nil {
		return err
	}
	model, err := scripted.Parse("example", []byte(`
steps:
  - calls: [{name: buy_news, args: {topic: tides}}]
  - text: 'Bought: {{(result "buy_news").receipt}}.'
`))
	if err != nil {
		return err
	}
	eng, err := local.Open(ctx, local.Config{
		Store: memory.New(memory.Config{}), Model: model, Tools: tool.NewRegistry(newsTool()),
		Payments: local.Payments{Wallet: wallet, Policy: local.PaymentPolicy{
			Capabilities: []string{"news"}, Hosts: []string{"news.example.com"},
			Caps: map[string]local.PaymentCaps{"usd": {PerRequest: "1", PerTurn: "3", PerDay: "20", ApproveAbove: "0.50"}},
		}},
	})
	if err != nil {
		return err
	}
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		return err
	}
	if _, err := eng.Send(ctx, s.ID, perdure.Text("Buy the news about tides")); err != nil {
		return err
	}
	return untilRest(ctx, eng, s.ID)
}
