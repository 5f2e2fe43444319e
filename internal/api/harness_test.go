package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine"
)

// TestHarnesses: what agents stand on is kept under a name, one on the other; what it says is in
// the sessions that begin, and it is deleted when nothing stands on it.
func TestHarnesses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	made := r.do(put("/v1/harnesses/house", `{"system_prompt":"Be kind.","tools":["echo"]}`))
	house, tag := read[engine.HarnessEntry](t, made.body), made.header.Get("ETag")
	if made.status != 200 || house.Name != "house" || house.Version != 1 || house.Status != "active" || tag == "" {
		t.Fatalf("got %d %v %s", made.status, made.header, made.body)
	}
	if shown := r.do(get("/v1/harnesses/house")); string(shown.body) != string(made.body) || shown.header.Get("ETag") != tag {
		t.Errorf("got %s %s, want %s", shown.header.Get("ETag"), shown.body, made.body)
	}
	team := want[engine.HarnessEntry](r, 200, put("/v1/harnesses/team", `{"parent_id":"`+string(house.ID)+`","system_prompt":"Be quick."}`))
	reader := want[engine.AgentEntry](r, 200, put("/v1/agents/reader", `{"harness_id":"`+string(team.ID)+`","system_prompt":"Read."}`))
	folded := want[engine.EffectiveAgent](r, 200, get("/v1/agents/reader/effective"))
	for _, words := range []string{"Be kind.", "Be quick.", "Read."} {
		if !strings.Contains(folded.Agent.Instructions, words) {
			t.Errorf("%q is not in %q", words, folded.Agent.Instructions)
		}
	}
	if !slices.Equal(folded.Agent.Tools, []string{"echo"}) {
		t.Errorf("got the tools %v", folded.Agent.Tools)
	}

	change := put("/v1/harnesses/house", `{"system_prompt":"Be polite."}`)
	r.refusal(r.do(change), 428, "precondition_required")
	r.refusal(r.do(since(change, `"another"`)), 412, "precondition_failed")
	r.refusal(r.do(since(put("/v1/harnesses/nobody", `{}`), tag)), 412, "precondition_failed")
	if second := want[engine.HarnessEntry](r, 200, since(change, tag)); second.ID != house.ID || second.Version != 2 {
		t.Errorf("got %+v", second)
	}
	r.refusal(r.do(since(put("/v1/harnesses/house", `{}`), tag)), 412, "precondition_failed")
	if folded := want[engine.EffectiveAgent](r, 200, get("/v1/agents/reader/effective")); !strings.Contains(folded.Agent.Instructions, "Be polite.") {
		t.Errorf("got %q", folded.Agent.Instructions)
	}

	circle := since(put("/v1/harnesses/house", `{"parent_id":"`+string(team.ID)+`"}`), "*")
	r.refusal(r.do(circle), 400, "invalid")
	r.refusal(r.do(put("/v1/harnesses/lost", `{"parent_id":"harness_019aa0000000700080000000000000aa"}`)), 400, "invalid")
	r.refusal(r.do(put("/v1/harnesses/harness_019aa0000000700080000000000000aa", `{}`)), 404, "not_found")
	r.refusal(r.do(put("/v1/harnesses/-x", `{}`)), 400, "invalid")
	if p := r.refusal(r.do(put("/v1/harnesses/odd", `{"tools":[""]}`)), 400, "invalid"); len(p.FieldErrors) != 1 || p.FieldErrors[0].Field != "/tools" {
		t.Errorf("got %+v", p)
	}

	drop := func(path string) ask { return ask{method: "DELETE", path: path} }
	if p := r.refusal(r.do(drop("/v1/harnesses/team")), 409, "conflict"); !strings.Contains(p.Detail, reader.ID) {
		t.Errorf("it does not say what stands on it: %+v", p)
	}
	if p := r.refusal(r.do(since(drop("/v1/harnesses/house"), "*")), 409, "conflict"); !strings.Contains(p.Detail, string(team.ID)) {
		t.Errorf("it does not say what stands on it: %+v", p)
	}
	if still := want[engine.HarnessEntry](r, 200, get("/v1/harnesses/team")); still.Version != 1 {
		t.Errorf("a refusal left %+v", still)
	}
	want[struct{}](r, 200, drop("/v1/agents/reader"))
	r.refusal(r.do(since(drop("/v1/harnesses/team"), tag)), 412, "precondition_failed")
	want[struct{}](r, 200, drop("/v1/harnesses/team"))
	want[struct{}](r, 200, drop("/v1/harnesses/house"))
	r.refusal(r.do(get("/v1/harnesses/house")), 404, "not_found")
	r.refusal(r.do(drop("/v1/harnesses/house")), 404, "not_found")
	if stone := want[engine.HarnessEntry](r, 200, get("/v1/harnesses/"+string(house.ID))); stone.Status != "deleted" || stone.Version != 3 {
		t.Errorf("got %+v", stone)
	}
	if other := want[engine.HarnessEntry](r, 200, put("/v1/harnesses/house", `{}`)); other.ID == house.ID || other.Version != 1 {
		t.Errorf("got %+v", other)
	}

	var deeds []string
	for _, e := range want[taskInList[engine.AuditEntry]](r, 200, get("/v1/audit?action=harness.*")).Items {
		deeds = append(deeds, e.Action+" "+e.Detail["name"]+" by "+e.Actor)
	}
	if got := strings.Join(deeds, ", "); got != "harness.created house by api, harness.created team by api, harness.changed house by api, harness.deleted team by api, harness.deleted house by api, harness.created house by api" {
		t.Errorf("the audit log says: %s", got)
	}
}

// TestHarnessesOfTheHouse: harnesses belong to the installation's own org, and do not exist for
// other orgs.
func TestHarnessesOfTheHouse(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := r.layer("house")
	for _, name := range []string{"a", "b", "c"} {
		r.layer(name)
	}
	first := want[taskInList[engine.HarnessEntry]](r, 200, get("/v1/harnesses?limit=3&status=active"))
	rest := want[taskInList[engine.HarnessEntry]](r, 200, get("/v1/harnesses?limit=3&status=active&cursor="+first.Next))
	if len(first.Items) != 3 || len(rest.Items) != 1 || first.Items[0].Name != "house" {
		t.Errorf("got %+v, then %+v", first, rest)
	}
	stranger := r.let(`{"name":"other","org":"acme","scopes":["read","write","admin"]}`).Secret
	if theirs := want[taskInList[engine.HarnessEntry]](r, 200, get("/v1/harnesses").as(stranger)); len(theirs.Items) != 0 {
		t.Errorf("another org is shown %v", theirs)
	}
	for _, q := range []ask{get(path), put(path, `{}`), {method: "DELETE", path: path}} {
		r.refusal(r.do(q.as(stranger)), 404, "not_found")
	}
	writer := r.let(`{"name":"writer","scopes":["read","write"]}`).Secret
	r.refusal(r.do(put("/v1/harnesses/mine", `{}`).as(writer)), 403, "forbidden")
}
