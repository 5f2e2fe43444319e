package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// vault is an engine that stores secrets.
type vault struct {
	*scene
	kept engine.SecretWrite
}

// vaultSecrets implements engine.Secrets for vault.
type vaultSecrets struct {
	engine.Secrets
	*vault
}

// Secrets implements engine.Engine.
func (v *vault) Secrets() engine.Secrets { return vaultSecrets{nil, v} }

func (v vaultSecrets) List(context.Context, perdure.SessionID) ([]engine.Secret, error) {
	return []engine.Secret{{Name: "KEY", Version: 1, Hosts: []string{"a.example.com"}}}, nil
}

func (v vaultSecrets) Set(_ context.Context, _ perdure.SessionID, w engine.SecretWrite) error {
	v.kept = w
	return nil
}

// TestC11Prompt checks that a secret from a terminal is stored exactly as typed, and shown nowhere.
func TestC11Prompt(t *testing.T) {
	t.Parallel()
	restored := 0
	keys := func() (func() error, error) { return func() error { restored++; return nil }, nil }
	none := func() (func() error, error) { return nil, errors.New("no stty") }
	terminal := Terminal{Stdin: true, Stdout: true, Stderr: true}
	for _, test := range []struct {
		name string
		command
		code int
		want string
	}{
		{"typed", command{args: "secret rotate last KEY", terminal: terminal, keys: keys, stdin: "s3crex\x7ft\r"}, exitOK, "s3cret"},
		{"nothing typed", command{args: "secret rotate last KEY", terminal: terminal, keys: keys, stdin: "\r"}, exitError, ""},
		{"the input ends", command{args: "secret rotate last KEY", terminal: terminal, keys: keys, stdin: "s3cret"}, exitError, ""},
		{"the terminal cannot hide it", command{args: "secret set last KEY", terminal: terminal, keys: none, stdin: "s3cret\r"}, exitUsage, ""},
		{"nobody may ask", command{args: "secret set last KEY --no-input", terminal: terminal, keys: keys, stdin: "s3cret\r"}, exitApproval, ""},
		{"piped", command{args: "secret rotate last KEY", stdin: "s3cret\r\n"}, exitOK, "s3cret"},
		{"piped, with line ends of its own", command{args: "secret rotate last KEY -o json", stdin: "s3\n\ncret\n"}, exitOK, "s3\n\ncret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			safe := &vault{scene: &scene{sessions: sessionsOf("session_1")}}
			test.command.engine = safe
			before := restored
			code, out, talk := test.command.run(t.Context())
			if code != test.code || safe.kept.Value != test.want {
				t.Errorf("exit code %d, want %d, kept %q: %s", code, test.code, safe.kept.Value, talk)
			}
			if test.want != "" && strings.Join(safe.kept.Hosts, " ") != "a.example.com" {
				t.Errorf("it may be sent to %v now", safe.kept.Hosts)
			}
			if strings.Contains(out+talk, "s3") {
				t.Errorf("it was shown: %q %q", out, talk)
			}
			if strings.Contains(test.name, "typed") && restored == before {
				t.Error("the terminal was not given back")
			}
		})
	}
}
