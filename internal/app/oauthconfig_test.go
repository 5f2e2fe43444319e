package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

const oneProvider = `{"redirect_url":"https://perdure.example/v1/connections/callback","providers":{"demo":{
	"authorize_url":"https://demo.example/authorize","token_url":"https://demo.example/token",
	"client_id":"${ID}","client_secret":"${SECRET}","scopes":["read"],"hosts":["api.demo.example"]}}}`

// TestOAuthConfig: variables are inserted, and what is wrong is refused without the secret.
func TestOAuthConfig(t *testing.T) {
	t.Parallel()
	getenv := func(name string) string { return map[string]string{"ID": "me", "SECRET": "do-not-show"}[name] }

	all, err := parseOAuthConfig([]byte(oneProvider), getenv)

	if one := all.All["demo"]; err != nil || one.ClientID != "me" || one.ClientSecret != "do-not-show" {
		t.Errorf("got %v, %v", one, err)
	}
	literal, err := parseOAuthConfig([]byte(strings.Replace(oneProvider, "${SECRET}", "do-$not-$5-show", 1)), getenv)
	if one := literal.All["demo"]; err != nil || one.ClientSecret != "do-$not-$5-show" {
		t.Errorf("a secret with a $: got %v, %v", one, err)
	}
	for what, text := range map[string]string{
		"an unknown field":          strings.Replace(oneProvider, `"scopes"`, `"scope"`, 1),
		"no client":                 strings.Replace(oneProvider, "${ID}", "", 1),
		"plain http":                strings.Replace(oneProvider, "https://demo.example/token", "http://demo.example/token", 1),
		"a host with a port":        strings.Replace(oneProvider, "api.demo.example", "api.demo.example:443", 1),
		"a parameter of the flow":   strings.Replace(oneProvider, `"scopes"`, `"parameters":{"state":"x"},"scopes"`, 1),
		"an unknown style":          strings.Replace(oneProvider, `"scopes"`, `"auth_style":"x","scopes"`, 1),
		"a user in a URL":           strings.Replace(oneProvider, "https://demo.example/token", "https://me@demo.example/token", 1),
		"no JSON":                   "providers:",
		"a name of the runtime":     strings.Replace(oneProvider, `"demo":`, `"perdure:demo":`, 1),
		"a variable that is unset":  strings.Replace(oneProvider, "${SECRET}", "${NOT_SET}", 1),
		"a redirect without a host": strings.Replace(oneProvider, "https://perdure.example/", "https:///", 1),
	} {
		_, err := parseOAuthConfig([]byte(text), getenv)
		if !errors.Is(err, perdure.Invalid) || strings.Contains(err.Error(), "do-not-show") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// FuzzOAuthConfig: whatever the file holds, it is read or refused.
func FuzzOAuthConfig(f *testing.F) {
	f.Add([]byte(oneProvider))
	f.Add([]byte(`{"providers":{}}`))
	f.Add([]byte(`{"providers":{"a":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if all, err := parseOAuthConfig(text, func(string) string { return "x" }); err == nil && all.Check() != nil {
			t.Fatalf("%q was accepted, and is wrong: %v", text, all.Check())
		}
	})
}
