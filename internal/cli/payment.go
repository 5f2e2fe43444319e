package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type paymentCommand struct {
	List    paymentList    `cmd:"" aliases:"ls" help:"List what tools paid, newest first."`
	Show    paymentShow    `cmd:"" help:"Show a payment."`
	Resolve paymentResolve `cmd:"" help:"State the outcome of a payment that is unknown. No money moves."`
}

type paymentList struct {
	Session string `help:"Only payments of this session: id, unique id prefix, title, or last." placeholder:"SESSION"`
	State   string `help:"Only payments in this state: in_flight, paid, refused or unknown." placeholder:"STATE" enum:",in_flight,paid,refused,unknown" default:""`
	listFlags
}

// Run lists payments.
func (c *paymentList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		filter := engine.PaymentFilter{State: c.State, Limit: c.asked()}
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			filter.Session = s.ID
		}
		all, err := eng.Payments().List(ctx, filter)
		if err != nil {
			return fmt.Errorf("list payments: %w", err)
		}
		if all, err = within(c.listFlags, a.now().Time, all, func(p engine.Payment) time.Time { return p.CreatedAt }); err != nil {
			return err
		}
		now, ids := a.now(), shortPaymentIDs(all)
		return outputList[engine.Payment]{
			noun: "payments", head: []string{"PAYMENT", "STATE", "AMOUNT", "TO", "TOOL", "SESSION", "CREATED"},
			name: func(p engine.Payment) string { return p.ID },
			row: func(p engine.Payment) []cell {
				return []cell{{ids[p.ID], bold}, {p.State, paymentColor(p.State)}, {text: p.Amount + " " + p.Currency}, {text: p.Host},
					{text: p.Tool}, {text: string(p.Session)}, {text: ago(p.CreatedAt, now)}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

// paymentIDChars is how much of the id of a payment is printed, if that is enough to tell it from
// the others.
const paymentIDChars = 20

// shortPaymentIDs abbreviates the ids of payments for people to type.
func shortPaymentIDs(all []engine.Payment) map[string]string {
	count := map[string]int{}
	for _, p := range all {
		count[p.ID[:min(paymentIDChars, len(p.ID))]]++
	}
	short := map[string]string{}
	for _, p := range all {
		short[p.ID] = p.ID
		if begin := p.ID[:min(paymentIDChars, len(p.ID))]; count[begin] == 1 {
			short[p.ID] = begin
		}
	}
	return short
}

func paymentColor(state string) color {
	switch state {
	case engine.PaymentPaid:
		return green
	case engine.PaymentUnknown:
		return red
	}
	return dim
}

type paymentShow struct {
	Payment string `arg:"" help:"Payment: id or unique id prefix."`
	outputFlags
}

// Run shows a payment.
func (c *paymentShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		p, err := paymentNamed(ctx, a, eng, c.Payment)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{p.ID, p, func() { printPayment(a, p) }})
	})
}

// paymentNamed finds a payment by what the user typed.
func paymentNamed(ctx context.Context, a *app, eng Engine, typed string) (engine.Payment, error) {
	all, err := eng.Payments().List(ctx, engine.PaymentFilter{})
	if err != nil {
		return engine.Payment{}, fmt.Errorf("list payments: %w", err)
	}
	return pick(a.kind("payment"), typed, all, func(p engine.Payment) candidate {
		return candidate{id: p.ID, description: p.State + ", " + p.Amount + " " + p.Currency + " to " + p.Host}
	})
}

func printPayment(a *app, p engine.Payment) {
	now, todo := a.now(), ""
	if p.State == engine.PaymentUnknown {
		todo = "find out whether it was made, then: " + program + " payment resolve " + a.storeFlags() + p.ID + " --happened | --did-not-happen"
	}
	a.fields(
		field{"payment", cell{p.ID, bold}},
		field{"state", cell{p.State, paymentColor(p.State)}},
		field{"amount", cell{text: p.Amount + " " + p.Currency}},
		field{"to", cell{text: p.Host}},
		field{"for", cell{text: p.Operation + " (" + p.Capability + ")"}},
		field{"tool", cell{text: p.Tool}},
		field{"session", cell{text: string(p.Session)}},
		field{"call", cell{text: string(p.Call)}},
		field{"approved by", cell{text: p.ApprovedBy}},
		field{"receipt", cell{text: strings.TrimSpace(p.Receipt)}},
		field{"note", cell{text: p.Note}},
		field{"resolved by", cell{text: p.ResolvedBy}},
		field{"created", cell{text: moment(p.CreatedAt, now)}},
		field{"settled", cell{text: moment(p.SettledAt, now)}},
		field{"to do", cell{todo, yellow}},
	)
}

type paymentResolve struct {
	Payment      string `arg:"" help:"Payment: id or unique id prefix."`
	Happened     bool   `help:"The payment was made." xor:"word" required:""`
	DidNotHappen bool   `help:"Certainly no money moved." xor:"word" required:""`
	Receipt      string `help:"With --happened: what proves it." placeholder:"TEXT"`
	Note         string `help:"How you know; it is recorded with the payment." placeholder:"TEXT"`
	actFlags
}

// Run records the outcome that an operator states (PA2).
func (c *paymentResolve) Run(ctx context.Context, a *app) error {
	if c.Receipt != "" && !c.Happened {
		return usageError("--receipt requires --happened", "only a payment that was made has a receipt")
	}
	return c.act(ctx, a, engine.Payment{}, func(eng Engine) error {
		p, err := paymentNamed(ctx, a, eng, c.Payment)
		if err != nil {
			return err
		}
		if p.State != engine.PaymentUnknown {
			return &userError{
				err: perdure.Conflict, message: fmt.Sprintf("the outcome of %s is not open: it is %s", p.ID, p.State),
				hint: program + " payment list " + a.storeFlags() + "--state unknown  lists unknown outcomes",
			}
		}
		word := "did not happen"
		if c.Happened {
			word = "happened"
		}
		if c.DryRun {
			a.message("would resolve %s of %s %s to %s: it %s", p.ID, p.Amount, p.Currency, a.oneLine(p.Host, cellChars), word)
			return nil
		}
		p, err = eng.Payments().Resolve(ctx, p.ID, engine.PaymentResolution{Happened: c.Happened, Receipt: c.Receipt, Note: c.Note, By: operator})
		if err != nil {
			return err
		}
		a.message("resolved %s: it %s", p.ID, word)
		return c.showForPrograms(ctx, a, p.ID, p)
	})
}
