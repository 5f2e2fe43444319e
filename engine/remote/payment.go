package remote

import (
	"context"
	"net/url"

	"github.com/perdure/perdure/engine"
)

func (e enginePayments) List(ctx context.Context, f engine.PaymentFilter) ([]engine.Payment, error) {
	query := url.Values{}
	if f.Session != "" {
		query.Set("session", string(f.Session))
	}
	if f.State != "" {
		query.Set("state", f.State)
	}
	return list[engine.Payment](ctx, e.Engine, request{what: "payments", path: "/v1/payments", query: query}, f.Limit)
}

func (e enginePayments) Get(ctx context.Context, id string) (engine.Payment, error) {
	return fetch[engine.Payment](ctx, e.Engine, request{what: "payment " + id, path: "/v1/payments/" + keySegment(id)})
}

// Resolve records a person's resolution. A retry gets the same response.
func (e enginePayments) Resolve(ctx context.Context, id string, o engine.PaymentResolution) (engine.Payment, error) {
	body := struct {
		Outcome string `json:"outcome"`
		Receipt string `json:"receipt,omitempty"`
		Note    string `json:"note,omitempty"`
	}{"did_not_happen", o.Receipt, o.Note}
	if o.Happened {
		body.Outcome = "happened"
	}
	return fetch[engine.Payment](ctx, e.Engine, request{
		what: "resolve payment " + id, path: "/v1/payments/" + keySegment(id) + "/resolve", body: body, actor: o.By,
	})
}
