package payment_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// codeOf is the code of a refusal; empty: it is none.
func codeOf(err error) string {
	var refused *tool.PaymentError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// TestPaymentIsMade: the wallet receives the order, under a key, and the row has the outcome.
func TestPaymentIsMade(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		a, o := w.authority(w), order("1.25", "news")
		o.Host = "API.Example.COM."

		receipt, err := w.pay(a, w.call(w.session, "turn_1", "call_1"), o)

		if err != nil || receipt.Amount != o.Amount || receipt.Text != `{"receipt":"r-`+receipt.ID+`"}` {
			w.Fatalf("got %+v, %v", receipt, err)
		}
		book := w.bank.paid()
		if len(book) != 1 || book[0].key != receipt.ID || book[0].Host != "api.example.com" || book[0].Capability != "search" || book[0].Operation != "buy" ||
			book[0].Amount != o.Amount || string(book[0].Parameters) != `{"what":"news"}` || book[0].authorization != "Bearer operator" {
			w.Errorf("book: %+v", book)
		}
		rows := w.rows()
		if len(rows) != 1 || rows[0].State != store.PaymentPaid || rows[0].Receipt != receipt.Text || rows[0].Micros != 1_250_000 || payment.IdempotencyKey(rows[0]) != receipt.ID ||
			rows[0].Turn != "turn_1" || rows[0].Session != w.session || rows[0].Call != "call_1" {
			w.Errorf("rows: %+v", rows)
		}
	})
}

// TestPaymentCaps: of a hundred concurrent payments by many calls in several turns, the actual
// payments never exceed a cap, and reach it (PA1).
func TestPaymentCaps(t *testing.T) {
	t.Parallel()
	const turns, each = 4, 25
	eachStore(t, func(w *world) {
		w.policy.Caps["usd"] = payment.Caps{PerRequest: "1", PerTurn: "10", PerDay: "33", ApproveAbove: "1"}
		a := w.authority(w)
		var group sync.WaitGroup
		codes := make(chan string, turns*each)
		for turn := range turns {
			for n := range each {
				call := w.call(w.session, perdure.TurnID(fmt.Sprint("turn_", turn)), perdure.CallID(fmt.Sprintf("call_%d_%d", turn, n)))
				group.Go(func() {
					_, err := w.pay(a, call, order("1", "one"))
					codes <- codeOf(err)
				})
			}
		}
		group.Wait()
		close(codes)

		got, byTurn := map[string]int{}, map[string]int64{}
		for code := range codes {
			got[code]++
		}
		for _, row := range w.rows() {
			byTurn[row.Turn] += row.Micros
		}
		if total := w.bank.total(); total != 33_000_000 || len(w.bank.paid()) != 33 || got[""] != 33 {
			w.Errorf("%d millionths were paid, in %d payments, and %v; want 33 of one each", total, len(w.bank.paid()), got)
		}
		for turn, sum := range byTurn {
			if sum > 10_000_000 {
				w.Errorf("%s paid %d millionths, over its 10", turn, sum)
			}
		}
		if got[tool.PaymentOverTurn]+got[tool.PaymentOverDay] != turns*each-33 {
			w.Errorf("refusals: %v", got)
		}
		if _, err := w.pay(a, w.call(w.session, "turn_9", "call_big"), order("1.000001", "one")); codeOf(err) != tool.PaymentOverRequest || !errors.Is(err, perdure.Limit) {
			w.Errorf("over a request: %v", err)
		}
	})
}

// TestPaymentReplay: the same order of the same call is paid once, however often and however many
// at once ask, and the refusal has the first receipt. Another order, and another call, is another
// payment (PA2).
func TestPaymentReplay(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		a, call := w.authority(w), w.call(w.session, "turn_1", "call_1")
		receipts, errs := make([]tool.PaymentReceipt, 20), make([]error, 20)
		var group sync.WaitGroup
		for i := range receipts {
			group.Go(func() { receipts[i], errs[i] = w.pay(a, call, order("1", "news")) })
		}
		group.Wait()

		var first tool.PaymentReceipt
		for i, err := range errs {
			switch code := codeOf(err); {
			case err == nil && first.ID == "":
				first = receipts[i]
			case err == nil:
				w.Errorf("paid twice: %+v and %+v", first, receipts[i])
			case code != tool.PaymentInFlight && code != tool.PaymentReplayed:
				w.Errorf("got %v", err)
			}
		}
		if first.ID == "" || len(w.bank.paid()) != 1 {
			w.Fatalf("book: %+v", w.bank.paid())
		}

		same := order("1", "news")
		same.Parameters = []byte("{ \"what\" : \"\\u006eews\" }")
		_, err := w.pay(w.authority(w), call, same) // as another process would
		var refused *tool.PaymentError
		if !errors.As(err, &refused) || refused.Code != tool.PaymentReplayed || refused.Receipt == nil || *refused.Receipt != first || !errors.Is(err, perdure.Conflict) {
			w.Errorf("again: %v with %+v, want the receipt %+v", err, refused, first)
		}
		if len(w.bank.paid()) != 1 {
			w.Errorf("book: %+v", w.bank.paid())
		}

		_, other := w.pay(a, call, order("1", "weather"))
		_, another := w.pay(a, w.call(w.session, "turn_1", "call_2"), order("1", "news"))
		if err := errors.Join(other, another); err != nil || len(w.bank.paid()) != 3 {
			w.Errorf("other payments: %v, book %+v", err, w.bank.paid())
		}
	})
}

// TestPaymentRefusedByTheWallet: what surely was not paid counts for nothing, and may be ordered
// again, under another key.
func TestPaymentRefusedByTheWallet(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		w.policy.Caps["usd"] = payment.Caps{PerRequest: "1", PerTurn: "1", PerDay: "1", ApproveAbove: "1"}
		a, call := w.authority(w), w.call(w.session, "turn_1", "call_1")
		var keys []string
		w.bank.at(func(rw http.ResponseWriter, key string) bool {
			keys = append(keys, key)
			http.Error(rw, "no funds", http.StatusPaymentRequired)
			return false
		}, nil)
		_, err := w.pay(a, call, order("1", "news"))
		// the wallet's words are not for a model (PA1)
		if codeOf(err) != tool.PaymentRefused || strings.Contains(err.Error(), "no funds") {
			w.Fatalf("got %v", err)
		}

		w.bank.at(nil, nil)
		receipt, err := w.pay(a, call, order("1", "news"))

		if err != nil || len(w.bank.paid()) != 1 || len(keys) != 1 || keys[0] == receipt.ID {
			w.Errorf("got %+v, %v, after %v; book %+v", receipt, err, keys, w.bank.paid())
		}
		if rows := w.rows(); len(rows) != 2 || rows[1].State != store.PaymentRefused || !strings.Contains(rows[1].Note, "no funds") || rows[0].Attempt != 2 {
			w.Errorf("rows: %+v", rows)
		}
	})
}

// TestPaymentAnswerLost: an unknown payment counts as paid, is not paid again, and can be resolved
// later.
func TestPaymentAnswerLost(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		w.policy.Caps["usd"] = payment.Caps{PerRequest: "2", PerTurn: "2", PerDay: "2", ApproveAbove: "2"}
		a, call := w.authority(w), w.call(w.session, "turn_1", "call_1")
		w.bank.at(nil, drop)
		_, err := w.pay(a, call, order("1.5", "news"))
		if codeOf(err) != tool.PaymentUnknown || !errors.Is(err, perdure.UnknownOutcome) || len(w.bank.paid()) != 1 {
			w.Fatalf("got %v, book %+v", err, w.bank.paid())
		}
		w.bank.at(nil, nil)

		_, again := w.pay(a, call, order("1.5", "news"))
		_, more := w.pay(a, w.call(w.session, "turn_1", "call_2"), order("1", "news"))
		_, day := w.pay(a, w.call(w.session, "turn_2", "call_3"), order("1", "news"))
		if codeOf(again) != tool.PaymentUnknown || codeOf(more) != tool.PaymentOverTurn || codeOf(day) != tool.PaymentOverDay || len(w.bank.paid()) != 1 {
			w.Errorf("again %v, more %v, on that day %v; book %+v", again, more, day, w.bank.paid())
		}

		unknown := w.rows()
		if len(unknown) != 1 || unknown[0].State != store.PaymentUnknown {
			w.Fatalf("unknown: %+v", unknown)
		}
		found := payment.Resolution{Hash: unknown[0].Hash, Paid: true, Receipt: "by mail"}
		if _, err := payment.Resolve(w.Context(), w, found); !errors.Is(err, perdure.Invalid) {
			w.Errorf("resolved without a name: %v", err)
		}
		found.By = "ann"
		row, err := payment.Resolve(w.Context(), w, found)
		if err != nil || row.State != store.PaymentPaid || row.ResolvedBy != "ann" {
			w.Errorf("resolved: %+v, %v", row, err)
		}
		if _, err := payment.Resolve(w.Context(), w, found); !errors.Is(err, perdure.Conflict) {
			w.Errorf("resolved again: %v", err)
		}
		var replayed *tool.PaymentError
		if _, err := w.pay(a, call, order("1.5", "news")); !errors.As(err, &replayed) || replayed.Receipt == nil || replayed.Receipt.Text != "by mail" {
			w.Errorf("again: %v", err)
		}
	})
}

// TestPaymentNeedsApproval: over the threshold, only the very call that a person approved, with
// those arguments, pays.
func TestPaymentNeedsApproval(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		w.policy.Caps["usd"] = payment.Caps{PerRequest: "9", PerTurn: "99", PerDay: "99", ApproveAbove: "1"}
		a := w.authority(w)
		for i, c := range []struct {
			change func(*perdure.Approval)
			paid   bool
		}{
			{nil, false},
			{func(*perdure.Approval) {}, true},
			{func(p *perdure.Approval) { p.State = perdure.ApprovalOpen }, false},
			{func(p *perdure.Approval) { p.State = perdure.ApprovalDenied }, false},
			{func(p *perdure.Approval) { p.ArgsHash = "of others" }, false},
			{func(p *perdure.Approval) { p.ArgsHash, p.NewArgs = "of others", []byte(`{ }`) }, true},
			{func(p *perdure.Approval) { p.NewArgs = []byte(`{"a":1}`) }, false},
			{func(p *perdure.Approval) { p.Call = "call_other" }, false},
			{func(p *perdure.Approval) { p.Tool = "sell" }, false},
			{func(p *perdure.Approval) { p.DecidedBy = "" }, false},
		} {
			id := perdure.CallID(fmt.Sprint("call_", i))
			call := w.call(w.session, "turn_1", id)
			print, err := perdure.Fingerprint("buy", call.Args)
			if err != nil {
				w.Fatal(err)
			}
			if c.change != nil {
				asked := perdure.Approval{
					ID: perdure.FormatID[perdure.ApprovalID]([16]byte{15: byte(i)}), Session: w.session, Call: id, Tool: "buy", Args: call.Args, ArgsHash: print,
					State: perdure.ApprovalApproved, DecidedBy: "ann",
				}
				c.change(&asked)
				w.write(func(tx store.Tx) error { return tx.Approvals().Put(asked) })
			}
			before := len(w.bank.paid())

			_, err = w.pay(a, call, order("1.5", "news"))

			if paid := len(w.bank.paid()) > before; paid != c.paid || paid != (err == nil) || !paid && codeOf(err) != tool.PaymentNeedsApproval {
				w.Errorf("case %d: %v, paid %t, want %t", i, err, paid, c.paid)
			}
			if c.paid && w.rows()[0].ApprovedBy != "ann" {
				w.Errorf("case %d: %+v", i, w.rows()[0])
			}
		}
	})
}

// TestPaymentOfATree: what a subagent pays counts for the turn of the root that it goes back to.
func TestPaymentOfATree(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		w.policy.Caps["usd"] = payment.Caps{PerRequest: "1", PerTurn: "1.5", PerDay: "99", ApproveAbove: "1"}
		a, child := w.authority(w), w.addSession(2, w.session)
		asked := w.call(w.session, "turn_1", "call_spawn")
		w.write(func(tx store.Tx) error {
			key := perdure.CallKey{Session: w.session, Call: asked.ID}
			_, _, err := tx.Spawns().Claim(store.Spawn{Key: key, Root: w.session, Depth: 1, Name: "n", Token: "t"})
			return errors.Join(err, tx.Spawns().RegisterChild(key, "t", child))
		})
		if _, err := w.pay(a, w.call(w.session, "turn_1", "call_1"), order("1", "news")); err != nil {
			w.Fatal(err)
		}

		_, inside := w.pay(a, w.call(child, "turn_of_the_child", "call_2"), order("1", "news"))
		_, outside := w.pay(a, w.call(w.session, "turn_2", "call_3"), order("1", "news"))

		if codeOf(inside) != tool.PaymentOverTurn || outside != nil {
			w.Errorf("within the turn: %v; in the next: %v", inside, outside)
		}
	})
}

// TestPaymentOrders: an invalid order is refused before anything is recorded, and so is a call that
// may not pay.
func TestPaymentOrders(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		a, call := w.authority(w), w.call(w.session, "turn_1", "call_1")
		for name, spoil := range map[string]func(*tool.PaymentRequest){
			"no host":            func(o *tool.PaymentRequest) { o.Host = "" },
			"a URL":              func(o *tool.PaymentRequest) { o.Host = "https://api.example.com" },
			"a port":             func(o *tool.PaymentRequest) { o.Host = "api.example.com:8080" },
			"a path":             func(o *tool.PaymentRequest) { o.Host = "api.example.com/x" },
			"a user":             func(o *tool.PaymentRequest) { o.Host = "evil@api.example.com" },
			"a query":            func(o *tool.PaymentRequest) { o.Host = "api.example.com?" },
			"a fragment":         func(o *tool.PaymentRequest) { o.Host = "api.example.com#evil.example" },
			"no operation":       func(o *tool.PaymentRequest) { o.Operation = "" },
			"nothing":            func(o *tool.PaymentRequest) { o.Amount.Micros = 0 },
			"a debt":             func(o *tool.PaymentRequest) { o.Amount.Micros = -5 },
			"an odd currency":    func(o *tool.PaymentRequest) { o.Amount.Currency = "US$" },
			"broken parameters":  func(o *tool.PaymentRequest) { o.Parameters = []byte(`{"a":`) },
			"doubled parameters": func(o *tool.PaymentRequest) { o.Parameters = []byte(`{"a":1,"a":2}`) },
			"a list":             func(o *tool.PaymentRequest) { o.Parameters = []byte(`[]`) },
		} {
			o := order("1", "news")
			spoil(&o)
			if _, err := w.pay(a, call, o); codeOf(err) != tool.PaymentInvalid || !errors.Is(err, perdure.Invalid) {
				w.Errorf("%s: got %v", name, err)
			}
		}
		gentle := call
		gentle.Class = perdure.Idempotent
		if _, err := w.pay(a, gentle, order("1", "news")); codeOf(err) != tool.PaymentUndeclared {
			w.Errorf("an idempotent call: %v", err)
		}
		look := call
		look.Tool = "look"
		if p := a.For(w.session, look); p != nil {
			w.Errorf("a tool without the hint has %v", p)
		}
		if len(w.rows())+len(w.bank.paid()) != 0 {
			w.Errorf("rows %+v, book %+v", w.rows(), w.bank.paid())
		}
	})
}

// TestPaymentOfAnOldOwner: a call that is settled or unknown, and an attempt that was superseded,
// pay nothing.
func TestPaymentOfAnOldOwner(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		a, call := w.authority(w), w.call(w.session, "turn_1", "call_1")
		w.write(func(tx store.Tx) error {
			return tx.Calls().Settle(perdure.CallKey{Session: w.session, Call: call.ID}, "token", perdure.CallUnknown, perdure.ToolResult{CallID: call.ID})
		})

		_, err := w.pay(a, call, order("1", "news"))
		unknown := call
		unknown.ID = "call_never"
		_, never := w.pay(a, unknown, order("1", "news"))

		if !errors.Is(err, perdure.Lost) || !errors.Is(never, perdure.NotFound) || len(w.rows())+len(w.bank.paid()) != 0 {
			w.Errorf("got %v and %v; rows %+v, book %+v", err, never, w.rows(), w.bank.paid())
		}
	})
}

// TestWalletAnswers: responses of a payment server and the resulting errors. Only a response after
// which certainly no money moved is a refusal.
func TestWalletAnswers(t *testing.T) {
	t.Parallel()
	status := func(code int) func(*bank) {
		return func(b *bank) {
			b.at(nil, func(rw http.ResponseWriter, _ string) bool {
				rw.Header().Set("Location", "/elsewhere")
				rw.WriteHeader(code)
				return false
			})
		}
	}
	for name, c := range map[string]struct {
		set  func(*bank)
		want string
	}{
		"200":        {status(200), ""},
		"201":        {status(201), ""},
		"202":        {status(202), tool.PaymentUnknown},
		"a redirect": {status(307), tool.PaymentUnknown},
		"400":        {status(400), tool.PaymentRefused},
		"402":        {status(402), tool.PaymentRefused},
		"403":        {status(403), tool.PaymentRefused},
		"408":        {status(408), tool.PaymentUnknown},
		"409":        {status(409), tool.PaymentUnknown},
		"425":        {status(425), tool.PaymentUnknown},
		"429":        {status(429), tool.PaymentUnknown},
		"500":        {status(500), tool.PaymentUnknown},
		"503":        {status(503), tool.PaymentUnknown},
		"no answer":  {func(b *bank) { b.at(nil, drop) }, tool.PaymentUnknown},
		"no server":  {func(b *bank) { b.Close() }, tool.PaymentRefused},
		"half a receipt": {func(b *bank) {
			b.at(nil, func(rw http.ResponseWriter, _ string) bool {
				rw.Header().Set("Content-Length", "100")
				_, _ = rw.Write([]byte("rec"))
				return false
			})
		}, tool.PaymentUnknown},
		"too late": {func(b *bank) {
			b.at(nil, func(_ http.ResponseWriter, _ string) bool { <-time.After(200 * time.Millisecond); return true })
		}, tool.PaymentUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, memoryStore())
			w.wait = 10 * time.Second
			if name == "too late" {
				w.wait = 50 * time.Millisecond
			}
			c.set(w.bank)

			_, err := w.pay(w.authority(w), w.call(w.session, "turn_1", "call_1"), order("1", "news"))

			if codeOf(err) != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			for _, row := range w.rows() {
				if strings.Contains(row.Note, "://") {
					t.Errorf("the note reveals where the wallet is: %s", row.Note)
				}
			}
			if n := len(w.bank.paid()); n > 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
