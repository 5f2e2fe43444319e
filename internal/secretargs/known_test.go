package secretargs_test

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secretargs"
)

func TestKept(t *testing.T) {
	t.Parallel()
	const recorded = `{"command":"deploy --prod --token <redacted secret>","dir":"/a"}`
	for now, want := range map[string]bool{
		recorded: true,
		`{"dir":"/b","command":"deploy --prod --token \u003credacted secret\u003e"}`: true,
		`{"command":"deploy --staging --token correct horse","dir":"/a"}`:            true,
		`{"command":"deploy --staging --token <redacted secret>","dir":"/a"}`:        false,
		`{"command":"ls","dir":"<redacted secret>"}`:                                 false,
		`{"command":"ls","<redacted secret>":1}`:                                     false,
		`["<redacted secret>"]`:                                                      false,
		`{}`:                                                                         true,
	} {
		if got := secretargs.MarksIntact(json.RawMessage(recorded), json.RawMessage(now)); got != want {
			t.Errorf("%s: got %t, want %t", now, got, want)
		}
	}
}

// TestDropTurn: the end of a turn drops its calls, except those that continue as tasks and those
// that belong to no turn.
func TestDropTurn(t *testing.T) {
	t.Parallel()
	const schema, args = `{"properties":{"password":{"type":"string","writeOnly":true}}}`,
		`{"password":"correct horse"}`
	var v secretargs.Vault
	shown := map[perdure.CallID]json.RawMessage{}
	for _, call := range []perdure.CallID{"done", "lives", "stays"} {
		shown[call], _ = v.Remove(perdure.CallKey{Session: "s", Call: call}, json.RawMessage(schema),
			json.RawMessage(args))
	}
	v.KeepAcrossTurns(perdure.CallKey{Session: "s", Call: "stays"})
	v.KeepAcrossTurns(perdure.CallKey{Session: "s", Call: "never was"})

	v.DropTurn("s", func(call perdure.CallID) bool { return call == "lives" })
	v.DropTurn("another", func(perdure.CallID) bool { return false })

	for call, want := range map[perdure.CallID]bool{"done": false, "lives": true, "stays": true} {
		whole, _ := v.Fill(perdure.CallKey{Session: "s", Call: call}, json.RawMessage(schema), shown[call])
		if got := string(whole) == args; got != want {
			t.Errorf("%s: got %s, want it held: %t", call, whole, want)
		}
	}
}
