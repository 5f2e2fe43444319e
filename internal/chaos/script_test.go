package chaos

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/model/scripted"
)

// TestMixedObeysEachWord checks that the script is readable and has a rule for each word.
func TestMixedObeysEachWord(t *testing.T) {
	t.Parallel()
	var all []engine.Tool
	for _, w := range messageKinds() {
		for name := range strings.FieldsSeq(w.tools) {
			all = append(all, engine.Tool{Name: name})
		}
	}

	mix, err := NewMixedAgent(all, `'/a b/perdure' chaos-part effect --ledger /x`, nil)

	if err != nil {
		t.Fatal(err)
	}
	if _, err := scripted.Parse("agent", mix.Script); err != nil {
		t.Error(err)
	}
	for _, w := range messageKinds() {
		word := "do:" + w.name + ";"
		if !slices.Contains(mix.Messages, word) || !strings.Contains(string(mix.Script), `user_contains: "`+word+`"`) {
			t.Errorf("no rule for %s", word)
		}
	}
	if strings.Contains(string(mix.Script), "PERDURE_EFFECT") || !strings.Contains(string(mix.Script), "'/a b/perdure' chaos-part") {
		t.Error("the command of effects is not filled in")
	}
}

func TestMixedTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	mix, err := NewMixedAgent([]engine.Tool{{Name: "add"}}, "x", nil)
	if err != nil || !slices.Equal(mix.Messages, []string{"do:sum;"}) {
		t.Errorf("got %v, %v", mix.Messages, err)
	}
	if _, err := NewMixedAgent(nil, "x", nil); !errors.Is(err, perdure.Invalid) {
		t.Errorf("no tools: %v", err)
	}
	if _, err := NewMixedAgent(nil, "x", []string{"pay"}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("no such tool: %v", err)
	}
	pay := engine.Tool{Name: "pay", Background: true, Parameters: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`)}
	mix, err = NewMixedAgent([]engine.Tool{pay, {Name: spawner}}, "x", []string{"pay"})
	if err != nil || !slices.Equal(mix.Messages, []string{"do:call-pay;", "do:spawn-pay;"}) {
		t.Fatalf("got %v, %v", mix.Messages, err)
	}
	if _, err := scripted.Parse("agent", mix.Script); err != nil {
		t.Errorf("%s: %v", mix.Script, err)
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object"}`, `{}`},
		{`{"type":"object","properties":{"a":{"type":"integer","minimum":3},"b":{"type":"string"}},"required":["a"]}`, `{"a":3}`},
		{`{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"const":7},"c":{"default":[1]}},"required":["a","b","c"]}`, `{"a":"x","b":7,"c":[1]}`},
		{`{"type":"object","properties":{"a":{"type":["null","array"],"minItems":2,"items":{"type":"boolean"}}},"required":["a"]}`, `{"a":[false,false]}`},
		{`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"number"}},"required":["b"]}},"required":["a"]}`, `{"a":{"b":1}}`},
		{`{"type":"object","properties":{"a":{"type":"string","minLength":10}},"required":["a"]}`, `{"a":"{{user}}.."}`},
	} {
		args, err := Sample(json.RawMessage(c.schema))
		text, _ := json.Marshal(args)
		if err != nil || string(text) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.schema, text, err, c.want)
		}
	}
	for _, text := range []string{`nonsense`, `{"type":"string"}`, `{"type":"object","properties":{"a":{"type":"string","pattern":"^x$"}},"required":["a"]}`} {
		if args, err := Sample(json.RawMessage(text)); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, %v", text, args, err)
		}
	}
}
