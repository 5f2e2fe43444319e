package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/scripted"
)

// refuses is a model server that refuses every request, and returns the key that it received.
func refuses(status int, kind, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"code":%q,"message":"model: small, key: %s%s"}}`,
			kind, code, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
	}
}

// TestProviderTried tests models of servers that speak the protocols of the providers, over HTTP:
// with the right key, with another one, without one, and without a server. The output contains no
// key. It sets environment variables, so it is not parallel.
func TestProviderTried(t *testing.T) {
	const key, wrong = "k-secret-of-this-test", "k-wrong-of-this-test"
	word, err := scripted.Parse("word", []byte("steps:\n  - text: ok\n    repeat: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	serve := func(h http.Handler) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server.URL
	}
	echo := refuses(http.StatusUnauthorized, "authentication_error", "")
	busy := refuses(http.StatusTooManyRequests, "rate_limit_error", "")
	unknown := refuses(http.StatusNotFound, "not_found_error", "model_not_found") // in the terms of both
	silent := httptest.NewServer(echo)
	silent.Close()
	openai, anthropic := serve(openaitest.New(word, openaitest.Config{Key: key}))+"/v1", serve(anthropictest.New(word, anthropictest.Config{Key: key}))
	echoes, limits, lacks := serve(echo), serve(busy), serve(unknown)
	known := secretsOf(func(name string) string { return map[string]string{openaiKey: key, anthropicKey: wrong}[name] })

	for _, c := range []struct {
		name, key string // key of both providers
		want      string
	}{
		{"openai:small@" + openai, key, engine.TestOK},
		{"anthropic:small@" + anthropic, key, engine.TestOK},
		{"openai:small@" + openai, wrong, engine.TestRefused},
		{"anthropic:small@" + anthropic, wrong, engine.TestRefused},
		{"openai:small@" + echoes, key, engine.TestRefused},
		{"anthropic:small@" + echoes, wrong, engine.TestRefused},
		{"openai:small@" + limits, key, engine.TestRateLimited},
		{"anthropic:small@" + limits, key, engine.TestRateLimited},
		{"openai:small@" + lacks, key, engine.TestNoModel},
		{"anthropic:small@" + lacks, key, engine.TestNoModel},
		{"openai:small@" + silent.URL, key, engine.TestUnreachable},
		{"anthropic:small@" + silent.URL, key, engine.TestUnreachable},
		{"openai:small", "", engine.TestKeyMissing},
		{"anthropic:small", " ", engine.TestKeyMissing},
	} {
		t.Setenv(openaiKey, c.key)
		t.Setenv(anthropicKey, c.key)
		got, err := testModel(t.Context(), c.name, nil, known)
		if err != nil || got.Result != c.want || got.Model != c.name {
			t.Errorf("%s with %q: got %+v, %v, want %s", c.name, c.key, got, err, c.want)
			continue
		}
		if text := got.Why + got.Code; strings.Contains(text, key) || strings.Contains(text, wrong) {
			t.Errorf("%s: a key is in %q", c.name, text)
		}
		switch c.want {
		case engine.TestOK:
			if got.LatencyMS < 1 || got.Why != "" || got.Code != "" {
				t.Errorf("%s: got %+v", c.name, got)
			}
		case engine.TestKeyMissing:
			if got.Variable != map[string]string{"openai": openaiKey, "anthropic": anthropicKey}[got.Provider] || got.LatencyMS != 0 {
				t.Errorf("%s: got %+v", c.name, got)
			}
		default:
			if got.Why == "" {
				t.Errorf("%s: nothing says why", c.name)
			}
		}
	}
	for _, name := range []string{"", "small", "other:small", "scripted:none.yaml"} {
		if got, err := testModel(t.Context(), name, nil, known); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: got %+v, %v, want it Invalid", name, got, err)
		}
	}
}
