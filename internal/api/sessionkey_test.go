package api_test

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// TestSessionKey: a session is found by the key of its caller, and only the same agent gets it.
func TestSessionKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const order = `{"key":"order 7/ü","agent":{"name":"one"},"title":"Seven"}`

	first := want[engine.Session](r, 201, post("/v1/sessions", order))
	again := want[engine.Session](r, 201, post("/v1/sessions", order))
	other := want[engine.Session](r, 201, post("/v1/sessions", `{"key":"order 8/ü","agent":{"name":"one"}}`))

	if first.ID != perdure.SessionIDForKey(budget.DefaultOrg, "order 7/ü") || again.ID != first.ID || again.Title != "Seven" || other.ID == first.ID {
		t.Errorf("got %+v, then %+v, and %s for another key", first, again, other.ID)
	}
	r.refusal(r.do(post("/v1/sessions", `{"key":"order 7/ü","agent":{"name":"two"}}`)), 409, "conflict")
	for _, wrong := range []string{
		`{"key":"k"}`, `{"key":"k","agent_id":"helper"}`,
		`{"key":"k","agent":{},"id":"session_019aa0000000700080000000000000aa"}`,
		`{"agent":{},"id":"` + string(first.ID) + `"}`, `{"agent":{"max_iterations":-1}}`,
	} {
		r.refusal(r.do(post("/v1/sessions", wrong)), 400, "invalid")
	}
	if list := want[taskInList[engine.Session]](r, 200, get("/v1/sessions?roots=true")).Items; len(list) != 2 {
		t.Errorf("%d root sessions, want 2", len(list))
	}
}
