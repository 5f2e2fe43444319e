package main

import (
	"fmt"
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

// The variables that hold the providers' keys (C21).
const (
	openaiKey    = "OPENAI_API_KEY"
	anthropicKey = "ANTHROPIC_API_KEY"
)

// prefilled is the variable that names the models of Anthropic which take the beginning of an answer, with commas between
// them (TN20). Newer ones refuse it, so one that is not named is never sent any.
const prefilled = "PERDURE_ANTHROPIC_PREFILL"

// The providers of this build.
const (
	providerScripted  = "scripted"
	providerOpenAI    = "openai"
	providerAnthropic = "anthropic"
)

// modelForms says what a model may be, for people.
const modelForms = "name one as openai:NAME, anthropic:NAME or scripted:FILE"

// target says which model answers, in one word that means the same from everywhere and later: PROVIDER:MODEL,
// with @URL behind it where a server was named.
type target struct {
	provider string
	name     string // of the model; of a script, its path
	base     string // URL of the server; empty: the provider's own
}

// readTarget reads the name of a model. Invalid: it is none of this build.
func readTarget(text string) (target, error) {
	if text == "" {
		return target{}, fmt.Errorf("%w model: no name is given; %s", perdure.Invalid, modelForms)
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
		return target{}, fmt.Errorf("%w model %q: a script has no server; leave --base-url out", perdure.Invalid, text)
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

// String returns the name that means the model from everywhere.
func (t target) String() string {
	text := t.provider + ":" + t.name
	if t.base != "" {
		text += "@" + t.base
	}
	return text
}

// reachesOut reports whether a name says by itself where its model is: in a file, or on a server that it names, which is sent the
// provider's key. One without is asked of its provider.
func reachesOut(name string) bool {
	t, err := readTarget(name)
	return err == nil && (t.provider == providerScripted || t.base != "")
}

// open makes the model. Only here is the environment read for it: the keys of the providers, and which models may go on from
// the beginning of an answer. Invalid: the script
// cannot be read, the URL is none, or a key is missing.
func (t target) open() (model.Model, error) {
	switch t.provider {
	case providerOpenAI:
		key, err := t.key(openaiKey)
		if err != nil {
			return nil, err
		}
		return openai.New(openai.Config{Name: t.name, Key: key, BaseURL: t.base})
	case providerAnthropic:
		key, err := t.key(anthropicKey)
		if err != nil {
			return nil, err
		}
		return anthropic.New(anthropic.Config{Name: t.name, Key: key, BaseURL: t.base, Prefill: t.prefills()})
	}
	return load(t.name)
}

// prefills reports whether the operator says that the model takes the beginning of an answer.
func (t target) prefills() bool {
	return slices.ContainsFunc(strings.Split(os.Getenv(prefilled), ","), func(name string) bool { return strings.TrimSpace(name) == t.name })
}

// key reads the key of the provider. A server that was named may need none, and then says so itself.
func (t target) key(variable string) (string, error) {
	key := strings.TrimSpace(os.Getenv(variable))
	if key == "" && t.base == "" {
		return "", fmt.Errorf("%w model %q: %s is not set; set it to your key, or name a server of your own with --base-url", perdure.Invalid, t, variable)
	}
	if key != "" && t.exposes() {
		return "", fmt.Errorf("%w model %q: the key in %s would cross the network in the clear; use https, or unset the variable", perdure.Invalid, t, variable)
	}
	return key, nil
}

// exposes reports whether what is sent to the server can be read on the way.
func (t target) exposes() bool {
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
