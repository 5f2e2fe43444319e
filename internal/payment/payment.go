// Package payment is the authority by which tools pay: a policy, a row for every attempt, and a wallet that moves the money.
//
//	order ── policy ── replay, caps, approval, attempt: one transaction ── wallet ── outcome
//	          PA1              PA1, PA2: in flight from here on             paid, refused, or unknown
//
// It may import the root, store, tool and internal/egress. The one thing to know: the attempt is committed before the wallet
// is asked, and an attempt whose answer is not known counts as paid and is never made again. So a death between any two steps
// may leave money that nobody is sure about, and says so; it never pays twice.
package payment

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The clocks of an attempt.
const (
	defaultWait   = 30 * time.Second
	defaultRecord = 30 * time.Second
	day           = 24 * time.Hour // of a cap
)

// Config is what an Authority is made of. Store and Wallet are required.
type Config struct {
	Store  store.Store
	Wallet Wallet
	Policy Policy
	Org    string        // whose caps count for sessions of the default org; empty: its own
	Wait   time.Duration // for the wallet's answer, then nobody knows; 0: 30 s
	Record time.Duration // for what is written before and after it, while the store is not available; 0: 30 s
	// Spec returns what a tool says of itself: what it may pay for is its own word, not an order's. nil: no tool is known.
	Spec func(name string) (tool.Spec, bool)
	Log  *slog.Logger // nil: discarded
}

// Authority pays. Safe for concurrent use.
type Authority struct {
	cfg   Config
	rules rules
}

// New checks the configuration. Invalid: what is wrong with it.
func New(cfg Config) (*Authority, error) {
	if cfg.Store == nil || cfg.Wallet == nil {
		return nil, fmt.Errorf("%w payment configuration: a store and a wallet are required", perdure.Invalid)
	}
	if cfg.Wait <= 0 {
		cfg.Wait = defaultWait
	}
	if cfg.Record <= 0 {
		cfg.Record = defaultRecord
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	rules, err := cfg.Policy.read()
	if err != nil {
		return nil, err
	}
	return &Authority{cfg: cfg, rules: rules}, nil
}

// For returns the port of a call; nil: its tool does not say that it pays.
func (a *Authority) For(session perdure.SessionID, call tool.Call) tool.Payments {
	if a.cfg.Spec == nil {
		return nil
	}
	spec, known := a.cfg.Spec(call.Tool)
	if !known || !spec.Pays() {
		return nil
	}
	return port{a: a, session: session, call: call, capability: spec.Hints.CapabilityID}
}

// port is the authority as one call reaches it.
type port struct {
	a       *Authority
	session perdure.SessionID
	call    tool.Call

	capability string // of the tool, in its own word
}

var _ tool.Payments = port{}

// Pay carries out one order.
func (p port) Pay(ctx context.Context, o tool.PaymentOrder) (tool.PaymentReceipt, error) {
	attempt, err := p.check(&o)
	if err != nil {
		p.a.cfg.Log.Info("a payment was refused", "session", p.session, "call", p.call.ID, "tool", p.call.Tool, "why", err)
		return tool.PaymentReceipt{}, err
	}
	if ctx.Err() != nil {
		return tool.PaymentReceipt{}, context.Cause(ctx)
	}
	until := time.Now().Add(p.a.cfg.Wait + p.a.cfg.Record) // from then on the attempt is unknown, and somebody may say that it was not made
	attempt, err = p.reserve(ctx, attempt, o)
	if err != nil {
		p.a.cfg.Log.Info("a payment was refused", "session", p.session, "call", p.call.ID, "tool", p.call.Tool, "payment", attempt.Hash, "why", err)
		return tool.PaymentReceipt{}, err
	}
	return p.a.carryOut(ctx, attempt, o, until)
}

// check looks at an order without the store, brings its parameters into their one form, and makes the attempt of it.
func (p port) check(o *tool.PaymentOrder) (store.Payment, error) {
	if p.call.Class != perdure.AtMostOnce { // claimed by an earlier program
		return store.Payment{}, refuse(tool.PaymentUndeclared, "the call of %s is %s: only one that is at most once may pay", p.call.Tool, p.call.Class)
	}
	if err := checkOrder(o); err != nil {
		return store.Payment{}, refuse(tool.PaymentInvalid, "%s", err)
	}
	if refused := p.a.rules.admits(p.capability, *o); refused != nil {
		return store.Payment{}, refused
	}
	hash, err := p.hash(*o)
	if err != nil {
		return store.Payment{}, refuse(tool.PaymentInvalid, "%s", err)
	}
	return store.Payment{
		Hash: hash, Attempt: 1, Token: newToken(), Org: p.a.cfg.Org, Session: p.session, Call: p.call.ID, Tool: p.call.Tool,
		Capability: p.capability, Host: o.Host, Operation: o.Operation, Currency: o.Amount.Currency, Micros: o.Amount.Micros,
	}, nil
}

// checkOrder brings an order into its one form: the host in lower case, the parameters canonical.
func checkOrder(o *tool.PaymentOrder) error {
	if err := o.Amount.Check(); err != nil {
		return err
	}
	u, err := perdure.NormalURL("https://" + o.Host + "/")
	if err != nil || u.Host != u.Hostname() || u.Path != "/" || u.RawQuery != "" || !strings.EqualFold(strings.TrimSuffix(o.Host, "."), u.Host) {
		return fmt.Errorf("%w host %.80q: write a name alone, for instance api.example.com", perdure.Invalid, o.Host)
	}
	if o.Operation == "" || len(o.Operation) > store.MaxPaymentBytes {
		return fmt.Errorf("%w operation of %d bytes: it has 1 to %d", perdure.Invalid, len(o.Operation), store.MaxPaymentBytes)
	}
	o.Host = u.Host
	if o.Parameters, err = perdure.CanonicalJSON(o.Parameters); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if o.Parameters[0] != '{' {
		return fmt.Errorf("%w parameters: write an object", perdure.Invalid)
	}
	return nil
}

// hash tells a request from every other one.
func (p port) hash(o tool.PaymentOrder) (string, error) {
	text, err := json.Marshal(map[string]any{
		"session": p.session, "call": p.call.ID, "capability": p.capability, "host": o.Host, "operation": o.Operation,
		"amount": o.Amount, "parameters": o.Parameters,
	})
	if err == nil {
		text, err = perdure.CanonicalJSON(text)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// reserve records the attempt, if nothing stands against it, in the transaction that looked. After an error nothing is sent.
func (p port) reserve(ctx context.Context, attempt store.Payment, o tool.PaymentOrder) (store.Payment, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.a.cfg.Record)
	defer cancel()
	var recorded store.Payment
	err := p.a.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		attempt.Turn, err = p.turn(r)
		return err
	})
	if err == nil {
		err = p.a.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			recorded, err = p.record(tx, attempt, o)
			return err
		})
	}
	if err == nil || said(err) {
		return recorded, err
	}
	p.a.giveBack(ctx, attempt)
	return recorded, fmt.Errorf("record a payment: %w; nothing was paid", err)
}

// said reports whether an error is an answer, after which nothing was written, and not a store whose answer was lost.
func said(err error) bool {
	var refused *tool.PaymentError
	return errors.As(err, &refused) || errors.Is(err, perdure.Lost) || errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid)
}

// record looks at what stands, and adds the attempt.
func (p port) record(tx store.Tx, attempt store.Payment, o tool.PaymentOrder) (store.Payment, error) {
	if _, err := tx.Session(p.session); err != nil {
		return attempt, err
	}
	row, err := p.own(tx)
	if err != nil {
		return attempt, err
	}
	session, err := tx.Session(p.session)
	if err != nil {
		return attempt, err
	}
	attempt.Org = cmp.Or(session.Org, attempt.Org)
	last, err := tx.Payment(attempt.Hash)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return attempt, err
	}
	if refused := replayed(last); refused != nil {
		return attempt, refused
	}
	attempt.Attempt = last.Attempt + 1
	if p.a.rules.asks(o) {
		if attempt.ApprovedBy, err = p.approver(tx, row); err != nil {
			return attempt, err
		}
	}
	var s spent
	scope := store.PaymentScope{Org: attempt.Org, Currency: attempt.Currency, Turn: attempt.Turn}
	if s.turn, err = tx.PaymentSum(scope); err != nil {
		return attempt, err
	}
	scope.Turn, scope.Since = "", tx.Now().Add(-day)
	if s.day, err = tx.PaymentSum(scope); err != nil {
		return attempt, err
	}
	if refused := p.a.rules.fits(o, s, attempt.ApprovedBy); refused != nil {
		return attempt, refused
	}
	return tx.AddPayment(attempt, p.a.cfg.Wait+p.a.cfg.Record)
}

// own returns the call's row in the ledger. Lost: the call, or its attempt of a task, is not the one that runs.
func (p port) own(tx store.Tx) (perdure.Call, error) {
	row, err := tx.Call(perdure.CallKey{Session: p.session, Call: p.call.ID})
	if err == nil && row.State != perdure.CallRunning {
		err = fmt.Errorf("call %s: %w: it is %s", row.Key, perdure.Lost, row.State)
	}
	if err == nil && p.call.Task != "" {
		var task perdure.Task
		if task, err = tx.Task(p.session, p.call.Task); err == nil && task.Attempt != p.call.Attempt {
			err = fmt.Errorf("task %s, attempt %d: %w: attempt %d has it", task.ID, p.call.Attempt, perdure.Lost, task.Attempt)
		}
	}
	return row, err
}

// approver is the person who approved this very call, with the arguments that it runs with; empty: nobody did.
func (p port) approver(tx store.Tx, row perdure.Call) (string, error) {
	filter := store.ApprovalFilter{Session: p.session, State: perdure.ApprovalApproved}
	if row.Task == "" {
		filter.Call = p.call.ID
	}
	found, err := tx.Approvals(filter)
	if err != nil {
		return "", err
	}
	for _, a := range found {
		own := a.Call == p.call.ID && (a.Task == "" || a.Task == row.Task) || row.Task != "" && a.Task == row.Task
		hash := a.ArgsHash
		if len(a.NewArgs) > 0 { // with these instead (AP5)
			if hash, err = perdure.Fingerprint(a.Tool, a.NewArgs); err != nil {
				return "", err
			}
		}
		if own && a.Tool == row.Tool && hash == row.Fingerprint && a.By != "" {
			return a.By, nil
		}
	}
	return "", nil
}

// turn is whose cap the call counts for: the turn of the root of the tree that it goes back to, else the work itself.
func (p port) turn(r store.Reader) (string, error) {
	session, turn := p.session, string(p.call.Turn)
	if turn == "" {
		turn = string(p.call.Task)
	}
	if turn == "" {
		turn = string(p.call.ID)
	}
	for {
		handle, err := r.SpawnOf(session)
		if errors.Is(err, perdure.NotFound) {
			return turn, nil
		}
		if err != nil {
			return "", err
		}
		asked, err := r.Call(handle.Key)
		if err != nil {
			return "", err
		}
		session = handle.Key.Session
		if asked.Turn != "" {
			turn = string(asked.Turn)
		}
	}
}

// replayed is the refusal of a request that was made before; nil: it was not, or it was refused.
func replayed(last store.Payment) *tool.PaymentError {
	switch last.State {
	case store.PaymentPaid:
		receipt := receiptOf(last)
		return &tool.PaymentError{Code: tool.PaymentReplayed, Text: "this was paid before, with the payment " + receipt.ID, Receipt: &receipt}
	case store.PaymentInFlight:
		return refuse(tool.PaymentInFlight, "this is being paid right now, with the payment %s", IDOf(last))
	case store.PaymentUnknown:
		return refuse(tool.PaymentUnknown, "nobody knows whether the payment %s was made: do not pay again without checking", IDOf(last))
	}
	return nil
}

func receiptOf(p store.Payment) tool.PaymentReceipt {
	return tool.PaymentReceipt{ID: IDOf(p), Amount: tool.Amount{Micros: p.Micros, Currency: p.Currency}, Text: p.Receipt}
}

// IDOf is the idempotency key that the wallet is asked with: of a request and its attempt, so that one that was refused may be
// asked for again.
func IDOf(p store.Payment) string { return fmt.Sprintf("pay_%s_%d", p.Hash, p.Attempt) }

// newToken mints the proof of an attempt.
func newToken() perdure.Token {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return perdure.Token(hex.EncodeToString(b[:]))
}
