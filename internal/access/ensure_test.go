package access_test

import (
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// TestKeysOfOrgs: each org has keys of its own, and none can take the session of another one's key.
func TestKeysOfOrgs(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	ada, bob, eve := as(t, "acme", "ada"), as(t, "acme", "bob"), as(t, "evil", "eve")
	theirs := perdure.SessionIDForKey("acme", "orders")

	_, squat := g.Sessions().CreateAs(eve, theirs, perdure.Agent{})
	own := must1(g.Sessions().Create(eve, perdure.Agent{}))
	_, forked := g.Sessions().Fork(eve, own.ID, engine.Fork{ID: theirs})
	_, ordered := g.Sessions().CreateFromAgent(eve, engine.AgentSessionRequest{ID: theirs, Agent: "helper"})
	made := must1(g.Sessions().Ensure(ada, "orders", perdure.Agent{}))
	again := must1(g.Sessions().Ensure(bob, "orders", perdure.Agent{}))
	foreign := must1(g.Sessions().Ensure(eve, "orders", perdure.Agent{}))

	if made.ID != theirs || again.ID != theirs || made.Org != "acme" || made.User != "ada" {
		t.Errorf("got %+v and %s, want the session %s of acme", made, again.ID, theirs)
	}
	if foreign.ID == theirs || foreign.Org != "evil" {
		t.Errorf("got %+v, want a session of the other org", foreign)
	}
	for what, err := range map[string]error{"create": squat, "fork": forked} {
		if !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s with the id of a key: %v, want Invalid", what, err)
		}
	}
	if ordered == nil {
		t.Error("a session of an agent got the id of a key")
	}
	if _, err := g.Sessions().Get(eve, theirs); !errors.Is(err, perdure.NotFound) {
		t.Errorf("another org sees %v, want NotFound", err)
	}
}
