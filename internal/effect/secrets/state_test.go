package secrets_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

// known has the secrets of a session.
type known struct{ *redact.Set }

func (known) Any() bool                   { return true }
func (known) Complete() error             { return nil }
func (k known) Stream() tool.StreamMasker { return k.Set.Stream() }

// TestStateWithSecret: a field of the provider's state is stored as it came or not at all. A masked
// one would not be accepted, and an escape must not hide a secret.
func TestStateWithSecret(t *testing.T) {
	t.Parallel()
	bed := effecttest.New(t, func(cfg *core.Config) {
		cfg.Ports.Open = func(perdure.SessionID, tool.Call) tool.Ports {
			return tool.Ports{SecretMasker: known{redact.NewSet(`horse"battery`)}}
		}
	})
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	call := perdure.ToolCall{ID: "a", Name: "none", Arguments: raw(`{}`), ProviderFields: map[string]json.RawMessage{
		"kept": raw(`{"s":"c2ln"}`), "dropped": raw(`{"deep":["x horse\"battery y"]}`),
	}}
	m := perdure.Message{Thinking: `They said horse"battery.`, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &call}},
		State: &perdure.ProviderState{Family: "f", ThinkingAs: []string{"reasoning"}, Fields: map[string]json.RawMessage{
			"signature": raw(`"c2ln"`), "escaped": raw(`"\u0068orse\"battery"`), "name": raw(`{"horse\"battery":1}`),
		}}}

	got := bed.Secrets.Redact(&perdure.Session{ID: bed.Session}, m)

	want := &perdure.ProviderState{Family: "f", Fields: map[string]json.RawMessage{"signature": raw(`"c2ln"`)}}
	if diff := cmp.Diff(want, got.State); diff != "" || got.Thinking != "" {
		t.Errorf("thinking %q, state (-want +got):\n%s", got.Thinking, diff)
	}
	if diff := cmp.Diff(map[string]json.RawMessage{"kept": raw(`{"s":"c2ln"}`)}, got.Calls()[0].ProviderFields); diff != "" {
		t.Errorf("fields of the call (-want +got):\n%s", diff)
	}
}
