package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// till is a payment authority that counts what it was asked for.
type till struct {
	tool.Payments
	asked atomic.Int64
	err   error // of each order
}

func (p *till) Pay(_ context.Context, o tool.PaymentRequest) (tool.PaymentReceipt, error) {
	p.asked.Add(1)
	return tool.PaymentReceipt{ID: "pay_1", Amount: o.Amount}, p.err
}

// paidShop is the tool charge of an MCP server over HTTP, with a price.
type paidShop struct {
	tool    tool.Tool
	before  error // of BeforeCall
	fails   bool  // the server answers each call with an error
	away    bool  // there is no connection
	charged atomic.Int64
	handles *oneHandle
}

func newPaidShop(t *testing.T) *paidShop {
	t.Helper()
	s := &paidShop{handles: &oneHandle{}}
	server := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "charge"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		s.charged.Add(1)
		return &sdk.CallToolResult{IsError: s.fails, Content: []sdk.Content{&sdk.TextContent{Text: "charged"}}}, nil, nil
	})
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	all, err := mcptool.NewServer(mcptool.ServerConfig{
		Name: "shop", Definitions: []*sdk.Tool{{Name: "charge", InputSchema: json.RawMessage(`{"type":"object"}`)}}, Handles: s.handles,
		BeforeCall: func(context.Context, tool.Env) error { return s.before },
		Open: func(ctx context.Context, _ perdure.SessionID) (*mcptool.Client, error) {
			if s.away {
				return nil, perdure.Unavailable
			}
			return mcptool.Open(ctx, mcptool.Config{Name: "shop", URL: web.URL, HTTP: web.Client()})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.Close() })
	if s.tool, err = newPaidTool(all.Tools()[0], "charge", toolPrice{Amount: "0.25", Currency: "usd", Host: "shop.example.com"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *paidShop) call(t *testing.T, p tool.Payments) tool.Result {
	call := tool.Call{Session: "session_1", ID: "call_1", Tool: "shop__charge", Args: json.RawMessage(`{}`), Key: "k", Execution: 1}
	return s.tool.Run(t.Context(), call, tool.Env{Call: call, Ports: tool.Ports{Payments: p}})
}

// TestPaymentOnlyIfTheCallCanBeMade: nothing is paid for a call whose credentials or whose server
// are missing.
func TestPaymentOnlyIfTheCallCanBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before error
		away   bool
		want   tool.ResultKind
	}{
		"the user is not connected": {before: &tool.NotConnected{Provider: "tickets"}, want: tool.KindConnection},
		"a secret is denied":        {before: tool.Errorf("The MCP server was not called"), want: tool.KindToolError},
		"the server is away":        {away: true, want: tool.KindToolError},
	} {
		s, paid := newPaidShop(t), &till{}
		s.before, s.away = c.before, c.away

		got := s.call(t, paid)

		if got.Kind != c.want || paid.asked.Load() != 0 || s.charged.Load() != 0 {
			t.Errorf("%s: got %+v, %d payments, %d calls", name, got, paid.asked.Load(), s.charged.Load())
		}
	}
}

// TestPaymentIsNarrated: the sentence about a call, which is in the question to a person who
// approves it, has amount and payee.
func TestPaymentIsNarrated(t *testing.T) {
	t.Parallel()
	s := newPaidShop(t)
	call := tool.Call{Session: "session_1", ID: "call_1", Tool: "shop__charge", Args: json.RawMessage(`{}`)}

	got := tool.Narrate(s.tool, call, tool.PhaseStarted, "en")

	if want := "Paying for charge, for 0.25 usd to shop.example.com"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPaymentOfAnEarlierExecution: a call that was paid and cut off before it was made is made when
// it runs again, with the payment that there is. A call that is not paid is not made, and an error
// of a paid call names the payment.
func TestPaymentOfAnEarlierExecution(t *testing.T) {
	t.Parallel()
	receipt := tool.PaymentReceipt{ID: "pay_0"}
	for name, c := range map[string]struct {
		err   error
		fails bool
		calls int64
		want  string // in the error; empty: it succeeds
	}{
		"paid":                  {calls: 1},
		"paid before":           {err: &tool.PaymentError{Code: tool.PaymentReplayed, Receipt: &receipt}, calls: 1},
		"paid, but not noted":   {err: &tool.PaymentError{Code: tool.PaymentUnknown, Receipt: &receipt}, calls: 1},
		"unknown":               {err: &tool.PaymentError{Code: tool.PaymentUnknown, Text: "who knows"}, want: "not made, because it was not paid: unknown: who knows"},
		"refused":               {err: &tool.PaymentError{Code: tool.PaymentRefused}, want: "not made"},
		"an error":              {fails: true, calls: 1, want: "paid with pay_1"},
		"an error, paid before": {err: &tool.PaymentError{Code: tool.PaymentReplayed, Receipt: &receipt}, fails: true, calls: 1, want: "paid with pay_0"},
	} {
		s := newPaidShop(t)
		s.fails = c.fails

		got := s.call(t, &till{err: c.err})

		if s.charged.Load() != c.calls || got.IsSuccess() != (c.want == "") || !strings.Contains(got.Text, c.want) {
			t.Errorf("%s: got %+v, %d calls", name, got, s.charged.Load())
		}
	}
}

// oneHandle holds the handle of one call.
type oneHandle struct {
	mcptool.Handles
	held      bool
	forgotten bool
}

func (h *oneHandle) Stored(context.Context, tool.Call) (mcptool.Handle, bool, error) {
	return mcptool.Handle{Server: "shop", Tool: "charge", TaskID: "t1"}, h.held, nil
}

func (h *oneHandle) Forget(context.Context, tool.Call) error { h.forgotten = true; return nil }

// TestPaymentToolSurvivesACrash: a paid call that its server turned into a task is found again
// after a crash and cleaned up in the end, as one without a price is. It cannot be sent again
// unpaid.
func TestPaymentToolSurvivesACrash(t *testing.T) {
	t.Parallel()
	s := newPaidShop(t)
	survivor, survives := s.tool.(tool.Adoptable)
	cleaner, cleans := s.tool.(tool.Cleaner)
	if !survives || !cleans {
		t.Fatalf("adoptable %t, cleaner %t", survives, cleans)
	}
	s.handles.held = true
	if found, err := survivor.Inspect(t.Context(), tool.Call{}); err != nil || found != perdure.RemainsAlive {
		t.Errorf("found %q, %v", found, err)
	}
	if err := cleaner.Clean(t.Context(), tool.Call{}); err != nil || !s.handles.forgotten {
		t.Errorf("the handle is kept: %v", err)
	}
	for name, unpaid := range map[string]bool{"reattach": is[tool.Reattacher](s.tool), "background": is[tool.Background](s.tool)} {
		if unpaid {
			t.Errorf("%s could send a call that is not paid", name)
		}
	}
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}
