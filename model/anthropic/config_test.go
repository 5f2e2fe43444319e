package anthropic_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
)

// TestEnvironment: whatever the environment says, only Config counts. Not parallel: it sets the
// environment.
func TestEnvironment(t *testing.T) {
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the address of the environment was asked for %s", r.URL)
	}))
	defer wrong.Close()
	const poison = "from-the-environment"
	for name, value := range map[string]string{
		"ANTHROPIC_API_KEY": poison, "ANTHROPIC_AUTH_TOKEN": poison, "ANTHROPIC_BASE_URL": wrong.URL, "ANTHROPIC_PROFILE": poison,
		"ANTHROPIC_CUSTOM_HEADERS": "X-Poison: " + poison, "ANTHROPIC_CONFIG_DIR": t.TempDir(), "ANTHROPIC_WEBHOOK_SIGNING_KEY": poison,
		"ANTHROPIC_IDENTITY_TOKEN": poison, "ANTHROPIC_FEDERATION_RULE_ID": poison, "ANTHROPIC_ORGANIZATION_ID": poison,
		"ANTHROPIC_OPEN_TELEMETRY": "true", "ANTHROPIC_OPEN_TELEMETRY_PROPAGATION": "true", "ANTHROPIC_MODEL": poison,
	} {
		t.Setenv(name, value)
	}
	answers := anthropictest.New(script(t, talk()), anthropictest.Config{})
	for _, given := range []string{"", key} {
		var seen http.Header
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = r.Header.Clone()
			answers.ServeHTTP(w, r)
		}))
		defer server.Close()

		h := listen(t, adapter(t, anthropic.Config{Name: "m", Key: given, BaseURL: server.URL, HTTP: server.Client()}), hello)

		if h.err != nil {
			t.Fatal(h.err)
		}
		if got := seen.Get("X-Api-Key"); got != given {
			t.Errorf("got key %q, want %q", got, given)
		}
		for name, values := range seen {
			if strings.Contains(strings.Join(values, " "), poison) || name == "Authorization" || name == "Traceparent" {
				t.Errorf("the request has %s: %v", name, values)
			}
		}
	}
}

// TestConfig: a configuration that cannot work is Invalid, says which field is wrong, and repeats
// no secret.
func TestConfig(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cfg  anthropic.Config
		want string
	}{
		"a base URL without a scheme":    {anthropic.Config{BaseURL: "localhost:8080"}, "BaseURL"},
		"a base URL of another scheme":   {anthropic.Config{BaseURL: "ftp://localhost"}, "BaseURL"},
		"a base URL that is none":        {anthropic.Config{BaseURL: "http://[::1"}, "BaseURL"},
		"a base URL with a password":     {anthropic.Config{BaseURL: "http://me:hidden@localhost"}, "Key"},
		"a base URL with a query":        {anthropic.Config{BaseURL: "http://localhost?key=hidden"}, "BaseURL"},
		"a key with a line end":          {anthropic.Config{Key: "hidden\n"}, "Key"},
		"a negative length":              {anthropic.Config{MaxTokens: -1}, "MaxTokens"},
		"too small a budget":             {anthropic.Config{ThinkingTokens: 100}, "1024"},
		"a negative budget":              {anthropic.Config{ThinkingTokens: -1}, "ThinkingTokens"},
		"a budget as large as an answer": {anthropic.Config{MaxTokens: 2000, ThinkingTokens: 2000}, "MaxTokens"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.HTTP = &http.Client{}
			_, err := anthropic.New(test.cfg)
			if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %v and %q", err, perdure.Invalid, test.want)
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("%q repeats what may be a secret", err)
			}
		})
	}
}

// TestGuardedClient: without a client of the caller's the guarded one is used, which reaches the
// configured address.
func TestGuardedClient(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(anthropictest.New(script(t, talk()), anthropictest.Config{Key: key}))
	defer server.Close()

	h := listen(t, adapter(t, anthropic.Config{Name: "m", Key: key, BaseURL: server.URL}), hello)

	if h.err != nil || len(h.answer.Message.Calls()) != 3 {
		t.Errorf("got %s", h)
	}
}
