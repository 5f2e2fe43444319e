package engine

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// Providers manages the providers of models: the program's own ones, and the stored ones with their
// sealed keys. They belong to the runtime, and the sessions of all orgs use them.
type Providers interface {
	DefaultModels

	// List lists the providers by name.
	List(ctx context.Context) ([]Provider, error)
	// Get returns a provider. NotFound: no such provider.
	Get(ctx context.Context, name string) (Provider, error)
	// Put stores a provider, or replaces a stored one. A kept key is never sent to another URL than
	// the one that it was kept for: a caller that changes the URL gives the key again. Invalid:
	// name, kind or URL is wrong, the kind would change, or the key would be sent unencrypted.
	// Unavailable: a key is given, and there is no keyring to seal it with.
	Put(ctx context.Context, w ProviderWrite) (Provider, error)
	// Delete removes a stored provider with its key. NotFound: no such provider is stored.
	// Conflict: a stored model uses it.
	Delete(ctx context.Context, name string) error
	// Test sends one short request to a model of a provider, for at most 30 seconds. An empty model
	// is the provider's default one. A provider that does not answer is no error; the result says
	// what happened. NotFound: no such provider. Invalid: there is no model to ask.
	Test(ctx context.Context, name, model string) (ProviderTest, error)
}

// DefaultModels manages the models of sessions that name none.
type DefaultModels interface {
	// Models lists the models that the runtime knows by name, sorted: the defaults of the
	// providers, the stored models, and the default of the caller's org. Providers may have more.
	Models(ctx context.Context) ([]Model, error)
	// DefaultModel returns the model of a session of the caller's org that names none. An empty
	// name: there is none.
	DefaultModel(ctx context.Context) (DefaultModel, error)
	// SetDefaultModel sets the default model of an org, or with an empty org that of the runtime,
	// which serves every org without one. An empty name removes the default. Invalid: the name is
	// not the name of a model.
	SetDefaultModel(ctx context.Context, org, name string) (DefaultModel, error)
}

// ProviderNameForm is the syntax of the name of a stored provider.
const ProviderNameForm = "[a-z][a-z0-9-]{0,62}"

var providerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + ProviderNameForm + `$`) })

// CheckProviderName checks the name of a stored provider. Invalid: the error says what is wrong.
func CheckProviderName(name string) error {
	if !providerName().MatchString(name) {
		return fmt.Errorf("%w provider %.80q: a name has 1 to 63 lower-case letters, digits and dashes, "+
			"and begins with a letter", perdure.Invalid, name)
	}
	return nil
}

// The kinds of providers.
const (
	ProviderOpenAI    = "openai"    // speaks the protocol Chat Completions
	ProviderAnthropic = "anthropic" // speaks the protocol Messages
	ProviderScripted  = "scripted"  // answers from a file; it cannot be stored
)

// The sources of what is used to ask the models of a provider.
const (
	ProviderFromEnvironment = "environment" // an environment variable has the key
	ProviderFromStore       = "store"
	ProviderFromProgram     = "program" // the program has it, and needs no key or lacks one
)

// Provider is a provider of models as callers see it. It never contains a key.
type Provider struct {
	Name    string `json:"name"`               // the part of a model name before the separator
	Kind    string `json:"kind"`               // openai, anthropic or scripted
	BaseURL string `json:"base_url,omitempty"` // empty: the provider's default, unless a model names another one
	// Source says which configuration is used. A variable of the environment comes before the
	// store.
	Source   string `json:"source,omitempty" enum:"environment,store,program"`
	Variable string `json:"variable,omitempty"`      // the environment variable with the key in use
	HasKey   bool   `json:"has_key,omitempty"`       // a sealed key is stored
	Model    string `json:"default_model,omitempty"` // as the provider names it; empty: none is set
	Ready    bool   `json:"ready"`
	Missing  string `json:"missing,omitempty"` // why it cannot be used

	Version   int64     `json:"version,omitempty"` // of the stored provider; 0: it is not stored
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// ProviderWrite is a provider to store.
type ProviderWrite struct {
	Name    string
	Kind    string  // openai or anthropic; empty: that of the stored provider, or of the provider with this name
	BaseURL string  // empty: the server of the kind's own provider
	Key     *string // empty: none is needed; nil: the stored key stays
	Model   string  // its default model; empty: none
}

// The results of a test of a provider.
const (
	TestOK          = "ok"
	TestKeyMissing  = "key_missing" // no request was sent
	TestRefused     = "refused"     // the provider rejected the key, the request or the account
	TestNoModel     = "no_model"    // the provider has no model of that name
	TestUnreachable = "unreachable" // no response, or an invalid one
	TestRateLimited = "limited"     // too many requests, or an exhausted quota
)

// ProviderTest is the result of a minimal request to a model.
type ProviderTest struct {
	Model     string `json:"model"`    // the complete name
	Provider  string `json:"provider"` // the part of the name before the separator
	Result    string `json:"result" enum:"ok,key_missing,refused,no_model,unreachable,limited"`
	LatencyMS int64  `json:"latency_ms,omitempty"`
	Tokens    int64  `json:"tokens,omitempty"`   // of request and response; 0: not reported
	Variable  string `json:"variable,omitempty"` // name of the missing environment variable
	Code      string `json:"code,omitempty"`     // error code of the adapter
	Why       string `json:"why,omitempty"`      // error text, without keys
}

// The sources of a default model.
const (
	DefaultFromConfig  = "configuration" // of the process that does the work; it comes before the others
	DefaultFromOrg     = "org"
	DefaultFromRuntime = "runtime"
)

// DefaultModel is the model of sessions that name none.
type DefaultModel struct {
	Name   string `json:"name"` // empty: there is none
	Source string `json:"source,omitempty" enum:"configuration,org,runtime"`
	Org    string `json:"org,omitempty"` // whose default it is; empty: that of the runtime
}

// Model is a model that the runtime knows by name.
type Model struct {
	Name     string `json:"name"`     // as sessions name it
	Provider string `json:"provider"` // the part of the name before the separator
	Default  bool   `json:"default"`  // of sessions of the caller's org that name no model
	Source   string `json:"source,omitempty" enum:"provider,store,configuration,org,runtime"`
}
