// Package payment is the authority through which tools pay: a policy, a row for every attempt, and
// a wallet that moves the money.
//
//	order ── policy ── replay, caps, approval ── approver ── the same again, attempt: one transaction ── wallet ── outcome
//	          PA1     only if there is an approver          PA1, PA2: in flight from here on          paid, refused, or unknown
//
// It may import the root, store, tool and internal/egress.
//
// The one thing to know: the attempt is committed before the wallet is asked, and an attempt whose
// answer is not known counts as paid and is never made again. A crash between any two steps may
// therefore leave a payment with an unknown outcome, which is reported as such; it never pays
// twice.
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
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/internal/urlform"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The time limits of an attempt, and the period of a daily cap.
const (
	defaultWait   = 30 * time.Second
	defaultRecord = 30 * time.Second
	day           = 24 * time.Hour // of a cap
)

// Config configures an Authority. Store and Wallet are required.
type Config struct {
	Store  store.Store
	Wallet Wallet
	Policy Policy
	// Whose caps count for sessions of the default organisation; empty: the default's own.
	Org    string
	Wait   time.Duration // for the wallet's answer, after which the outcome is unknown; 0: 30 s
	Record time.Duration // for each record before and after it while the store is unavailable; 0: 30 s
	// Spec returns the specification of a tool. The capability that a payment counts for comes from
	// it, not from the order. nil: no tool is known.
	Spec     func(name string) (tool.Spec, bool)
	Approver Approver     // is asked before each payment that the policy allows; nil: nobody is
	Log      *slog.Logger // nil: discarded
}

// Authority pays. It is safe for concurrent use.
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

// For returns the payment port of a call; nil: its tool does not declare that it pays.
func (a *Authority) For(session perdure.SessionID, call tool.Call) tool.Payments {
	if a.cfg.Spec == nil {
		return nil
	}
	spec, known := a.cfg.Spec(call.Tool)
	if !known || !spec.Pays() {
		return nil
	}
	return callPayments{a: a, session: session, call: call, capability: spec.Hints.CapabilityID}
}

// callPayments is the authority for one call.
type callPayments struct {
	a       *Authority
	session perdure.SessionID
	call    tool.Call

	capability string // declared by the tool
}

var _ tool.Payments = callPayments{}

// Pay carries out one order.
func (p callPayments) Pay(ctx context.Context, o tool.PaymentRequest) (tool.PaymentReceipt, error) {
	attempt, err := p.check(&o)
	if err != nil {
		p.a.cfg.Log.Info("payment refused", "session", p.session, "call", p.call.ID, "tool", p.call.Tool, "reason", err)
		return tool.PaymentReceipt{}, err
	}
	if err := p.ask(ctx, attempt, o); err != nil {
		p.a.cfg.Log.Info("payment refused", "session", p.session, "call", p.call.ID, "tool", p.call.Tool, "reason", err)
		return tool.PaymentReceipt{}, err
	}
	if ctx.Err() != nil {
		return tool.PaymentReceipt{}, context.Cause(ctx)
	}
	// Then the attempt is unknown, and may be resolved as not made.
	until := time.Now().Add(p.a.cfg.Wait + p.a.cfg.Record)
	attempt, err = p.reserve(ctx, attempt, o)
	if err != nil {
		p.a.cfg.Log.Info("payment refused", "session", p.session, "call", p.call.ID, "tool", p.call.Tool, "payment", attempt.Hash, "reason", err)
		return tool.PaymentReceipt{}, err
	}
	return p.a.carryOut(ctx, attempt, o, until)
}

// check validates an order without the store, normalises it and returns its attempt.
func (p callPayments) check(o *tool.PaymentRequest) (store.Payment, error) {
	if p.call.Class != perdure.AtMostOnce { // claimed by an earlier version of the program
		return store.Payment{}, refuse(tool.PaymentUndeclared, "the call of %s is %s; only an at-most-once call may pay", p.call.Tool, p.call.Class)
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

// checkOrder validates an order and normalises it: the host in lower case, the parameters as
// canonical JSON.
func checkOrder(o *tool.PaymentRequest) error {
	if err := o.Amount.Check(); err != nil {
		return err
	}
	u, err := urlform.Normal("https://" + o.Host + "/")
	if err != nil || u.Host != u.Hostname() || u.Path != "/" || u.RawQuery != "" || !strings.EqualFold(strings.TrimSuffix(o.Host, "."), u.Host) {
		return fmt.Errorf("%w host %.80q: want a host name without scheme, port or path, for example api.example.com", perdure.Invalid, o.Host)
	}
	if o.Operation == "" || len(o.Operation) > store.MaxPaymentBytes {
		return fmt.Errorf("%w operation of %d bytes: want 1 to %d", perdure.Invalid, len(o.Operation), store.MaxPaymentBytes)
	}
	o.Host = u.Host
	if o.Parameters, err = strictjson.Canonical(o.Parameters); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if o.Parameters[0] != '{' {
		return fmt.Errorf("%w parameters: want a JSON object", perdure.Invalid)
	}
	return nil
}

// hash identifies a request.
func (p callPayments) hash(o tool.PaymentRequest) (string, error) {
	text, err := json.Marshal(map[string]any{
		"session": p.session, "call": p.call.ID, "capability": p.capability, "host": o.Host, "operation": o.Operation,
		"amount": o.Amount, "parameters": o.Parameters,
	})
	if err == nil {
		text, err = strictjson.Canonical(text)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// reserve checks the caps and records the attempt in one transaction. After an error nothing is
// sent.
func (p callPayments) reserve(ctx context.Context, attempt store.Payment, o tool.PaymentRequest) (store.Payment, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.a.cfg.Record)
	defer cancel()
	var recorded store.Payment
	err := p.a.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		attempt.Turn, err = p.capTurn(r)
		return err
	})
	if err == nil {
		err = p.a.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			recorded, err = p.record(tx, attempt, o)
			return err
		})
	}
	if err == nil || isAnswer(err) {
		return recorded, err
	}
	p.a.markNotSent(ctx, attempt)
	return recorded, fmt.Errorf("record a payment: %w; nothing was paid", err)
}

// isAnswer reports whether an error is an answer of the transaction, after which nothing was
// written. After any other error the commit may have succeeded.
func isAnswer(err error) bool {
	var refused *tool.PaymentError
	return errors.As(err, &refused) || errors.Is(err, perdure.Lost) || errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid)
}

// ask asks the approver, if there is one, about a payment that can be made. The transaction of
// reserve decides again, because other payments may be made meanwhile.
func (p callPayments) ask(ctx context.Context, attempt store.Payment, o tool.PaymentRequest) error {
	if p.a.cfg.Approver == nil {
		return nil
	}
	err := p.a.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if attempt.Turn, err = p.capTurn(r); err == nil {
			attempt, err = p.admit(r, attempt, o)
		}
		return err
	})
	if err != nil && !isAnswer(err) {
		err = fmt.Errorf("check a payment: %w; nothing was paid", err)
	}
	if err != nil {
		return err
	}
	return p.approve(ctx, attempt, o)
}

// record checks replays, caps and approval, and adds the attempt.
func (p callPayments) record(tx store.Tx, attempt store.Payment, o tool.PaymentRequest) (store.Payment, error) {
	attempt, err := p.admit(tx.Reader(), attempt, o)
	if err != nil {
		return attempt, err
	}
	return tx.Payments().Add(attempt, p.a.cfg.Wait+p.a.cfg.Record)
}

// admit checks replays, caps and approval, and returns the attempt in the org of its session.
func (p callPayments) admit(r store.Reader, attempt store.Payment, o tool.PaymentRequest) (store.Payment, error) {
	session, err := r.Sessions().Get(p.session)
	if err != nil {
		return attempt, err
	}
	attempt.Org = cmp.Or(session.Org, p.a.cfg.Org)
	row, err := p.ownCall(r)
	if err != nil {
		return attempt, err
	}
	last, err := r.Payments().Get(attempt.Hash)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return attempt, err
	}
	if refused := replayed(last); refused != nil {
		return attempt, refused
	}
	attempt.Attempt = last.Attempt + 1
	if p.a.rules.needsApproval(o) {
		if attempt.ApprovedBy, err = p.approver(r, row); err != nil {
			return attempt, err
		}
	}
	var s spent
	scope := store.PaymentScope{Org: attempt.Org, Currency: attempt.Currency, Turn: attempt.Turn}
	if s.turn, err = r.Payments().Sum(scope); err != nil {
		return attempt, err
	}
	scope.Turn, scope.Since = "", r.Now().Add(-day)
	if s.day, err = r.Payments().Sum(scope); err != nil {
		return attempt, err
	}
	if refused := p.a.rules.fits(o, s, attempt.ApprovedBy); refused != nil {
		return attempt, refused
	}
	return attempt, nil
}

// ownCall returns the call's row in the ledger. Lost: another execution, or another attempt of the
// task, has taken over.
func (p callPayments) ownCall(r store.Reader) (perdure.Call, error) {
	row, err := r.Calls().Get(perdure.CallKey{Session: p.session, Call: p.call.ID})
	if err == nil && row.State != perdure.CallRunning {
		err = fmt.Errorf("call %s: %w: it is %s", row.Key, perdure.Lost, row.State)
	}
	if err == nil && p.call.Task != "" {
		var task perdure.Task
		if task, err = r.Tasks().Get(p.session, p.call.Task); err == nil && task.Attempt != p.call.Attempt {
			err = fmt.Errorf("task %s, attempt %d: %w: attempt %d is running", task.ID, p.call.Attempt, perdure.Lost, task.Attempt)
		}
	}
	return row, err
}

// approver returns the person who approved this call with the arguments that it runs with; empty:
// nobody did.
func (p callPayments) approver(r store.Reader, row perdure.Call) (string, error) {
	filter := store.ApprovalFilter{Session: p.session, State: perdure.ApprovalApproved}
	if row.Task == "" {
		filter.Call = p.call.ID
	}
	found, err := r.Approvals().List(filter)
	if err != nil {
		return "", err
	}
	for _, a := range found {
		own := a.Call == p.call.ID && (a.Task == "" || a.Task == row.Task) || row.Task != "" && a.Task == row.Task
		hash := a.ArgsHash
		if len(a.NewArgs) > 0 { // the approver edited the arguments
			if hash, err = perdure.Fingerprint(a.Tool, a.NewArgs); err != nil {
				return "", err
			}
		}
		if own && a.Tool == row.Tool && hash == row.Fingerprint && a.DecidedBy != "" {
			return a.DecidedBy, nil
		}
	}
	return "", nil
}

// capTurn returns the id that the per-turn cap counts for: the turn of the root session in the
// call's tree, otherwise the task or the call itself.
func (p callPayments) capTurn(r store.Reader) (string, error) {
	session, turn := p.session, string(p.call.Turn)
	turn = cmp.Or(turn, string(p.call.Task), string(p.call.ID))
	for {
		handle, err := r.Spawns().OfChild(session)
		if errors.Is(err, perdure.NotFound) {
			return turn, nil
		}
		if err != nil {
			return "", err
		}
		asked, err := r.Calls().Get(handle.Key)
		if err != nil {
			return "", err
		}
		session = handle.Key.Session
		if asked.Turn != "" {
			turn = string(asked.Turn)
		}
	}
}

// replayed returns the refusal of a request that was made before; nil: it was not, or it was
// refused.
func replayed(last store.Payment) *tool.PaymentError {
	switch last.State {
	case store.PaymentPaid:
		receipt := receiptOf(last)
		return &tool.PaymentError{Code: tool.PaymentReplayed, Text: "this was paid before, with payment " + receipt.ID, Receipt: &receipt}
	case store.PaymentInFlight:
		return refuse(tool.PaymentInFlight, "payment %s of the same request is in progress", IdempotencyKey(last))
	case store.PaymentUnknown:
		return refuse(tool.PaymentUnknown, "it is unknown whether payment %s was made; do not pay again before it is checked", IdempotencyKey(last))
	}
	return nil
}

func receiptOf(p store.Payment) tool.PaymentReceipt {
	return tool.PaymentReceipt{ID: IdempotencyKey(p), Amount: tool.Amount{Micros: p.Micros, Currency: p.Currency}, Text: p.Receipt}
}

// IdempotencyKey returns the idempotency key for the wallet. It contains the request's hash and the
// attempt, so that a refused request can be made again.
func IdempotencyKey(p store.Payment) string { return fmt.Sprintf("pay_%s_%d", p.Hash, p.Attempt) }

// newToken mints the token that proves ownership of an attempt.
func newToken() perdure.Token {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return perdure.Token(hex.EncodeToString(b[:]))
}
