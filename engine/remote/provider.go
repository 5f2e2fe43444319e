package remote

import (
	"context"
	"fmt"
	"net/url"

	"github.com/perdure/perdure/engine"
)

const providersPath = "/v1/providers"

func (e engineProviders) List(ctx context.Context) ([]engine.Provider, error) {
	return list[engine.Provider](ctx, e.Engine, request{what: "providers", path: providersPath}, 0)
}

func (e engineProviders) Get(ctx context.Context, name string) (p engine.Provider, err error) {
	return p, e.named(ctx, request{what: "provider", path: providersPath + "/"}, name, &p)
}

func (e engineProviders) Put(ctx context.Context, w engine.ProviderWrite) (p engine.Provider, err error) {
	body := struct {
		Kind    string  `json:"kind,omitempty"`
		BaseURL string  `json:"base_url,omitempty"`
		Key     *string `json:"key,omitempty"`
		Model   string  `json:"default_model,omitempty"`
	}{w.Kind, w.BaseURL, w.Key, w.Model}
	return p, e.named(ctx, request{what: "put provider", path: providersPath + "/", body: body, put: true}, w.Name, &p)
}

func (e engineProviders) Delete(ctx context.Context, name string) error {
	return e.named(ctx, request{what: "delete provider", path: providersPath + "/", remove: true}, name, nil)
}

// Test tests a model of a provider. It waits until the test has ended, or ctx.
func (e engineProviders) Test(ctx context.Context, name, model string) (t engine.ProviderTest, err error) {
	body := struct {
		Model string `json:"model,omitempty"`
	}{model}
	return t, e.named(ctx, request{
		what: "test provider", path: providersPath + "/", suffix: "/test", body: body, noTimeout: true,
	}, name, &t)
}

func (e engineProviders) Models(ctx context.Context) ([]engine.Model, error) {
	return list[engine.Model](ctx, e.Engine, request{what: "models", path: "/v1/models"}, 0)
}

func (e engineProviders) DefaultModel(ctx context.Context) (engine.DefaultModel, error) {
	return fetch[engine.DefaultModel](ctx, e.Engine, request{what: "default model", path: "/v1/models/default"})
}

func (e engineProviders) SetDefaultModel(ctx context.Context, org, name string) (engine.DefaultModel, error) {
	r := request{what: fmt.Sprintf("set the default model %.80q", name), path: "/v1/models/default"}
	if org != "" {
		r.query = url.Values{"org": {org}}
	}
	if name == "" {
		r.remove = true
		_, err := e.call(ctx, r, nil)
		return engine.DefaultModel{Org: org}, err
	}
	r.put = true
	r.body = struct {
		Name string `json:"name"`
	}{name}
	return fetch[engine.DefaultModel](ctx, e.Engine, r)
}
