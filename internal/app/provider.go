package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/openai"
	"github.com/perdure/perdure/model/provider"
)

// The variables with the keys of the providers.
const (
	openaiKey    = "OPENAI_API_KEY"
	anthropicKey = "ANTHROPIC_API_KEY"
)

// prefillVariable is the variable with the comma-separated names of the Anthropic models that
// accept a partial answer. Newer models refuse it, so that only these get one.
const prefillVariable = "PERDURE_ANTHROPIC_PREFILL"

// The providers of this build.
const (
	providerScripted  = "scripted"
	providerOpenAI    = "openai"
	providerAnthropic = "anthropic"
)

// modelForms describes the names of models for users.
const modelForms = "use openai:NAME, anthropic:NAME, scripted:FILE, or PROVIDER/NAME for a stored provider"

// target identifies a model in a form that is valid everywhere: PROVIDER:MODEL, followed by @URL if
// a server was given, or PROVIDER/MODEL for a provider that only the store can have.
type target struct {
	provider string
	name     string // of the model; for a script its path
	base     string // URL of the server; empty: the provider's own
}

// readTarget parses the name of a model. The first slash or colon ends the provider. Invalid: the
// name can be none of a model.
func readTarget(text string) (target, error) {
	if text == "" {
		return target{}, fmt.Errorf("%w model: the name is missing; %s", perdure.Invalid, modelForms)
	}
	prefix, name, ok := provider.Split(text)
	t := target{provider: prefix, name: name}
	for _, scheme := range []string{"@http://", "@https://"} {
		if i := strings.Index(name, scheme); i >= 0 {
			t.name, t.base = name[:i], name[i+1:]
			break
		}
	}
	switch {
	case !ok, t.name == "", engine.CheckProviderName(prefix) != nil:
		return target{}, fmt.Errorf("%w model %q: %s", perdure.Invalid, text, modelForms)
	case prefix == providerScripted && t.base != "":
		return target{}, fmt.Errorf("%w model %q: a script has no server; remove --base-url", perdure.Invalid, text)
	case !t.isBuiltIn() && t.base != "":
		return target{}, fmt.Errorf("%w model %q: the server of a stored provider cannot be changed here; "+
			"remove --base-url, or store another provider", perdure.Invalid, text)
	}
	if prefix == providerScripted {
		path, err := filepath.Abs(t.name)
		if err != nil {
			return target{}, fmt.Errorf("%w model %q: %w", perdure.Invalid, text, err)
		}
		t.name = path
	}
	return t, nil
}

// isBuiltIn reports whether this build has the provider.
func (t target) isBuiltIn() bool {
	return t.provider == providerScripted || t.provider == providerOpenAI || t.provider == providerAnthropic
}

// mayBeStored reports whether a stored provider is used, if there is one. A key from the
// environment comes before a stored one, and is sent to no stored URL. A stored key is sent to no
// given URL.
func (t target) mayBeStored() bool {
	variable := t.variable()
	return !t.isBuiltIn() ||
		variable != "" && t.base == "" && strings.TrimSpace(os.Getenv(variable)) == ""
}

// storedName returns the name by which the models of stored providers know the model.
func (t target) storedName() string { return t.provider + "/" + t.name }

// String returns the name in a form that is valid everywhere.
func (t target) String() string {
	if !t.isBuiltIn() {
		return t.storedName()
	}
	text := t.provider + ":" + t.name
	if t.base != "" {
		text += "@" + t.base
	}
	return text
}

// usesNetwork reports whether a name determines where the model is: a file, or a server, which
// receives the provider's key. Other models are on the server of their provider.
func usesNetwork(name string) bool {
	t, err := readTarget(name)
	return err == nil && (t.provider == providerScripted || t.base != "")
}

// open creates the model. This is the only place that reads the environment for it: the keys of the
// providers, and which models accept a partial answer. Invalid: the script cannot be read, the URL
// is invalid, or a key is missing.
func (t target) open(options modelOptions, log *slog.Logger) (model.Model, error) {
	switch t.provider {
	case providerOpenAI:
		key, err := t.key(openaiKey)
		if err != nil {
			return nil, err
		}
		return openai.New(options.openaiConfig(providerOpenAI, openai.Config{Name: t.name, Key: key, BaseURL: t.base, Log: log}))
	case providerAnthropic:
		key, err := t.key(anthropicKey)
		if err != nil {
			return nil, err
		}
		return anthropic.New(options.anthropicConfig(providerAnthropic, anthropic.Config{Name: t.name, Key: key, BaseURL: t.base, Prefill: t.prefills(), Log: log}))
	}
	return readScript(t.name)
}

// prefills reports whether the operator says that the model accepts a partial answer.
func (t target) prefills() bool {
	return slices.ContainsFunc(strings.Split(os.Getenv(prefillVariable), ","),
		func(name string) bool { return strings.TrimSpace(name) == t.name })
}

// key returns the key of the provider. It is optional for a given server, which reports itself if
// it needs one.
func (t target) key(variable string) (string, error) {
	key := strings.TrimSpace(os.Getenv(variable))
	if key == "" && t.base == "" {
		return "", fmt.Errorf("%w model %q: %s is not set; set it to your key, store one with perdure provider set %s, or use your own server with --base-url",
			perdure.Invalid, t, variable, t.provider)
	}
	if key != "" && provider.SendsInClear(t.base) {
		return "", fmt.Errorf("%w model %q: the key in %s would be sent unencrypted; use https, or unset the variable",
			perdure.Invalid, t, variable)
	}
	return key, nil
}
