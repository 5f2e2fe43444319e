package app

import (
	"context"
	"os"
	"strings"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model/provider"
)

// testModel sends a minimal request to a model of this build, once, with the keys of this
// environment. Invalid: the name matches no model of this build, or its script cannot be read.
func testModel(ctx context.Context, name string, options []string, known *redact.Set) (engine.ProviderTest, error) {
	settings, err := readModelOptions(options)
	if err != nil {
		return engine.ProviderTest{}, err
	}
	t, err := readTarget(name)
	if err == nil && !t.isBuiltIn() {
		_, err = (&models{}).named(ctx, name) // its error says that there is no such provider
	}
	if err != nil {
		return engine.ProviderTest{}, err
	}
	test := engine.ProviderTest{Model: t.String(), Provider: t.provider}
	if variable := t.variable(); variable != "" && t.base == "" && strings.TrimSpace(os.Getenv(variable)) == "" {
		test.Result, test.Variable, test.Why = engine.TestKeyMissing, variable, variable+" is not set"
		return test, nil
	}
	asked, err := t.open(settings, nil)
	if err != nil {
		return engine.ProviderTest{}, err
	}
	got, err := provider.Test(ctx, asked, "")
	if err != nil {
		return engine.ProviderTest{}, err
	}
	test = local.TestResult(test, got)
	test.Why = known.Mask(test.Why)
	return test, nil
}

// variable returns the variable with the key of a provider; empty: it needs none.
func (t target) variable() string {
	switch t.provider {
	case providerOpenAI:
		return openaiKey
	case providerAnthropic:
		return anthropicKey
	}
	return ""
}
