package perdure_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestInsertSecrets: a reference is found where it stands for a secret, and nowhere else.
func TestInsertSecrets(t *testing.T) {
	t.Parallel()
	values := map[perdure.SecretRef]string{"secret:KEY": "k-1", "secret:a.b": "v", "secret:K": "short", "secret:EMPTY": "",
		"secret:LOOP": "secret:KEY", "connection:github": "token"}
	for _, one := range []struct{ text, want string }{
		{"", ""},
		{"Bearer secret:KEY", "Bearer k-1"},
		{"secret:KEY", "k-1"},
		{"secret:KEY.", "k-1."},
		{"secret:KEY-", "k-1-"},
		{"secret:a.b, secret:K;", "v, short;"},
		{"x=secret:KEY&y=secret:KEY", "x=k-1&y=k-1"},
		{"secret:KEYS", "secret:KEYS"},
		{"my-secret:KEY", "my-secret:KEY"},
		{"mysecret:KEY", "mysecret:KEY"},
		{"secret:", "secret:"},
		{"secret: KEY", "secret: KEY"},
		{"secret:secret:KEY", "secret:secret:KEY"},
		{"SECRET:KEY", "SECRET:KEY"},
		{"[secret:EMPTY]", "[]"},
		{"secret:LOOP", "secret:KEY"},
		{"secret%3AKEY", "secret%3AKEY"},
		{"Bearer connection:github, secret:K", "Bearer token, short"},
		{"secret:connection:github", "secret:connection:github"},
		{"connection:secret:K", "connection:secret:K"},
	} {
		got := perdure.InsertSecrets(one.text, func(ref perdure.SecretRef) (string, bool) {
			value, ok := values[ref]
			return value, ok
		})
		if got != one.want {
			t.Errorf("%q became %q, want %q", one.text, got, one.want)
		}
	}
}

// TestSecretRefs: a request names the secrets of its URL and its header, each once.
func TestSecretRefs(t *testing.T) {
	t.Parallel()
	got := perdure.WebRequest{URL: "https://a.example/secret:P?k=secret:Q", Header: map[string][]string{
		"Authorization": {"Bearer secret:T"}, "X": {"secret:Q", "connection:hub"}}}.SecretRefs()

	if diff := cmp.Diff([]perdure.SecretRef{"connection:hub", "secret:P", "secret:Q", "secret:T"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestWebSecretHidesItsValue: no way of printing a secret shows it.
func TestWebSecretHidesItsValue(t *testing.T) {
	t.Parallel()
	s := perdure.WebSecret{Ref: "secret:KEY", Value: "do-not-show", Hosts: []string{"a.example"}}

	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, s); strings.Contains(text, s.Value) {
			t.Errorf("%s shows %s", verb, text)
		}
		if text := fmt.Sprintf(verb, perdure.WebRequest{Secrets: []perdure.WebSecret{s}}); strings.Contains(text, s.Value) {
			t.Errorf("%s of a request shows %s", verb, text)
		}
	}
}

// FuzzInsertSecrets: whatever the text, only references are replaced.
func FuzzInsertSecrets(f *testing.F) {
	for _, text := range []string{"", "secret:", "secret:KEY", "secret:KEYsecret:KEY", "a secret:KEY.", "secret:secret:KEY"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		same := perdure.InsertSecrets(text, func(perdure.SecretRef) (string, bool) { return "x", false })
		if same != text {
			t.Fatalf("%q became %q without a replacement", text, same)
		}
		names := 0
		got := perdure.InsertSecrets(text, func(ref perdure.SecretRef) (string, bool) {
			names++
			name := ref.Secret() + ref.Provider()
			if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
				t.Fatalf("%q has the name %q", text, name)
			}
			return string(ref), true
		})
		if got != text {
			t.Fatalf("%q became %q though each reference was replaced by itself", text, got)
		}
		if names > strings.Count(text, "secret:")+strings.Count(text, "connection:") {
			t.Fatalf("%q has %d references", text, names)
		}
	})
}
