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

// newValue is the body of a request that sets a value.
type newValue struct {
	Value string `json:"value" doc:"Any text, at most 1 MiB."`
}

// OfSecret is the path of a secret.
type OfSecret struct {
	OfSession
	Name string `path:"name" example:"smtp_password" doc:"The secret."`
}

// newSecret is the body of a request that sets a secret.
type newSecret struct {
	Value string   `json:"value" doc:"At most 64 KiB. It is never returned."`
	Hosts []string `json:"hosts,omitempty" doc:"The hosts to which tools may send it. Without hosts it is available only in the environment of a process."`
}

func (a valueHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{
		id: "list-values", path: "/v1/sessions/{id}/values", policy: reads, summary: "List the keys of the values of a session", errors: missing,
	}, a.listValues)
	read(a.API, operation{id: "get-value", path: "/v1/sessions/{id}/values/{key}", policy: reads, summary: "Show a value", errors: missing},
		func(ctx context.Context, in *OfValue) (*single[engine.Value], error) {
			return singleOf(a.cfg.Engine.Values().Get(ctx, in.ID, in.Key))
		})
	replace(a.API, operation{
		id: "set-value", path: "/v1/sessions/{id}/values/{key}", policy: writes, summary: "Set a value", errors: append(missing, http.StatusTooManyRequests),
		route: route{checksConditions: true, returnsResource: true},
	}, body[newValue]{example: newValue{Value: "Lisbon"}}, a.setValue)
	erase(a.API, operation{
		id: "delete-value", path: "/v1/sessions/{id}/values/{key}", policy: writes, summary: "Delete a value", errors: missing, route: route{checksConditions: true},
	}, a.deleteValue)
	read(a.API, operation{
		id: "list-secrets", path: "/v1/sessions/{id}/secrets", policy: reads, summary: "List the names of a session's secrets", errors: missing,
	}, a.listSecrets)
	replace(a.API, operation{
		id: "set-secret", path: "/v1/sessions/{id}/secrets/{name}", policy: writes, secret: true, summary: "Set a secret", status: http.StatusNoContent,
		errors: append(missing, http.StatusTooManyRequests),
	}, body[newSecret]{example: newSecret{Value: "correct horse", Hosts: []string{"smtp.example.org"}}}, a.setSecret)
	erase(a.API, operation{
		id: "delete-secret", path: "/v1/sessions/{id}/secrets/{name}", policy: writes, secret: true, summary: "Delete a secret", errors: missing,
	}, func(ctx context.Context, in *OfSecret) (*nothing, error) {
		return goneIfRepeated(ctx, a.cfg.Engine.Secrets().Remove(ctx, in.ID, in.Name))
	})
}

func (a valueHandlers) listValues(ctx context.Context, in *struct {
	OfSession
	Prefix string `query:"prefix" doc:"Only keys with this prefix."`
	Paged
}) (*page[engine.ValueStat], error) {
	all, err := a.cfg.Engine.Values().List(ctx, in.ID, in.Prefix)
	if err != nil {
		return nil, err
	}
	return pageOfSorted(a.API, in.Paged, sortedList[engine.ValueStat]{
		name: "values " + string(in.ID) + " " + in.Prefix, all: all, key: func(v engine.ValueStat) string { return v.Key },
	})
}

// setValue writes a value. It reads the value to check the conditions, and the engine checks again
// in the commit.
func (a valueHandlers) setValue(ctx context.Context, in *struct {
	OfValue
	Conditions
}, b newValue) (*single[engine.Value], error) {
	w := engine.ValueWrite{Key: in.Key, Text: b.Value}
	if in.given() || requestOf(ctx).repeated {
		old, tag, err := a.currentValue(ctx, in.OfValue)
		if err != nil {
			return nil, err
		}
		if tag != "" && (old.Text == b.Value && requestOf(ctx).repeated || in.superseded(ctx, old.UpdatedAt)) {
			return &single[engine.Value]{old}, nil
		}
		if err := in.allow(tag); err != nil {
			return nil, err
		}
		w.New = in.IfNoneMatch != ""
		if in.IfMatch != "" {
			w.If = &old.ValueStat
		}
	}
	set, err := a.cfg.Engine.Values().Set(ctx, in.ID, w)
	return &single[engine.Value]{set}, a.recheckValue(ctx, in.OfValue, in.Conditions, err)
}

// currentValue returns a value with its ETag, which is empty if the value does not exist.
func (a valueHandlers) currentValue(ctx context.Context, of OfValue) (v engine.Value, tag string, err error) {
	v, err = a.cfg.Engine.Values().Get(ctx, of.ID, of.Key)
	switch {
	case errors.Is(err, perdure.NotFound):
		return v, "", nil
	case err != nil:
		return v, "", err
	}
	tag, err = tagOfJSON(v)
	return v, tag, err
}

// recheckValue is called with the error of a write. After a conflict it returns the 412 if the
// condition fails now.
func (a valueHandlers) recheckValue(ctx context.Context, of OfValue, c Conditions, refused error) error {
	if !errors.Is(refused, perdure.Conflict) || !c.given() {
		return refused
	}
	_, tag, err := a.currentValue(ctx, of)
	if err == nil {
		err = c.allow(tag)
	}
	if err != nil {
		return err
	}
	return refused
}

func (a valueHandlers) deleteValue(ctx context.Context, in *struct {
	OfValue
	Conditions
}) (*nothing, error) {
	var read *engine.ValueStat
	if in.IfMatch != "" {
		old, tag, err := a.currentValue(ctx, in.OfValue)
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
	err := a.cfg.Engine.Values().Remove(ctx, in.ID, in.Key, read)
	return goneIfRepeated(ctx, a.recheckValue(ctx, in.OfValue, in.Conditions, err))
}

func (a valueHandlers) listSecrets(ctx context.Context, in *struct {
	OfSession
	Paged
}) (*page[engine.Secret], error) {
	all, err := a.cfg.Engine.Secrets().List(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return pageOfSorted(a.API, in.Paged, sortedList[engine.Secret]{name: "secrets " + string(in.ID), all: all, key: func(s engine.Secret) string { return s.Name }})
}

func (a valueHandlers) setSecret(ctx context.Context, in *OfSecret, b newSecret) (*struct{}, error) {
	if b.Value == "" {
		return nil, invalid("/value", "required and must not be empty")
	}
	return &struct{}{}, a.cfg.Engine.Secrets().Set(ctx, in.ID, engine.SecretWrite{Name: in.Name, Value: b.Value, Hosts: b.Hosts})
}
