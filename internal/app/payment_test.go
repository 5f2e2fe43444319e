package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/examples/payments"
)

const paymentSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// shop is a data directory whose agents may buy from an MCP server, with a fake wallet.
type shop struct {
	t       *testing.T
	data    string
	model   string
	charged string
	wallet  *payments.Wallet
	silent  atomic.Bool // the wallet takes the money, and the connection ends before its answer
	denies  atomic.Bool // the authority says no
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, data: shortDir(t), wallet: &payments.Wallet{Authorization: "Bearer w4llet"}}
	script, charged, stay := dyingServer(t)
	authority, err := payments.NewAuthority(paymentSecret, func(payments.Question) (bool, string) { return !s.denies.Load(), "not on Sundays" })
	if err != nil {
		t.Fatal(err)
	}
	paths := http.NewServeMux()
	paths.HandleFunc("/pay", func(w http.ResponseWriter, r *http.Request) {
		if !s.silent.Load() {
			s.wallet.ServeHTTP(w, r)
			return
		}
		s.wallet.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	paths.Handle("/ask", authority)
	server := httptest.NewServer(paths)
	t.Cleanup(server.Close)
	s.charged, s.model = charged, filepath.Join(s.data, "buyer.yaml")
	for path, text := range map[string]string{
		stay: "",
		filepath.Join(s.data, "mcp.json"): fmt.Sprintf(`{"mcpServers": {"shop": {"command": "sh", "args": [%q],
			"prices": {"charge": {"amount": "0.25", "currency": "usd", "host": "shop.example.com"}}}}}`, script),
		filepath.Join(s.data, "payments.json"): fmt.Sprintf(`{
			"wallet": {"url": %q, "authorization": "Bearer ${SHOP_WALLET}"}, "authority": {"url": %q, "secret": "${SHOP_SECRET}"},
			"capabilities": ["mcp_shop"], "hosts": ["shop.example.com"],
			"caps": {"usd": {"per_request": "1", "per_turn": "2", "per_day": "5", "approve_above": "0.50"}}}`, server.URL+"/pay", server.URL+"/ask"),
		s.model: "steps:\n  - calls: [{name: shop__charge, args: {amount: 5}}]\n  - text: '{{last}}'\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// perdure runs the program, and returns stdout and stderr.
func (s *shop) perdure(args ...string) (string, error) {
	s.t.Helper()
	cmd := exec.Command("perdure", append([]string{"--data", s.data}, args...)...)
	cmd.Env = append(os.Environ(), "SHOP_WALLET=w4llet", "SHOP_SECRET="+paymentSecret)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// buy lets an agent buy, and returns what was said.
func (s *shop) buy() string {
	s.t.Helper()
	out, err := s.perdure("run", "--model", "scripted:"+s.model, "--capability", "mcp_shop", "buy")
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return out
}

// list returns the payments in a state.
func (s *shop) list(state string) (all []engine.Payment) {
	s.t.Helper()
	out, err := s.perdure("payment", "list", "--state", state, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return all
}

// TestPaymentOfMCPTool: a tool of an MCP server with a price is paid before it is called, only if
// the authority allows it, and nothing of the wallet is shown. A payment without an answer is
// unknown, and a person resolves it from the command line.
func TestPaymentOfMCPTool(t *testing.T) {
	t.Parallel()
	s := newShop(t)

	if out := s.buy(); !strings.Contains(out, "charged") {
		t.Fatalf("not bought: %s", out)
	}
	wantLines(t, s.charged, 1)
	paid := s.list("paid")
	if len(paid) != 1 || paid[0].Amount != "0.25" || paid[0].Tool != "shop__charge" || !strings.HasPrefix(paid[0].Receipt, "receipt for 0.25 usd") || len(s.wallet.Made()) != 1 {
		t.Fatalf("paid %+v, the wallet made %v", paid, s.wallet.Made())
	}

	s.denies.Store(true)
	if out := s.buy(); !strings.Contains(out, "not on Sundays") || len(s.wallet.Made()) != 1 {
		t.Errorf("denied: %s; the wallet made %v", out, s.wallet.Made())
	}
	s.denies.Store(false)
	wantLines(t, s.charged, 1)

	s.silent.Store(true)
	if out := s.buy(); !strings.Contains(out, "it is unknown whether payment") {
		t.Errorf("no answer: %s", out)
	}
	wantLines(t, s.charged, 1)
	unknown := s.list("unknown")
	if len(unknown) != 1 || len(s.wallet.Made()) != 2 {
		t.Fatalf("unknown %+v, the wallet made %v", unknown, s.wallet.Made())
	}
	id := unknown[0].ID
	shown, err := s.perdure("payment", "show", id[:20])
	if err != nil || !strings.Contains(shown, "payment resolve --data "+s.data+" "+id+" --happened") {
		t.Errorf("%v: %s", err, shown)
	}
	if out, err := s.perdure("payment", "resolve", id[:20]); err == nil {
		t.Errorf("resolved without an outcome: %s", out)
	}
	if out, err := s.perdure("payment", "resolve", id, "--did-not-happen", "--receipt", "r"); err == nil || !strings.Contains(out, "--receipt requires --happened") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := s.perdure("payment", "resolve", id[:20], "--happened", "--receipt", "in the list of the wallet", "--note", "looked it up"); err != nil || !strings.Contains(out, "resolved "+id) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := s.perdure("payment", "resolve", id, "--did-not-happen"); err == nil || !strings.Contains(out, "it is paid") {
		t.Errorf("resolved again: %v: %s", err, out)
	}
	if out, err := s.perdure("audit", "list", "--action", "payment.resolved"); err != nil || !strings.Contains(out, id[:20]) {
		t.Errorf("the audit log: %v: %s", err, out)
	}
	for _, command := range [][]string{{"event", "list", "last", "-o", "jsonl"}, {"payment", "list", "-o", "json"}} {
		out, err := s.perdure(command...)
		if err != nil || strings.Contains(out, "w4llet") || strings.Contains(out, "MfKQ9r8") {
			t.Errorf("%v shows a secret: %v", command, err)
		}
	}
}

// TestPaymentsFile: a file that cannot be used is refused at the start, with what is wrong.
func TestPaymentsFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":         {`{`, "payments.json"},
		"unknown field":    {`{"walet": {}}`, "walet"},
		"no wallet":        {`{"hosts": []}`, "payment URL"},
		"secret in clear":  {`{"wallet": {"url": "http://127.0.0.1:9/", "authorization": "Bearer abc"}}`, "write ${NAME} here"},
		"missing variable": {`{"wallet": {"url": "http://127.0.0.1:9/", "authorization": "Bearer ${NOT_SET_HERE}"}}`, "NOT_SET_HERE, which is not set"},
		"missing cap":      {`{"wallet": {"url": "http://127.0.0.1:9/"}, "caps": {"usd": {"per_request": "1", "per_day": "5"}}}`, `payments.json: payment policy: invalid caps of "usd": per_turn is missing`},
		"bad cap":          {`{"wallet": {"url": "http://127.0.0.1:9/"}, "caps": {"usd": {"per_request": "much"}}}`, "per_request"},
	} {
		data := shortDir(t)
		if err := os.WriteFile(filepath.Join(data, "payments.json"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("perdure", "--data", data, "session", "new", "--model", "scripted:"+os.DevNull).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "Bearer abc") {
			t.Errorf("%s: got %v: %s, want %s", name, err, out, c.want)
		}
	}
}
