package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/openai"
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
const modelForms = "use openai:NAME, anthropic:NAME or scripted:FILE"

// target identifies a model in a form that is valid everywhere: PROVIDER:MODEL, followed by @URL if
// a server was given.
type target struct {
	provider string
	name     string // of the model; for a script its path
	base     string // URL of the server; empty: the provider's own
}

// readTarget parses the name of a model. Invalid: it matches no model of this build.
func readTarget(text string) (target, error) {
	if text == "" {
		return target{}, fmt.Errorf("%w model: the name is missing; %s", perdure.Invalid, modelForms)
	}
	provider, name, _ := strings.Cut(text, ":")
	t := target{provider: provider, name: name}
	for _, scheme := range []string{"@http://", "@https://"} {
		if i := strings.Index(name, scheme); i >= 0 {
			t.name, t.base = name[:i], name[i+1:]
			break
		}
	}
	switch {
	case provider != providerScripted && provider != providerOpenAI && provider != providerAnthropic, t.name == "":
		return target{}, fmt.Errorf("%w model %q: %s", perdure.Invalid, text, modelForms)
	case provider == providerScripted && t.base != "":
		return target{}, fmt.Errorf("%w model %q: a script has no server; remove --base-url", perdure.Invalid, text)
	}
	if provider == providerScripted {
		path, err := filepath.Abs(t.name)
		if err != nil {
			return target{}, fmt.Errorf("%w model %q: %w", perdure.Invalid, text, err)
		}
		t.name = path
	}
	return t, nil
}

// String returns the name in a form that is valid everywhere.
func (t target) String() string {
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
		return openai.New(options.openaiConfig(openai.Config{Name: t.name, Key: key, BaseURL: t.base, Log: log}))
	case providerAnthropic:
		key, err := t.key(anthropicKey)
		if err != nil {
			return nil, err
		}
		return anthropic.New(options.anthropicConfig(anthropic.Config{Name: t.name, Key: key, BaseURL: t.base, Prefill: t.prefills(), Log: log}))
	}
	return load(t.name)
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
		return "", fmt.Errorf("%w model %q: %s is not set; set it to your key, or use your own server with --base-url",
			perdure.Invalid, t, variable)
	}
	if key != "" && t.checkKeyTransport() {
		return "", fmt.Errorf("%w model %q: the key in %s would be sent unencrypted; use https, or unset the variable",
			perdure.Invalid, t, variable)
	}
	return key, nil
}

// checkKeyTransport reports whether traffic to the server can be read on the network.
func (t target) checkKeyTransport() bool {
	u, err := url.Parse(t.base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.Unmap().IsLoopback()
}
