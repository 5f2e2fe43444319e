package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// mcpRig is an engine behind /mcp, as in a server.
type mcpRig struct {
	t   *testing.T
	eng *local.Engine
	web *httptest.Server
}

func newMCPRig(t *testing.T) *mcpRig {
	t.Helper()
	st := memory.New(memory.Config{})
	type words struct {
		Text string `json:"text"`
	}
	echo := tool.New(tool.Spec{Name: "echo", Description: "Says it again.", Class: perdure.Pure}, func(_ context.Context, in words, _ tool.Env) (words, error) { return in, nil })
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: unavailableModel{}, Tools: tool.NewRegistry(echo), Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	cfg := api.Config{Token: "the token of the data directory", Keyring: access.NewKeyring(access.Config{Store: st, Root: "the token of the data directory"})}
	cfg.Engine, cfg.Log = access.NewGuard(eng, access.StoreOwners(st), access.MachineAccess{}, nil), slog.New(slog.DiscardHandler)
	made := newMCP(cfg.Engine, []string{"*"}, cfg)
	cfg.MCP = made
	handler, err := api.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &mcpRig{t: t, eng: eng, web: httptest.NewServer(handler)}
	t.Cleanup(func() { r.web.Close(); made.close(); stop(); <-ended; st.Close() })
	return r
}

// ask sends a request with the newest MCP protocol.
func (r *mcpRig) ask(secret, method, params string) (status int, body string) {
	r.t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},`
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, meta, params)
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.web.URL+"/mcp", strings.NewReader(text))
	if err != nil {
		r.t.Fatal(err)
	}
	var named struct {
		Name   string `json:"name"`
		TaskID string `json:"taskId"`
	}
	if err := json.Unmarshal([]byte("{"+params+"}"), &named); err != nil {
		r.t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Authorization": "Bearer " + secret, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": named.Name + named.TaskID,
	} {
		req.Header.Set(k, v)
	}
	res, err := r.web.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// TestAccessMCP: a token calls tools in a session of its own org, which no other token can see,
// within its scopes, until it is revoked or expires.
func TestAccessMCP(t *testing.T) {
	t.Parallel()
	r := newMCPRig(t)
	let := func(o engine.TokenRequest) engine.IssuedToken {
		t.Helper()
		made, err := r.eng.Tokens().Create(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	ada, eve := let(engine.TokenRequest{Name: "ada", Org: "acme"}), let(engine.TokenRequest{Name: "eve", Org: "evil"})
	reader := let(engine.TokenRequest{Name: "reader", Scopes: []string{engine.ScopeRead}})

	status, body := r.ask(ada.Secret, "tools/call", `"name":"echo","arguments":{"text":"mine"}`)
	if status != http.StatusOK || !strings.Contains(body, "mine") {
		t.Fatalf("got %d %s", status, body)
	}
	sessions, err := r.eng.Sessions().List(t.Context(), 0)
	if err != nil || len(sessions) != 1 || sessions[0].Org != "acme" {
		t.Fatalf("got %+v, %v", sessions, err)
	}
	calls, err := r.eng.Calls().List(t.Context(), sessions[0].ID)
	if err != nil || len(calls) != 1 {
		t.Fatalf("got %+v, %v", calls, err)
	}
	id, nobodys := "task_"+strings.TrimPrefix(string(calls[0].Key.Call), "call_"), "task_"+strings.Repeat("0", 32)
	handle := fmt.Sprintf(`"taskId":%q`, id)
	if _, body := r.ask(ada.Secret, "tasks/get", handle); !strings.Contains(body, `"completed"`) {
		t.Errorf("its own: %s", body)
	}
	_, foreign := r.ask(eve.Secret, "tasks/get", handle)
	_, unknown := r.ask(eve.Secret, "tasks/get", fmt.Sprintf(`"taskId":%q`, nobodys))
	if !strings.Contains(foreign, "-32602") || strings.ReplaceAll(foreign, id, "") != strings.ReplaceAll(unknown, nobodys, "") {
		t.Errorf("another's: %s; nobody's: %s", foreign, unknown)
	}
	if _, body := r.ask(reader.Secret, "tools/call", `"name":"echo","arguments":{"text":"a"}`); !strings.Contains(body, "does not have the scope write") {
		t.Errorf("without the scope: %s", body)
	}
	if _, err := r.eng.Tokens().Revoke(t.Context(), ada.ID, "user"); err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"revoked": ada.Secret, "wrong": ada.Secret + "x", "none": ""} {
		if status, body := r.ask(secret, "tasks/get", handle); status != http.StatusUnauthorized {
			t.Errorf("%s: got %d %s", name, status, body)
		}
	}
}
