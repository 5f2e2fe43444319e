package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// OfPayment is the path of a payment.
type OfPayment struct {
	Payment string `path:"payment" example:"pay_4f2d_1" doc:"The id of the payment, which is the idempotency key that the wallet received."`
}

// paymentResolution is a person's resolution of an unknown payment.
type paymentResolution struct {
	Outcome perdure.ResolveAnswer `json:"outcome" enum:"happened,did_not_happen" doc:"Whether money moved, as the wallet's own records show."`
	Receipt string                `json:"receipt,omitempty" doc:"With happened: what proves it."`
	Note    string                `json:"note,omitempty"`
}

func (a paymentHandlers) register() {
	read(a.API, operation{id: "list-payments", path: "/v1/payments", policy: reads, summary: "List what tools paid, newest first"}, a.listPayments)
	read(a.API, operation{id: "get-payment", path: "/v1/payments/{payment}", policy: reads, summary: "Show a payment", errors: []int{http.StatusNotFound}},
		func(ctx context.Context, in *OfPayment) (*single[engine.Payment], error) {
			return singleOf(a.cfg.Engine.Payments().Get(ctx, in.Payment))
		})
	write(a.API, operation{
		id: "resolve-payment", path: "/v1/payments/{payment}/resolve", policy: approves, summary: "Resolve a payment whose outcome is unknown; no money moves",
		errors: []int{http.StatusNotFound},
	}, body[paymentResolution]{example: paymentResolution{Outcome: perdure.ResolveDidNotHappen, Note: "not in the wallet's list"}}, a.resolvePayment)
}

func (a paymentHandlers) listPayments(ctx context.Context, in *struct {
	Session perdure.SessionID `query:"session" doc:"Only payments of this session."`
	State   string            `query:"state" enum:"in_flight,paid,refused,unknown" doc:"Only payments in this state."`
	Paged
}) (*page[engine.Payment], error) {
	which := fmt.Sprintf("%spayments %q %q", orgPrefix(ctx), in.Session, in.State)
	place, err := a.cursors.read(which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	all, err := a.cfg.Engine.Payments().List(ctx, engine.PaymentFilter{Session: in.Session, State: in.State})
	if err != nil {
		return nil, err
	}
	if place != nil { // new payments come first, and none is ever removed
		last := slices.IndexFunc(all, func(p engine.Payment) bool { return p.ID == place[0] })
		all = all[last+1:]
	}
	return pageOf(all, in.limit(), func(p engine.Payment) string { return a.cursors.write(which, p.ID) }), nil
}

func (a paymentHandlers) resolvePayment(ctx context.Context, in *OfPayment, r paymentResolution) (*single[engine.Payment], error) {
	if r.Outcome != perdure.ResolveHappened && r.Outcome != perdure.ResolveDidNotHappen {
		return nil, invalid("/outcome", "must be happened or did_not_happen")
	}
	o := engine.PaymentResolution{Happened: r.Outcome == perdure.ResolveHappened, Receipt: r.Receipt, Note: r.Note, By: requestOf(ctx).actor}
	p, err := a.cfg.Engine.Payments().Resolve(ctx, in.Payment, o)
	if err != nil && requestOf(ctx).repeated { // an earlier attempt under this key lost its response
		now, lookErr := a.cfg.Engine.Payments().Get(ctx, in.Payment)
		if lookErr == nil && now.ResolvedBy == o.By && (now.State == engine.PaymentPaid) == o.Happened {
			p, err = now, nil
		}
	}
	return &single[engine.Payment]{p}, err
}
