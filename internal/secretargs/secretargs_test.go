package secretargs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/tool"
)

const schema = `{"type":"object","properties":{"name":{"type":"string"},"value":{"writeOnly":true,"type":"string"},"deep":{"type":"object","properties":{"x":{"writeOnly":true}}}}}`

// TestTakeAndFill checks that what is secret, or may be, is removed, and comes back for its own
// call only.
func TestTakeAndFill(t *testing.T) {
	t.Parallel()
	key, other := perdure.CallKey{Session: "s", Call: "c"}, perdure.CallKey{Session: "s", Call: "d"}
	for _, c := range []struct{ args, shown string }{
		{`{"name":"n"}`, `{"name":"n"}`},
		{`{"value":"horse","name":"n"}`, `{"name":"n","value":"<redacted>"}`},
		{`{"value":7,"deep":{"x":"horse"}}`, `{"deep":"<redacted>","value":"<redacted>"}`},
		{`{"Value":"horse","secret":"horse"}`, `{"Value":"<redacted>","secret":"<redacted>"}`},
		{`"{\"value\":\"horse"`, `"<redacted>"`},
		{`{"value":"horse","value":"horse"}`, `"<redacted>"`},
	} {
		var v Vault
		shown, some := v.Remove(key, json.RawMessage(schema), json.RawMessage(c.args))
		if string(shown) != c.shown || some != (c.args != c.shown) {
			t.Errorf("%s: shown is %s, %v, want %s", c.args, shown, some, c.shown)
		}
		if !some {
			continue
		}
		whole, _ := v.Fill(key, json.RawMessage(schema), shown)
		if strings.Contains(string(whole), redact.Mark) || CheckLost(json.RawMessage(schema), whole) != nil {
			t.Errorf("%s: came back as %s", c.args, whole)
		}
		if lost, _ := v.Fill(other, json.RawMessage(schema), shown); CheckLost(json.RawMessage(schema), lost) == nil {
			t.Errorf("%s: another call has %s", c.args, lost)
		}
		v.Drop(key)
		if lost, _ := v.Fill(key, json.RawMessage(schema), shown); CheckLost(json.RawMessage(schema), lost) == nil {
			t.Errorf("%s: after it was dropped it is %s", c.args, lost)
		}
	}
}

// TestResultStaysJSON checks that a masked result is valid JSON, whatever the secret is.
func TestResultStaysJSON(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"correct horse", `","b":"xyz`, "12345678", "a\"b\\c\n1234"} {
		v := New(nil, redact.NewSet(value))
		for _, body := range []any{map[string]string{"a": value}, []any{value, "b", 1}, 12345678, value} {
			record, err := v.Result(tool.Success(body)).Record("c")
			if err != nil || !json.Valid(record.Result) || strings.Contains(string(record.Result), value) {
				t.Errorf("%q in %v: %s, %v", value, body, record.Result, err)
			}
		}
	}
}

// TestFaultTellsNoPart checks that a validation error contains no secret, nor part of one that was
// cut.
func TestFaultTellsNoPart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 40)
	args := json.RawMessage(`{"name":"n","value":"` + long + `"}`)
	for text, want := range map[string]string{
		"/name: is required":                "/name: is required",
		"/value: '" + long + "' is none":    "/value: '<redacted>' is none",
		"/value: '" + long[:300] + "…":      "",
		"/value: cannot read " + long[9:17]: "",
	} {
		got := SafeFault(json.RawMessage(schema), args, text)
		if want != "" && got != want || want == "" && !strings.HasPrefix(got, "Invalid arguments: a secret argument") {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
	if got := SafeFault(json.RawMessage(`{"type":"object"}`), args, long); got != long {
		t.Errorf("of a tool without secrets: got %q", got)
	}
}

// asked is a dialog that stores the question.
type asked struct {
	tool.Dialog
	tool.Question
}

// Ask stores the question.
func (a *asked) Ask(_ context.Context, q tool.Question) (tool.Reply, error) {
	a.Question = q
	return tool.Reply{}, nil
}

// TestQuestionsAreMasked checks that no part of a question reveals a secret, and that it can still
// be answered.
func TestQuestionsAreMasked(t *testing.T) {
	t.Parallel()
	for secret, want := range map[string]string{"correct horse": `{"enum":["<redacted>"],"maximum":12345678}`,
		"12345678": ""} {
		var to asked
		wanted := []perdure.Permission{{Kind: "host", Target: secret, Reason: "since " + secret}}
		_, err := New(nil, redact.NewSet(secret)).Dialog(&to).Ask(t.Context(), tool.Question{
			Prompt:   "is it " + secret + "?",
			Expected: []byte(`{"enum":["correct horse"],"maximum":12345678}`), Permissions: wanted,
		})
		if err != nil || to.Prompt != "is it <redacted>?" || string(to.Expected) != want ||
			wanted[0].Target != secret ||
			len(to.Permissions) != 1 || to.Permissions[0] != (perdure.Permission{Kind: "host", Target: "<redacted>",
			Reason: "since <redacted>"}) {
			t.Errorf("asked was %+v, %v", to.Question, err)
		}
	}
}

// TestResultIsMasked checks that every part of a result is masked, the summary too.
func TestResultIsMasked(t *testing.T) {
	t.Parallel()
	const secret = "correct horse"
	v := New(nil, redact.NewSet(secret))
	r := v.Result(tool.Success(map[string]string{"a": secret}).WithRaw(secret).WithSummary("it is " + secret))
	record, err := r.Record("call_1")
	if err != nil || record.Summary != "it is <redacted>" ||
		strings.Contains(string(record.Result)+*record.RawOutput, secret) {
		t.Errorf("got %+v, raw %q, %v", record, *record.RawOutput, err)
	}
}

// TestLetGo checks that what was held is dropped for a released session, and then for all.
func TestLetGo(t *testing.T) {
	t.Parallel()
	var v Vault
	one, other := perdure.CallKey{Session: "one", Call: "c"}, perdure.CallKey{Session: "other", Call: "c"}
	for _, key := range []perdure.CallKey{one, other} {
		v.Remove(key, json.RawMessage(schema), json.RawMessage(`{"value":"horse"}`))
	}
	lost := func(key perdure.CallKey) bool {
		whole, _ := v.Fill(key, json.RawMessage(schema), json.RawMessage(`{"value":"<redacted>"}`))
		return CheckLost(json.RawMessage(schema), whole) != nil
	}
	if v.DropSession("one"); !lost(one) || lost(other) {
		t.Error("one session is dropped, and not the other")
	}
	if v.DropAll(); !lost(other) || len(v.held) != 0 {
		t.Errorf("left is %v", v.held)
	}
}
