package tool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

func TestAnnotationsOf(t *testing.T) {
	t.Parallel()
	yes, no := ptr(true), ptr(false)
	for name, c := range map[string]struct {
		spec tool.Spec
		want tool.Annotations
	}{
		"at most once, silent": {tool.Spec{Class: perdure.AtMostOnce}, tool.Annotations{Destructive: true, OpenWorld: true}},
		"idempotent, silent":   {tool.Spec{Class: perdure.Idempotent}, tool.Annotations{Destructive: true, OpenWorld: true}},
		"pure, silent":         {tool.Spec{Class: perdure.Pure}, tool.Annotations{ReadOnly: true, Idempotent: true, OpenWorld: true}},
		"of the session":       {tool.Spec{Class: perdure.Pure, SessionOnly: true}, tool.Annotations{ReadOnly: true, Idempotent: true}},
		"no is said": {
			tool.Spec{Class: perdure.AtMostOnce, Hints: tool.Hints{ReadOnly: no, Destructive: no, Idempotent: no, OpenWorld: no}}, tool.Annotations{},
		},
		"yes is said": {
			tool.Spec{Class: perdure.AtMostOnce, SessionOnly: true, Hints: tool.Hints{ReadOnly: no, Destructive: yes, Idempotent: yes, OpenWorld: yes}},
			tool.Annotations{Destructive: true, Idempotent: true, OpenWorld: true},
		},
		"what reads destroys nothing": {
			tool.Spec{Class: perdure.AtMostOnce, Hints: tool.Hints{ReadOnly: yes, Destructive: yes, Idempotent: no, OpenWorld: no}},
			tool.Annotations{ReadOnly: true, Idempotent: true},
		},
		"pure, but it says that it changes something": {
			tool.Spec{Class: perdure.Pure, Hints: tool.Hints{ReadOnly: no, OpenWorld: no}}, tool.Annotations{Destructive: true},
		},
	} {
		c.spec.Name, c.want.Title = "do_it", "do_it"
		if diff := cmp.Diff(c.want, tool.AnnotationsOf(c.spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := tool.AnnotationsOf(tool.Spec{Name: "do_it", DisplayName: "Do It"}).Title; got != "Do It" {
		t.Errorf("title %q", got)
	}
}
