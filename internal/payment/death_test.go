package payment_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

func memoryStore() store.Store { return memory.New(memory.Config{}) }

// TestPaymentDeaths: the process dies at each call of the store: before it, after it, or after it
// without receiving the result. The next process never pays the same again unless nothing was paid,
// and counts unknown payments as paid.
func TestPaymentDeaths(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"InTx", "Session", "Call", "Payment", "PaymentSum", "AddPayment", "SettlePayment"} {
		for n := 1; n <= 2; n++ {
			for _, act := range []faulty.Act{faulty.Die, faulty.DieAfter, faulty.DieAfterReply} {
				t.Run(fmt.Sprint(method, n, act), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, memoryStore())
					w.policy.Caps["usd"] = payment.Caps{PerRequest: "1", PerTurn: "1", PerDay: "1", ApproveAbove: "1"}
					w.record = 100 * time.Millisecond
					call := w.call(w.session, "turn_1", "call_1")
					dying := faulty.New(w.Store, faulty.Nth(method, n, faulty.Fault{Act: act}))

					_, first := w.pay(w.authority(dying), call, order("1", "news"))
					paid := len(w.bank.paid())
					receipt, second := w.pay(w.authority(w), call, order("1", "news"))
					_, other := w.pay(w.authority(w), w.call(w.session, "turn_1", "call_2"), order("1", "more"))

					switch book := w.bank.paid(); {
					case len(book) > 1:
						t.Errorf("paid %d times: %v, then %+v, %v, then %v", len(book), first, receipt, second, other)
					case paid == 1 && second == nil:
						t.Errorf("paid before, and again: %+v", receipt)
					case len(book) == 0 && codeOf(second) != tool.PaymentInFlight && codeOf(second) != tool.PaymentUnknown:
						t.Errorf("nothing was paid, and the outcome is not unknown: %v, then %v", first, second)
					}
					if other == nil {
						t.Error("unknown payments exceeded the cap")
					}
					if dying.Dead() == (first == nil) && act != faulty.DieAfterReply {
						t.Errorf("dead %t, and %v", dying.Dead(), first)
					}
				})
			}
		}
	}
}

// TestPaymentFaults: the store fails, but the process survives. An attempt that was not recorded is
// not sent, and a payment that was sent is recorded late.
func TestPaymentFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n    int // of the transactions: 1 records the attempt, 2 its outcome
		act  faulty.Act
		paid int // by the order, before it is given again
	}{
		"the attempt is not recorded":          {1, faulty.Fail, 0},
		"the attempt is recorded, unheard of":  {1, faulty.DoAndTimeout, 0},
		"the outcome is not recorded at first": {2, faulty.Fail, 1},
		"the outcome is recorded, unheard of":  {2, faulty.DoAndTimeout, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, memoryStore())
			call := w.call(w.session, "turn_1", "call_1")
			sick := faulty.New(w.Store, faulty.Nth("InTx", c.n, faulty.Fault{Act: c.act}))

			_, first := w.pay(w.authority(sick), call, order("1", "news"))
			if n := len(w.bank.paid()); n != c.paid || (first == nil) != (n == 1) {
				t.Errorf("paid %d, want %d: %v", n, c.paid, first)
			}
			_, second := w.pay(w.authority(w), call, order("1", "news"))

			if n := len(w.bank.paid()); n != 1 || (second == nil) != (c.paid == 0) {
				t.Errorf("paid %d in the end: %v", n, second)
			}
			if rows := w.rows(); rows[0].State != store.PaymentPaid {
				t.Errorf("rows: %+v", rows)
			}
		})
	}
}

// TestPaymentCanceled: a call that is canceled before its payment is recorded pays nothing. One
// that is canceled while the wallet works hears the end of it.
func TestPaymentCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memoryStore())
	a, call := w.authority(w), w.call(w.session, "turn_1", "call_1")
	ctx, cancel := context.WithCancelCause(t.Context())
	w.bank.at(func(http.ResponseWriter, string) bool { cancel(perdure.CauseCanceled); return true }, nil)

	receipt, err := a.For(call.Session, call).Pay(ctx, order("1", "news"))
	_, late := a.For(call.Session, call).Pay(ctx, order("1", "more"))

	if err != nil || receipt.Text == "" || w.rows()[0].State != store.PaymentPaid {
		t.Errorf("while the wallet works: %+v, %v", receipt, err)
	}
	if !errors.Is(late, perdure.CauseCanceled) || len(w.rows()) != 1 || len(w.bank.paid()) != 1 {
		t.Errorf("before: %v, rows %+v", late, w.rows())
	}
}

// The environment of a process that pays and is killed.
const (
	killDir = "PERDURE_TEST_PAYMENT_DIR"
	killURL = "PERDURE_TEST_PAYMENT_URL"
)

// TestPaymentKilled: a process is killed, by signal 9, while the wallet works on its payment, which
// is made. The next one knows that it does not know, counts it, and does not pay again.
func TestPaymentKilled(t *testing.T) {
	t.Parallel()
	if url := os.Getenv(killURL); url != "" {
		payAndDie(t, url)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, b := t.TempDir(), newBank(t)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestPaymentKilled$")
	cmd.Env = append(os.Environ(), killDir+"="+dir, killURL+"="+b.URL)
	gate, killed := make(chan struct{}), make(chan struct{})
	b.at(nil, func(_ http.ResponseWriter, _ string) bool {
		close(gate)
		<-killed
		return false
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		<-gate
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		close(killed)
	}()
	<-killed

	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	w := &world{T: t, Store: st, bank: b, policy: generous(), session: perdure.FormatID[perdure.SessionID]([16]byte{15: 1})}
	w.policy.Caps["usd"] = payment.Caps{PerRequest: "1", PerTurn: "1", PerDay: "1", ApproveAbove: "1"}
	rows := w.rows()
	if len(rows) != 1 || rows[0].State != store.PaymentInFlight || len(b.paid()) != 1 || payment.IdempotencyKey(rows[0]) != b.paid()[0].key {
		t.Fatalf("rows %+v, book %+v", rows, b.paid())
	}
	call := tool.Call{Session: w.session, Turn: "turn_1", ID: "call_1", Tool: "buy", Args: []byte(`{}`), Class: perdure.AtMostOnce, Execution: 1}
	_, again := w.pay(w.authority(st), call, order("1", "news"))
	_, other := w.pay(w.authority(st), w.call(w.session, "turn_1", "call_2"), order("1", "more"))
	if codeOf(again) != tool.PaymentInFlight || codeOf(other) != tool.PaymentOverTurn || len(b.paid()) != 1 {
		t.Errorf("again %v, another %v, book %+v", again, other, b.paid())
	}
}

// payAndDie is the process that is killed.
func payAndDie(t *testing.T, url string) {
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: os.Getenv(killDir)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Store: st, bank: newBank(t), policy: generous()}
	w.bank.URL = url
	w.session = w.addSession(1, "")
	_, err = w.pay(w.authority(st), w.call(w.session, "turn_1", "call_1"), order("1", "news"))
	t.Fatalf("it lived on: %v", err)
}
