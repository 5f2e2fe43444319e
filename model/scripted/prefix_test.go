package scripted_test

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
)

// TestPrefix: the rest of an answer, and its calls, come after what it is to go on from (TN20).
func TestPrefix(t *testing.T) {
	t.Parallel()
	const script = "steps: [{text: It is in the drawer., chunk: 4, calls: [{name: look, args: {}}]}]"
	plain, err := scripted.Parse("plain", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Parse("prefix", []byte("prefix: true\n"+script))
	if err != nil {
		t.Fatal(err)
	}
	if plain.ContinuesFrom("") || !m.ContinuesFrom("any") {
		t.Errorf("without prefix: %t, with: %t", plain.ContinuesFrom(""), m.ContinuesFrom("any"))
	}
	ask := func(prefix string) (model.Answer, error) {
		return model.Collect(m.Stream(t.Context(), model.Request{Messages: []perdure.Message{perdure.Text("Where?")}, Prefix: prefix}), nil)
	}

	for prefix, rest := range map[string]string{"": "It is in the drawer.", "It is in": " the drawer.", "It is in the drawer.": ""} {
		a, err := ask(prefix)
		if err != nil || a.Message.Text() != rest || len(a.Message.Calls()) != 1 || a.Finish != model.FinishCalls {
			t.Errorf("after %q: got %+v, %v", prefix, a, err)
		}
		if whole := a.WithPrefix(prefix); whole.Message.Text() != "It is in the drawer." || len(whole.Message.Calls()) != 1 {
			t.Errorf("after %q: the whole is %+v", prefix, whole.Message)
		}
	}

	var failed *model.Error
	if _, err := ask("It was"); !errors.As(err, &failed) || failed.Code != model.Processing {
		t.Errorf("of another reply: got %v", err)
	}
}
