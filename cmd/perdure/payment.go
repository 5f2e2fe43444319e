package main

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
// price nor the wallet. Its calls are at_most_once, and they are no background runs.
type paidTool struct {
	tool.Tool
	price     tool.Amount
	host      string
	operation string
}

// newPaidTool returns a tool with a price. Invalid: what is wrong with the price.
func newPaidTool(t tool.Tool, name string, p toolPrice) (tool.Tool, error) {
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
	return paidTool{Tool: t, price: amount, host: p.Host, operation: p.Operation}, nil
}

// Spec returns the specification of the tool, which says that it pays.
func (t paidTool) Spec() tool.Spec {
	spec, yes, no := t.Tool.Spec(), true, false
	spec.Class, spec.NeedsEnv = perdure.AtMostOnce, true
	spec.Hints.Payment, spec.Hints.SupportsBackground, spec.Hints.Idempotent, spec.Hints.ReadOnly = &yes, &no, &no, &no
	return spec
}

// Run pays, and then makes the call.
func (t paidTool) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	if env.Payments == nil {
		return refused(tool.Missing("Payment authority", "A call of "+call.Tool+" is paid, and this server has no wallet for it."))
	}
	what, err := json.Marshal(map[string]json.RawMessage{"arguments": call.Args})
	if err != nil {
		return tool.Internal(err)
	}
	receipt, err := env.Payments.Pay(ctx, tool.PaymentRequest{Host: t.host, Operation: t.operation, Amount: t.price, Parameters: what})
	if err != nil {
		return tool.Failf("The call was not made, because it was not paid: %s", err)
	}
	result := t.Tool.Run(ctx, call, env)
	if result.Kind == tool.KindToolError {
		result.Text += fmt.Sprintf("\n(This call was paid with %s.)", receipt.ID)
	}
	return result
}
