package perdure_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func TestLabelsCheck(t *testing.T) {
	t.Parallel()
	many := perdure.Labels{}
	for i := range perdure.MaxLabels {
		many[fmt.Sprint(i)] = ""
	}
	for _, good := range []perdure.Labels{nil, {}, {"a": ""}, {"a.b_c/d-e": "Zürich ✓ =,"}, {strings.Repeat("a", 63): strings.Repeat("x", 256)}, many} {
		if err := good.Check(); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	more := maps.Clone(many)
	more["one-more"] = ""
	for name, bad := range map[string]perdure.Labels{
		"too many": more, "no key": {"": "x"}, "capitals": {"Env": "x"}, "a dot first": {".a": "x"}, "a dash last": {"a-": "x"}, "an equals sign": {"a=b": "x"},
		"no ASCII": {"ä": "x"}, "a long key": {strings.Repeat("a", 64): "x"}, "a long value": {"a": strings.Repeat("x", 257)},
		"a control character": {"a": "x\ty"}, "C1": {"a": "\u0085"}, "no UTF-8": {"a": "\xff"},
	} {
		if err := bad.Check(); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLabelChanges(t *testing.T) {
	t.Parallel()
	one, two := "1", "2"
	old := perdure.Labels{"a": "1", "b": "1"}
	c := perdure.LabelChanges{"a": &two, "b": nil, "c": &one, "d": nil}

	next := old.With(c)

	if !maps.Equal(next, perdure.Labels{"a": "2", "c": "1"}) || !maps.Equal(old, perdure.Labels{"a": "1", "b": "1"}) {
		t.Errorf("got %v, and the old ones are %v", next, old)
	}
	if left := c.Against(old); len(left) != 3 || left["a"] != &two || left["c"] != &one {
		t.Errorf("new of the changes is %v", left)
	}
	if left := c.Against(next); len(left) != 0 {
		t.Errorf("again, new of the changes is %v", left)
	}
	if gone := old.With(perdure.LabelChanges{"a": nil, "b": nil}); gone != nil {
		t.Errorf("all removed: %v", gone)
	}
}

func TestLabelTerms(t *testing.T) {
	t.Parallel()
	for _, good := range []perdure.LabelTerm{"a", "a=", "a=b", "a=b=c"} {
		if err := good.Check(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []perdure.LabelTerm{"", "=", "=b", "A=b", "a=\n"} {
		if err := bad.Check(); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if err := make(perdure.LabelFilter, perdure.MaxLabelTerms+1).Check(); !errors.Is(err, perdure.Invalid) {
		t.Errorf("too many terms: %v", err)
	}
	if f := (perdure.LabelFilter{"a=b=c"}); !f.Matches(perdure.Labels{"a": "b=c"}) || f.Matches(perdure.Labels{"a": "b"}) {
		t.Error("a value with an equals sign is not matched whole")
	}
}

// TestLabelsOfASession: they begin with the agent's, change with each event, and a snapshot keeps
// them.
func TestLabelsOfASession(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{Labels: perdure.Labels{"env": "test", "draft": "yes"}})
	prod := "prod"
	w.intend(perdure.SessionUpdated{Labels: perdure.LabelChanges{"env": &prod, "draft": nil}})
	w.wake()

	body, err := perdure.EncodeSnapshot(w.session)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := perdure.DecodeSnapshot(perdure.FoldVersion, body)
	if err != nil || !maps.Equal(w.session.Labels, perdure.Labels{"env": "prod"}) || !maps.Equal(kept.Labels, w.session.Labels) {
		t.Errorf("got %v, and of the snapshot %v, %v", w.session.Labels, kept.Labels, err)
	}
	if !maps.Equal(w.session.Agent.Labels, perdure.Labels{"env": "test", "draft": "yes"}) {
		t.Errorf("the agent's are %v", w.session.Agent.Labels)
	}
}
