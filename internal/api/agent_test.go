package api_test

import (
	"testing"

	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// TestGiven: what the program was given, and the agents that are kept, are shown to whoever is of the installation's own org, and
// are not there for others.
func TestGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	kept := agent.Agent{ID: "agent_019aa0000000700080000000000000aa", Name: "reader", Overlay: agent.Overlay{SystemPrompt: "Read.", Tools: []string{"echo"}, InitialFiles: []agent.File{{Path: "/note", Content: "a"}}}}
	if err := r.store.InTx(t.Context(), func(tx store.Tx) (err error) { kept, err = tx.PutAgent(kept); return err }); err != nil {
		t.Fatal(err)
	}
	all := want[listed[engine.AgentEntry]](r, 200, get("/v1/agents?limit=2"))
	rest := want[listed[engine.AgentEntry]](r, 200, get("/v1/agents?limit=2&cursor="+all.Next))
	if len(all.Items) != 2 || all.Items[0].ID != "helper" || all.Items[0].Source != "given" || len(rest.Items) != 1 || rest.Items[0].ID != string(kept.ID) || rest.Items[0].Version != 1 {
		t.Errorf("got %+v, then %+v", all, rest)
	}
	for id, instructions := range map[string]string{"helper": "Be brief.", string(kept.ID): "Read."} {
		got := want[engine.EffectiveAgent](r, 200, get("/v1/agents/"+id+"/effective"))
		if got.Agent.Instructions != instructions || len(got.Agent.Tools) != 1 || (len(got.Files) == 1) != (id != "helper") {
			t.Errorf("%s: got %+v", id, got)
		}
	}
	if err := r.store.InTx(t.Context(), func(tx store.Tx) (err error) { kept.Status = agent.Archived; _, err = tx.PutAgent(kept); return err }); err != nil {
		t.Fatal(err)
	}
	r.refusal(r.do(get("/v1/agents/"+string(kept.ID)+"/effective")), 409, "conflict")
	if some := want[listed[engine.AgentEntry]](r, 200, get("/v1/agents?status=archived&source=kept")); len(some.Items) != 1 {
		t.Errorf("got %+v", some)
	}
	if c := want[engine.Connection](r, 200, post("/v1/connections/tickets/test", "")); c.State != engine.ConnectionReady {
		t.Errorf("got %+v", c)
	}
	r.refusal(r.do(post("/v1/connections/none/test", "")), 404, "not_found")

	stranger := r.let(`{"name":"other","org":"acme","scopes":["read","admin"]}`).Secret
	for _, path := range []string{"/v1/agents", "/v1/connections", "/v1/providers"} {
		if own := want[listed[map[string]any]](r, 200, get(path)); len(own.Items) == 0 {
			t.Errorf("%s has nothing", path)
		}
		if theirs := want[listed[map[string]any]](r, 200, get(path).as(stranger)); len(theirs.Items) != 0 {
			t.Errorf("%s: another org is shown %v", path, theirs)
		}
	}
	for _, q := range []ask{get("/v1/agents/helper"), get("/v1/agents/" + string(kept.ID)), get("/v1/agents/helper/effective"), post("/v1/connections/tickets/test", "")} {
		r.refusal(r.do(q.as(stranger)), 404, "not_found")
	}
}
