package api_test

import (
	"testing"

	"github.com/perdure/perdure"
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

// TestUnknownCallAgain: while the outcome of a call is unknown, the same call is that call, unless
// its request has a new key that is the caller's own.
func TestUnknownCallAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	calls := r.session() + "/calls"
	first := read[engine.HostCall](t, r.do(post(calls, `{"tool":"charge","args":{"text":"a"}}`)).body)
	r.entered("charge")
	r.restart()
	if done := want[perdure.Task](r, 200, get("/v1/tasks/"+string(first.Task.ID)+"?wait=20s")); done.State != perdure.TaskUnknown {
		t.Fatalf("got %s, want an unknown task", done.State)
	}

	for name, q := range map[string]ask{
		"without a key": post(calls, `{"tool":"charge","args":{"text":"a"}}`), "under a key of a library": keyed(post(calls, `{"tool":"charge","args":{"text":"a"},"unnamed":true}`), "one"),
	} {
		if again := read[engine.HostCall](t, r.do(q).body); again.ID != first.ID || !again.Joined || again.Result == nil || again.Result.ErrorKind != perdure.ErrorUnknown {
			t.Errorf("%s: got %+v, want the unknown outcome of %s", name, again, first.ID)
		}
	}
	if meant := read[engine.HostCall](t, r.do(keyed(post(calls, `{"tool":"charge","args":{"text":"a"}}`), "two")).body); meant.ID == first.ID || meant.Task == nil {
		t.Errorf("under a new key: got %+v, want a new call", meant)
	}
	r.entered("charge")
}
