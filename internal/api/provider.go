package api

import (
	"context"
	"net/http"

	"github.com/perdure/perdure/engine"
)

// ofProvider is the path of a provider.
type ofProvider struct {
	Name string `path:"provider" example:"ollama" doc:"The provider: the part of a model's name before the separator."`
}

// newProvider is the body of a provider's write.
type newProvider struct {
	Kind    string  `json:"kind,omitempty" enum:"openai,anthropic" doc:"The protocol: Chat Completions, or Messages. Optional for a stored provider, and for openai and anthropic."`
	BaseURL string  `json:"base_url,omitempty" doc:"The URL of the server; default the kind's own provider."`
	Key     *string `json:"key,omitempty" doc:"The key; empty for a server that needs none. Without it, a stored key stays, unless the URL changes. It is never returned."`
	Model   string  `json:"default_model,omitempty" doc:"The default model, as the provider names it."`
}

// providerAct is the body of a test of a provider.
type providerAct struct {
	Model string `json:"model,omitempty" doc:"The model to ask, as the provider names it; default its default model."`
}

// newDefaultModel is the body of a write of a default model.
type newDefaultModel struct {
	Name string `json:"name" doc:"The model, as sessions name it: PROVIDER/MODEL."`
}

// ofOrg selects an org.
type ofOrg struct {
	Org string `query:"org" doc:"The org; default that of the caller. The default org has the default of the runtime, which serves every org without one."`
}

func (a providerHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{id: "list-providers", path: "/v1/providers", policy: reads, summary: "List model providers, by name"}, a.listProviders)
	read(a.API, operation{id: "get-provider", path: "/v1/providers/{provider}", policy: reads, summary: "Show a model provider, without its key", errors: missing},
		func(ctx context.Context, in *ofProvider) (*single[engine.Provider], error) {
			return singleOf(a.cfg.Engine.Providers().Get(ctx, in.Name))
		})
	replace(a.API, operation{
		id: "put-provider", path: "/v1/providers/{provider}", policy: administers, secret: true, summary: "Store a model provider with its key, or replace it", errors: missing,
	}, body[newProvider]{example: newProvider{Kind: engine.ProviderOpenAI, BaseURL: "http://127.0.0.1:11434/v1", Model: "llama3"}}, a.putProvider)
	erase(a.API, operation{
		id: "delete-provider", path: "/v1/providers/{provider}", policy: administers, summary: "Delete a stored model provider with its key", errors: missing,
	}, func(ctx context.Context, in *ofProvider) (*nothing, error) {
		return goneIfRepeated(ctx, a.cfg.Engine.Providers().Delete(ctx, in.Name))
	})
	write(a.API, operation{
		id: "test-provider", path: "/v1/providers/{provider}/test", policy: administers, class: takesTime, summary: "Test a model provider: send one short request to a model", errors: missing,
	}, body[providerAct]{optional: true}, func(ctx context.Context, in *ofProvider, b providerAct) (*single[engine.ProviderTest], error) {
		return singleOf(a.cfg.Engine.Providers().Test(ctx, in.Name, b.Model))
	})
	read(a.API, operation{id: "list-models", path: "/v1/models", policy: reads, summary: "List the models that are known by name; providers may have more"}, a.listModels)
	read(a.API, operation{
		id: "get-default-model", path: "/v1/models/default", policy: reads, summary: "Show the model of sessions of the caller's org that name none; an empty name if there is none",
	}, func(ctx context.Context, _ *struct{}) (*single[engine.DefaultModel], error) {
		return singleOf(a.cfg.Engine.Providers().DefaultModel(ctx))
	})
	replace(a.API, operation{
		id: "set-default-model", path: "/v1/models/default", policy: administers, summary: "Set the model of sessions that name none",
	}, body[newDefaultModel]{example: newDefaultModel{Name: "ollama/llama3"}}, a.setDefaultModel)
	erase(a.API, operation{
		id: "clear-default-model", path: "/v1/models/default", policy: administers, summary: "Remove the default model of an org, or of the runtime",
	}, func(ctx context.Context, in *ofOrg) (*nothing, error) {
		_, err := a.cfg.Engine.Providers().SetDefaultModel(ctx, in.Org, "")
		return &nothing{}, err
	})
}

func (a providerHandlers) listProviders(ctx context.Context, in *struct{ Paged }) (*page[engine.Provider], error) {
	all, err := a.cfg.Engine.Providers().List(ctx)
	if err != nil {
		return nil, err
	}
	return pageOfSorted(a.API, in.Paged, sortedList[engine.Provider]{name: orgPrefix(ctx) + "providers", all: all, key: func(p engine.Provider) string { return p.Name }})
}

func (a providerHandlers) putProvider(ctx context.Context, in *ofProvider, b newProvider) (*single[engine.Provider], error) {
	return singleOf(a.cfg.Engine.Providers().Put(ctx, engine.ProviderWrite{Name: in.Name, Kind: b.Kind, BaseURL: b.BaseURL, Key: b.Key, Model: b.Model}))
}

func (a providerHandlers) listModels(ctx context.Context, in *struct{ Paged }) (*page[engine.Model], error) {
	all, err := a.cfg.Engine.Providers().Models(ctx)
	if err != nil {
		return nil, err
	}
	return pageOfSorted(a.API, in.Paged, sortedList[engine.Model]{name: orgPrefix(ctx) + "models", all: all, key: func(m engine.Model) string { return m.Name }})
}

func (a providerHandlers) setDefaultModel(ctx context.Context, in *ofOrg, b newDefaultModel) (*single[engine.DefaultModel], error) {
	if b.Name == "" {
		return nil, invalid("/name", "required and must not be empty")
	}
	return singleOf(a.cfg.Engine.Providers().SetDefaultModel(ctx, in.Org, b.Name))
}
