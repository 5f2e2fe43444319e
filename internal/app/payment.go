package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// paymentsFile is the file of a data directory that says what tools may pay, and from which wallet.
const paymentsFile = "payments.json"

// paymentsConfig is the content of that file.
type paymentsConfig struct {
	Wallet struct {
		URL           string `json:"url"`
		Authorization string `json:"authorization"` // with a variable; empty: none is sent
	} `json:"wallet"`
	// Authority is asked before each payment; nil: nobody is.
	Authority *struct {
		URL    string `json:"url"`
		Secret string `json:"secret"` // whsec_ and base64, from a variable
	} `json:"authority"`
	Capabilities []string                `json:"capabilities"`
	Hosts        []string                `json:"hosts"`
	Caps         map[string]currencyCaps `json:"caps"` // by currency
}

// currencyCaps limit what is paid in one currency.
type currencyCaps struct {
	PerRequest   string `json:"per_request"`
	PerTurn      string `json:"per_turn"`
	PerDay       string `json:"per_day"`
	ApproveAbove string `json:"approve_above"` // empty: every payment needs an approval of its call
}

// readPayments reads the file of a data directory and opens the wallet. A missing file allows no
// payment. Invalid: what is wrong with the file, or which variable is missing.
func readPayments(o cli.OpenOptions) (p local.Payments, err error) {
	if o.Access != cli.Writing || o.Dir == "" {
		return p, nil // this process does no work
	}
	path := filepath.Join(o.Dir, paymentsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	var cfg paymentsConfig
	if err == nil {
		err = perdure.DecodeJSON(text, &cfg)
	}
	if err == nil {
		p, err = cfg.open(o.Known)
	}
	if err != nil {
		return local.Payments{}, fmt.Errorf("%w file %s: %w", perdure.Invalid, path, err)
	}
	return p, nil
}

// open creates the wallet and the authority. The values of variables are added to the known
// secrets.
func (c paymentsConfig) open(known *redact.Set) (p local.Payments, err error) {
	authorization, err := fromVariables("wallet.authorization", c.Wallet.Authorization, known)
	if err == nil {
		p.Wallet, err = local.NewHTTPWallet(c.Wallet.URL, authorization)
	}
	if err == nil && c.Authority != nil {
		var secret string
		if secret, err = fromVariables("authority.secret", c.Authority.Secret, known); err == nil {
			p.Authority, err = local.NewHTTPPaymentAuthority(c.Authority.URL, secret)
		}
	}
	p.Policy = local.PaymentPolicy{Capabilities: c.Capabilities, Hosts: c.Hosts, Caps: map[string]local.PaymentCaps{}}
	for currency, caps := range c.Caps {
		p.Policy.Caps[currency] = local.PaymentCaps(caps)
	}
	if err == nil {
		err = p.Policy.Check()
	}
	return p, err
}

// fromVariables returns a secret of the file with its variables filled in. A secret without a
// variable is refused, because it would stand in the file in the clear.
func fromVariables(field, text string, known *redact.Set) (string, error) {
	if text == "" {
		return "", nil
	}
	filled, values, err := insertVariables(field, text, os.Getenv)
	if err == nil && len(values) == 0 {
		err = fmt.Errorf("%s contains a secret: put the secret into a variable of the environment and write ${NAME} here", field)
	}
	for _, value := range values {
		if known != nil {
			known.Add(value)
		}
	}
	return filled, err
}

// closePayments closes the connections of a wallet and an authority.
func closePayments(p local.Payments) {
	for _, part := range []any{p.Wallet, p.Authority} {
		if open, ok := part.(interface{ Close() }); ok {
			open.Close()
		}
	}
}

// toolPrice is what a call of an MCP tool costs. It is paid before the call.
type toolPrice struct {
	Amount    string `json:"amount"` // a decimal number
	Currency  string `json:"currency"`
	Host      string `json:"host"`      // the payee
	Operation string `json:"operation"` // what is paid for; empty: the name of the tool
}

// paidTool is an MCP tool whose calls are paid before they are made. The model sees neither the
// price nor the wallet. Its calls are at_most_once, and they are no background runs. It has no
// Reattach, which could send a call that is not paid.
type paidTool struct {
	remote    *mcptool.Remote
	price     tool.Amount
	host      string
	operation string
}

var (
	_ tool.AdoptableAnywhere = paidTool{}
	_ tool.Cleaner           = paidTool{}
)

// newPaidTool returns a tool with a price. Invalid: what is wrong with the price.
func newPaidTool(t *mcptool.Remote, name string, p toolPrice) (tool.Tool, error) {
	amount, err := tool.ParseAmount(p.Amount, p.Currency)
	if err != nil {
		return nil, fmt.Errorf("price of %s: %w", name, err)
	}
	if p.Host == "" {
		return nil, fmt.Errorf("%w price of %s: name the host that is paid", perdure.Invalid, name)
	}
	if p.Operation == "" {
		p.Operation = name
	}
	return paidTool{remote: t, price: amount, host: p.Host, operation: p.Operation}, nil
}

// Spec returns the specification of the tool, which says that it pays. The narration of its calls
// has amount and payee, so that a person who approves a call knows them. The model does not get it.
func (t paidTool) Spec() tool.Spec {
	spec, yes, no := t.remote.Spec(), true, false
	spec.Class, spec.NeedsEnv = perdure.AtMostOnce, true
	spec.Hints.Payment, spec.Hints.SupportsBackground, spec.Hints.Idempotent, spec.Hints.ReadOnly = &yes, &no, &no, &no
	what := t.operation + ", for " + t.price.String() + " to " + t.host
	spec.Narration = tool.Narration{Started: "Paying for " + what, Completed: "Paid for " + what, Failed: "Did not complete " + what}
	return spec
}

// Run pays once the call can be made, and then makes the call. A payment that an earlier execution
// of the same call made counts for this one.
func (t paidTool) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	if env.Payments == nil {
		return refused(tool.Missing("Payment authority", "A call of "+call.Tool+" is paid, and this server has no wallet for it."))
	}
	what, err := json.Marshal(map[string]json.RawMessage{"arguments": call.Args})
	if err != nil {
		return tool.Internal(err)
	}
	paid := ""
	result := t.remote.RunAfter(ctx, call, env, func() (tool.Result, bool) {
		receipt, err := env.Payments.Pay(ctx, tool.PaymentRequest{Host: t.host, Operation: t.operation, Amount: t.price, Parameters: what})
		if earlier := (*tool.PaymentError)(nil); errors.As(err, &earlier) && earlier.Receipt != nil {
			receipt, err = *earlier.Receipt, nil
		}
		if err != nil {
			return tool.Failf("The call was not made, because it was not paid: %s", err), false
		}
		paid = receipt.ID
		return tool.Result{}, true
	})
	if paid != "" {
		result = notePayment(result, "This call was paid with "+paid+".")
	}
	return result
}

// notePayment adds to an error that the call was paid.
func notePayment(r tool.Result, note string) tool.Result {
	if r.Kind == tool.KindToolError {
		r.Text += "\n(" + note + ")"
	}
	return r
}

// AdoptableAnywhere implements tool.AdoptableAnywhere.
func (t paidTool) AdoptableAnywhere() {}

// Prepare implements tool.Adoptable.
func (t paidTool) Prepare(ctx context.Context, call tool.Call) error {
	return t.remote.Prepare(ctx, call)
}

// Inspect implements tool.Adoptable: a call that its server turned into a task was paid before.
func (t paidTool) Inspect(ctx context.Context, call tool.Call) (perdure.ExecutionRemains, error) {
	return t.remote.Inspect(ctx, call)
}

// Adopt implements tool.Adoptable.
func (t paidTool) Adopt(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	return notePayment(t.remote.Adopt(ctx, call, env, sink), "This call was paid before it was made.")
}

// Stop implements tool.Adoptable. A call without a handle is not looked for: that sends it again,
// and it may not be paid.
func (t paidTool) Stop(ctx context.Context, call tool.Call) error {
	if remains, err := t.remote.Inspect(ctx, call); err != nil || remains == perdure.RemainsNone {
		return err
	}
	return t.remote.Stop(ctx, call)
}

// Clean implements tool.Cleaner.
func (t paidTool) Clean(ctx context.Context, call tool.Call) error { return t.remote.Clean(ctx, call) }
