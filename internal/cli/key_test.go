package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// keyless is an engine without the keys of the providers, which calls no model.
type keyless struct{ *scene }

func (k keyless) CheckModel(name string) (string, error) {
	if name == "openai:" {
		return "", fmt.Errorf("%w model %q", perdure.Invalid, name)
	}
	return "", fmt.Errorf("%w model %q: OPENAI_API_KEY is not set; set it to your key", perdure.Invalid, name)
}

// keylessProviders implements engine.Providers for keyless.
type keylessProviders struct {
	engine.Providers
	keyless
}

// Providers implements engine.Engine.
func (k keyless) Providers() engine.Providers { return keylessProviders{nil, k} }

func (k keylessProviders) DefaultModel(context.Context) (engine.DefaultModel, error) {
	return engine.DefaultModel{Name: "openai:gpt"}, nil
}

func (k keylessProviders) List(context.Context) ([]engine.Provider, error) {
	return []engine.Provider{{Name: "openai", Missing: "OPENAI_API_KEY is not set; not needed for models with their own server"}}, nil
}

// TestC21MissingKey: a missing key has one exit code, and is named, with every command that calls
// the model.
func TestC21MissingKey(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"run --model openai:gpt hello": exitDenied, "run --last --model openai:gpt hello": exitDenied, "run --last hello": exitDenied,
		"session new --model openai:gpt": exitDenied, "run --model openai: hello": exitUsage,
		"run --model openai:gpt --base-url ftp://host hello": exitUsage, "session new --model openai:gpt --base-url ftp://host": exitUsage, "provider test openai:gpt --base-url ftp://host": exitUsage,
	} {
		code, _, talk := command{args: args, engine: keyless{&scene{sessions: sessionsOf("session_1")}}}.run(t.Context())
		if code != want || want == exitDenied && !strings.Contains(talk, "OPENAI_API_KEY") || strings.Contains(talk, "PERDURE_TOKEN") {
			t.Errorf("%s: exit code %d, want %d: %s", args, code, want, talk)
		}
	}
}
