package payment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// TestMain looks for goroutines that a payment left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bank is a payment server with its own ledger, which decides what was paid.
type bank struct {
	*httptest.Server
	meets func(w http.ResponseWriter, key string) bool // before it pays: false ends the request as it is; nil: it pays
	after func(w http.ResponseWriter, key string) bool // after it paid: false says nothing of it; nil: it says so

	mu   sync.Mutex
	book []entry // guarded by mu
}

// entry is an actual payment.
type entry struct {
	key, authorization string
	payment.Transfer
}

func newBank(t *testing.T) *bank {
	t.Helper()
	b := &bank{}
	b.Server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.Close)
	return b
}

func (b *bank) serve(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	b.mu.Lock()
	meets, after := b.meets, b.after
	b.mu.Unlock()
	if meets != nil && !meets(w, key) {
		return
	}
	var t payment.Transfer
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil || key == "" || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprint("what is this: ", err), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	// also a second time: it forgives no repetition
	b.book = append(b.book, entry{key, r.Header.Get("Authorization"), t})
	b.mu.Unlock()
	if after != nil && !after(w, key) {
		return
	}
	_, _ = fmt.Fprintf(w, `{"receipt":"r-%s"}`, key)
}

// at lets something happen before or after an order is put down in the book; nil: nothing.
func (b *bank) at(meets, after func(http.ResponseWriter, string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.meets, b.after = meets, after
}

// paid is what stands in the book.
func (b *bank) paid() []entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]entry(nil), b.book...)
}

// total adds up the book, in millionths.
func (b *bank) total() (sum int64) {
	for _, e := range b.paid() {
		sum += e.Amount.Micros
	}
	return sum
}

// drop ends a connection without an answer.
func drop(w http.ResponseWriter, _ string) bool {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
	return false
}

// world is a store with a session, and a bank.
type world struct {
	*testing.T
	store.Store
	bank    *bank
	session perdure.SessionID
	policy  payment.Policy
	asks    payment.Approver // nil: nobody is asked
	wait    time.Duration
	record  time.Duration
}

// eachStore runs a law over memory and SQLite.
func eachStore(t *testing.T, law func(*world)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New(memory.Config{}) },
		"sqlite": func(t *testing.T) store.Store {
			st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(newWorld(t, open(t)))
		})
	}
}

func newWorld(t *testing.T, st store.Store) *world {
	t.Helper()
	w := &world{T: t, Store: st, bank: newBank(t), policy: generous()}
	w.session = w.addSession(1, "")
	return w
}

// generous is a policy without approvals and with high limits.
func generous() payment.Policy {
	return payment.Policy{
		Capabilities: []string{"search"}, Hosts: []string{"api.example.com"},
		Caps: map[string]payment.Caps{"usd": {PerRequest: "1000", PerTurn: "100000", PerDay: "1000000", ApproveAbove: "1000"}},
	}
}

// addSession adds a session.
func (w *world) addSession(n byte, parent perdure.SessionID) perdure.SessionID {
	w.Helper()
	id := perdure.FormatID[perdure.SessionID]([16]byte{15: n})
	w.write(func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, Root: id, Parent: parent, Status: perdure.SessionStarted, CreatedAt: time.Now()})
	})
	return id
}

func (w *world) write(fn func(store.Tx) error) {
	w.Helper()
	if err := w.InTx(w.Context(), fn); err != nil {
		w.Fatal(err)
	}
}

// call claims a call of a paying tool.
func (w *world) call(session perdure.SessionID, turn perdure.TurnID, id perdure.CallID) tool.Call {
	w.Helper()
	args := json.RawMessage(`{}`)
	print, err := perdure.Fingerprint("buy", args)
	if err != nil {
		w.Fatal(err)
	}
	w.write(func(tx store.Tx) error {
		_, _, err := tx.Calls().Claim(perdure.Call{
			Key: perdure.CallKey{Session: session, Call: id}, Turn: turn, Tool: "buy", Args: args, Fingerprint: print, Class: perdure.AtMostOnce, Token: "token", Worker: "worker",
		}, func(perdure.WorkerID) bool { return true })
		return err
	})
	return tool.Call{Session: session, Turn: turn, ID: id, Tool: "buy", Args: args, Class: perdure.AtMostOnce, Execution: 1}
}

// authority is a payment authority over a store, with the bank behind real HTTP.
func (w *world) authority(st store.Store) *payment.Authority {
	w.Helper()
	wallet, err := payment.NewHTTP(w.bank.URL+"/pay", "Bearer operator")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(wallet.Close)
	yes := true
	a, err := payment.New(payment.Config{
		Store: st, Wallet: wallet, Policy: w.policy, Wait: w.wait, Record: w.record, Org: "own", Approver: w.asks,
		Spec: func(name string) (tool.Spec, bool) {
			spec := tool.Spec{Name: name, Class: perdure.AtMostOnce, Hints: tool.Hints{CapabilityID: "search"}}
			if name == "buy" {
				spec.Hints.Payment = &yes
			}
			return spec, true
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// order is one that the policy lets through.
func order(value, what string) tool.PaymentRequest {
	a, err := tool.ParseAmount(value, "usd")
	if err != nil {
		panic(err)
	}
	return tool.PaymentRequest{Host: "api.example.com", Operation: "buy", Amount: a, Parameters: json.RawMessage(fmt.Sprintf(`{"what":%q}`, what))}
}

// pay pays for a call.
func (w *world) pay(a *payment.Authority, call tool.Call, o tool.PaymentRequest) (tool.PaymentReceipt, error) {
	return a.For(call.Session, call).Pay(w.Context(), o)
}

// rows returns what the store knows, the newest first.
func (w *world) rows() (found []store.Payment) {
	w.Helper()
	err := w.View(context.Background(), func(r store.Reader) (err error) {
		found, err = r.Payments().List(store.PaymentFilter{})
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return found
}
