package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// OfValue is the path of a value.
type OfValue struct {
	OfSession
	Key string `path:"key" example:"city" doc:"The key."`
}

// newValue is the body of a value's setting.
type newValue struct {
	Value string `json:"value" doc:"Any text, at most 1 MiB."`
}

type oneValue struct{ Body engine.Value }

// OfSecret is the path of a secret.
type OfSecret struct {
	OfSession
	Name string `path:"name" example:"smtp_password" doc:"The secret."`
}

// newSecret is the body of a secret's setting.
type newSecret struct {
	Value string   `json:"value" doc:"At most 64 KiB. No call returns it."`
	Hosts []string `json:"hosts,omitempty" doc:"Where tools may send it; nowhere when it is not said, only into the environment of a process."`
}

func (a *API) valueOperations() {
	missing := []int{http.StatusNotFound}
	read(a, operation{
		id: "list-values", path: "/v1/sessions/{id}/values", policy: reads, summary: "List what a session keeps by key, without the values", errors: missing,
	}, a.listValues)
	read(a, operation{id: "get-value", path: "/v1/sessions/{id}/values/{key}", policy: reads, summary: "Show a value", errors: missing},
		func(ctx context.Context, in *OfValue) (*oneValue, error) {
			v, err := a.cfg.Engine.Value(ctx, in.ID, in.Key)
			return &oneValue{Body: v}, err
		})
	replace(a, operation{
		id: "set-value", path: "/v1/sessions/{id}/values/{key}", policy: writes, summary: "Set a value", errors: append(missing, http.StatusTooManyRequests),
		route: route{own: true, tells: true},
	}, body[newValue]{example: newValue{Value: "Lisbon"}}, a.setValue)
	erase(a, operation{
		id: "delete-value", path: "/v1/sessions/{id}/values/{key}", policy: writes, summary: "Delete a value", errors: missing, route: route{own: true},
	}, a.deleteValue)
	read(a, operation{
		id: "list-secrets", path: "/v1/sessions/{id}/secrets", policy: reads, summary: "List the names of a session's secrets", errors: missing,
	}, a.listSecrets)
	replace(a, operation{
		id: "set-secret", path: "/v1/sessions/{id}/secrets/{name}", policy: writes, summary: "Set a secret", status: http.StatusNoContent,
		errors: append(missing, http.StatusTooManyRequests),
	}, body[newSecret]{example: newSecret{Value: "correct horse", Hosts: []string{"smtp.example.org"}}}, a.setSecret)
	erase(a, operation{
		id: "delete-secret", path: "/v1/sessions/{id}/secrets/{name}", policy: writes, summary: "Delete a secret", errors: missing,
	}, func(ctx context.Context, in *OfSecret) (*nothing, error) {
		return gone(ctx, a.cfg.Engine.RemoveSecret(ctx, in.ID, in.Name))
	})
}

func (a *API) listValues(ctx context.Context, in *struct {
	OfSession
	Prefix string `query:"prefix" doc:"Only keys that begin so."`
	Paged
}) (*page[engine.ValueStat], error) {
	all, err := a.cfg.Engine.Values(ctx, in.ID, in.Prefix)
	if err != nil {
		return nil, err
	}
	return sorted(a, in.Paged, ordered[engine.ValueStat]{
		which: "values " + string(in.ID) + " " + in.Prefix, all: all, key: func(v engine.ValueStat) string { return v.Key },
	})
}

// setValue writes a value. What it compares it has read itself, and the engine compares again in the commit.
func (a *API) setValue(ctx context.Context, in *struct {
	OfValue
	Conditions
}, b newValue) (*oneValue, error) {
	w := engine.ValueWrite{Key: in.Key, Text: b.Value}
	if in.given() || requestOf(ctx).again {
		old, tag, err := a.valueNow(ctx, in.OfValue)
		if err != nil {
			return nil, err
		}
		if tag != "" && (old.Text == b.Value && requestOf(ctx).again || in.superseded(ctx, old.UpdatedAt)) {
			return &oneValue{Body: old}, nil
		}
		if err := in.allow(tag); err != nil {
			return nil, err
		}
		w.New = in.IfNoneMatch != ""
		if in.IfMatch != "" {
			w.If = &old.ValueStat
		}
	}
	set, err := a.cfg.Engine.SetValue(ctx, in.ID, w)
	return &oneValue{Body: set}, a.stillAllowed(ctx, in.OfValue, in.Conditions, err)
}

// valueNow returns a value with its ETag, which is empty when there is none.
func (a *API) valueNow(ctx context.Context, of OfValue) (v engine.Value, tag string, err error) {
	v, err = a.cfg.Engine.Value(ctx, of.ID, of.Key)
	switch {
	case errors.Is(err, perdure.NotFound):
		return v, "", nil
	case err != nil:
		return v, "", err
	}
	tag, err = tagOfJSON(v)
	return v, tag, err
}

// stillAllowed says of a write that was refused whether its condition fails now.
func (a *API) stillAllowed(ctx context.Context, of OfValue, c Conditions, refused error) error {
	if !errors.Is(refused, perdure.Conflict) || !c.given() {
		return refused
	}
	_, tag, err := a.valueNow(ctx, of)
	if err == nil {
		err = c.allow(tag)
	}
	if err != nil {
		return err
	}
	return refused
}

func (a *API) deleteValue(ctx context.Context, in *struct {
	OfValue
	Conditions
}) (*nothing, error) {
	var read *engine.ValueStat
	if in.IfMatch != "" {
		old, tag, err := a.valueNow(ctx, in.OfValue)
		if err != nil {
			return nil, err
		}
		if tag != "" {
			if err := in.allow(tag); err != nil {
				return nil, err
			}
			read = &old.ValueStat
		}
	}
	err := a.cfg.Engine.RemoveValue(ctx, in.ID, in.Key, read)
	return gone(ctx, a.stillAllowed(ctx, in.OfValue, in.Conditions, err))
}

func (a *API) listSecrets(ctx context.Context, in *struct {
	OfSession
	Paged
}) (*page[engine.Secret], error) {
	all, err := a.cfg.Engine.Secrets(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return sorted(a, in.Paged, ordered[engine.Secret]{which: "secrets " + string(in.ID), all: all, key: func(s engine.Secret) string { return s.Name }})
}

func (a *API) setSecret(ctx context.Context, in *OfSecret, b newSecret) (*struct{}, error) {
	if b.Value == "" {
		return nil, invalid("/value", "it is required, and not empty")
	}
	return &struct{}{}, a.cfg.Engine.SetSecret(ctx, in.ID, engine.SecretWrite{Name: in.Name, Value: b.Value, Hosts: b.Hosts})
}
