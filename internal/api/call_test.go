package api_test

import (
	"testing"

	"github.com/perdure/perdure/engine"
)

// TestH7Location: what made a task says where it is.
func TestH7Location(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	for name, q := range map[string]ask{"a call": post(s+"/calls", `{"tool":"echo","args":{"text":"a"}}`), "a retry": post(r.canceled()+"/retry", `{}`)} {
		got := r.do(keyed(q, "one"))
		made := read[engine.HostCall](t, got.body)
		if got.status != 202 || made.Task == nil || got.header.Get("Location") != "/v1/tasks/"+string(made.Task.ID) {
			t.Errorf("%s: got %d at %q: %s", name, got.status, got.header.Get("Location"), got.body)
		}
		if again := r.do(keyed(q, "one")); again.header.Get("Location") != got.header.Get("Location") {
			t.Errorf("%s again: at %q", name, again.header.Get("Location"))
		}
	}
	if got := r.do(get("/v1/tasks")); got.header.Get("Location") != "" {
		t.Errorf("got %v", got.header)
	}
}
