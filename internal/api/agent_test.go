package api_test

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// TestGiven: the agents of the configuration and the stored ones are visible in the installation's
// own org, and do not exist for others.
func TestGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	kept := agent.Agent{ID: "agent_019aa0000000700080000000000000aa", Name: "reader", Overlay: agent.Overlay{SystemPrompt: "Read.", Tools: []string{"echo"}, InitialFiles: []agent.File{{Path: "/note", Content: "a"}}}}
	if err := r.store.InTx(t.Context(), func(tx store.Tx) (err error) { kept, err = tx.Directory().Agents().Put(kept); return err }); err != nil {
		t.Fatal(err)
	}
	all := want[taskInList[engine.AgentEntry]](r, 200, get("/v1/agents?limit=2"))
	rest := want[taskInList[engine.AgentEntry]](r, 200, get("/v1/agents?limit=2&cursor="+all.Next))
	if len(all.Items) != 2 || all.Items[0].ID != "helper" || all.Items[0].Source != "given" || len(rest.Items) != 1 || rest.Items[0].ID != string(kept.ID) || rest.Items[0].Version != 1 {
		t.Errorf("got %+v, then %+v", all, rest)
	}
	for id, instructions := range map[string]string{"helper": "Be brief.", string(kept.ID): "Read."} {
		got := want[engine.EffectiveAgent](r, 200, get("/v1/agents/"+id+"/effective"))
		if got.Agent.Instructions != instructions || len(got.Agent.Tools) != 1 || (len(got.Files) == 1) != (id != "helper") {
			t.Errorf("%s: got %+v", id, got)
		}
	}
	if err := r.store.InTx(t.Context(), func(tx store.Tx) (err error) {
		kept.Status = agent.Archived
		_, err = tx.Directory().Agents().Put(kept)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.refusal(r.do(get("/v1/agents/"+string(kept.ID)+"/effective")), 409, "conflict")
	if some := want[taskInList[engine.AgentEntry]](r, 200, get("/v1/agents?status=archived&source=kept")); len(some.Items) != 1 {
		t.Errorf("got %+v", some)
	}
	if c := want[engine.Connection](r, 200, post("/v1/connections/tickets/test", "")); c.State != engine.ConnectionReady {
		t.Errorf("got %+v", c)
	}
	r.refusal(r.do(post("/v1/connections/none/test", "")), 404, "not_found")

	stranger := r.let(`{"name":"other","org":"acme","scopes":["read","write","admin"]}`).Secret
	for _, path := range []string{"/v1/agents", "/v1/connections"} {
		if own := want[taskInList[map[string]any]](r, 200, get(path)); len(own.Items) == 0 {
			t.Errorf("%s has nothing", path)
		}
		if theirs := want[taskInList[map[string]any]](r, 200, get(path).as(stranger)); len(theirs.Items) != 0 {
			t.Errorf("%s: another org is shown %v", path, theirs)
		}
	}
	for _, q := range []ask{get("/v1/agents/helper"), get("/v1/agents/" + string(kept.ID)), get("/v1/agents/helper/effective"), post("/v1/connections/tickets/test", "")} {
		r.refusal(r.do(q.as(stranger)), 404, "not_found")
	}
}

// since is a request on the condition that what it is about has a tag.
func since(q ask, tag string) ask {
	q.header = map[string]string{"If-Match": tag}
	return q
}

// TestAgentsWritten: an agent is stored under a name, changed by a client that has read it, and
// deleted with all its versions; agents of the configuration are read-only.
func TestAgentsWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	made := r.do(put("/v1/agents/reader", `{"system_prompt":"Read.","tools":["echo"],"model":"openai:small"}`))
	first, tag := read[engine.AgentEntry](t, made.body), made.header.Get("ETag")
	if made.status != 200 || first.Name != "reader" || first.Source != "kept" || first.Version != 1 || first.By != "api" || tag == "" {
		t.Fatalf("got %d %v %s", made.status, made.header, made.body)
	}
	shown := r.do(get("/v1/agents/reader"))
	if string(shown.body) != string(made.body) || shown.header.Get("ETag") != tag {
		t.Errorf("got %s %s, want %s", shown.header.Get("ETag"), shown.body, made.body)
	}

	change := put("/v1/agents/reader", `{"system_prompt":"Read slowly.","tools":["echo"]}`)
	r.refusal(r.do(change), 428, "precondition_required")
	r.refusal(r.do(since(change, `"another"`)), 412, "precondition_failed")
	r.refusal(r.do(since(put("/v1/agents/nobody", `{}`), tag)), 412, "precondition_failed")
	create := change
	create.header = map[string]string{"If-None-Match": "*"}
	r.refusal(r.do(create), 412, "precondition_failed")
	second := want[engine.AgentEntry](r, 200, since(change, tag))
	if second.ID != first.ID || second.Version != 2 {
		t.Errorf("got %+v", second)
	}
	r.refusal(r.do(since(put("/v1/agents/reader", `{"system_prompt":"Lost."}`), tag)), 412, "precondition_failed")
	same := since(change, r.do(get("/v1/agents/reader")).header.Get("ETag"))
	if again := want[engine.AgentEntry](r, 200, same); again.Version != 2 {
		t.Errorf("a write that changes nothing makes version %d", again.Version)
	}
	versions := want[taskInList[engine.AgentEntry]](r, 200, get("/v1/agents/reader/versions?limit=1"))
	rest := want[taskInList[engine.AgentEntry]](r, 200, get("/v1/agents/reader/versions?limit=1&cursor="+versions.Next))
	if len(versions.Items) != 1 || versions.Items[0].Version != 2 || len(rest.Items) != 1 || string(rest.Items[0].Overlay) != string(first.Overlay) || rest.Next != "" {
		t.Errorf("got %+v, then %+v", versions, rest)
	}

	r.refusal(r.do(put("/v1/agents/helper", `{}`)), 409, "conflict")
	r.refusal(r.do(ask{method: "DELETE", path: "/v1/agents/helper"}), 409, "conflict")
	if given := want[taskInList[engine.AgentEntry]](r, 200, get("/v1/agents/helper/versions")); len(given.Items) != 0 {
		t.Errorf("got %+v", given)
	}
	for _, name := range []string{"agent_019aa0000000700080000000000000aa", "nobody"} {
		r.refusal(r.do(ask{method: "DELETE", path: "/v1/agents/" + name}), 404, "not_found")
		r.refusal(r.do(get("/v1/agents/"+name+"/versions")), 404, "not_found")
	}
	r.refusal(r.do(put("/v1/agents/agent_019aa0000000700080000000000000aa", `{}`)), 404, "not_found")
	r.refusal(r.do(put("/v1/agents/-x", `{}`)), 400, "invalid")

	r.refusal(r.do(since(ask{method: "DELETE", path: "/v1/agents/reader"}, tag)), 412, "precondition_failed")
	want[struct{}](r, 200, ask{method: "DELETE", path: "/v1/agents/reader"})
	r.refusal(r.do(get("/v1/agents/reader")), 404, "not_found")
	if stone := want[engine.AgentEntry](r, 200, get("/v1/agents/"+first.ID)); stone.Status != "deleted" || stone.Version != 3 {
		t.Errorf("got %+v", stone)
	}
	r.refusal(r.do(since(put("/v1/agents/"+first.ID, `{}`), "*")), 400, "invalid")
	if other := want[engine.AgentEntry](r, 200, put("/v1/agents/reader", `{}`)); other.ID == first.ID || other.Version != 1 {
		t.Errorf("got %+v", other)
	}

	var deeds []string
	for _, e := range want[taskInList[engine.AuditEntry]](r, 200, get("/v1/audit?action=agent.*")).Items {
		deeds = append(deeds, e.Action+" "+e.Detail["version"]+" by "+e.Actor)
	}
	if got := strings.Join(deeds, ", "); got != "agent.created 1 by api, agent.changed 2 by api, agent.deleted 3 by api, agent.created 1 by api" {
		t.Errorf("the audit log says: %s", got)
	}
}

// TestAgentRefused: all faults of an agent are reported at once by field, and an unknown field is
// refused.
func TestAgentRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.refusal(r.do(put("/v1/agents/reader", `{"tools":[""],"limits":{"parallel_calls":{"value":-1}},"initial_files":[{"path":"/a","content":""},{"path":"a","content":""}]}`)), 400, "invalid")
	var fields []string
	for _, f := range p.FieldErrors {
		fields = append(fields, f.Field)
	}
	if got := strings.Join(fields, " "); got != "/tools /initial_files/1/path /limits/parallel_calls" {
		t.Errorf("got %s: %+v", got, p)
	}
	if p := r.refusal(r.do(put("/v1/agents/reader", `{"secret":"a"}`)), 400, "invalid"); len(p.FieldErrors) != 1 || p.FieldErrors[0].Field != "/secret" {
		t.Errorf("got %+v", p)
	}
	r.refusal(r.do(put("/v1/agents/reader", `{"harness_id":"harness_019aa0000000700080000000000000aa"}`)), 400, "invalid")
	if all := want[taskInList[engine.AgentEntry]](r, 200, get("/v1/agents?source=kept")); len(all.Items) != 0 {
		t.Errorf("got %+v", all)
	}
}

// began is the agent that a session was made of.
func (r *rig) began(id perdure.SessionID) perdure.Agent {
	r.t.Helper()
	events, err := r.eng.Events(r.t.Context(), id, 0, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	return events[0].Fact.(perdure.SessionCreated).Agent
}

// TestStartOf: a session is made of an agent by its name or its id, and stays what it was when the
// agent changes; the same order is one session, also when the agent is gone.
func TestStartOf(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	made := want[engine.AgentEntry](r, 200, put("/v1/agents/reader", `{"system_prompt":"Read.","tools":["echo"],"model":"small"}`))
	order := post("/v1/sessions", `{"agent_id":"reader","id":"session_019aa0000000700080000000000000aa","title":"Mine","labels":{"env":"prod"},"metadata":{"a":"b"}}`)
	s := want[engine.Session](r, 201, order)
	created := r.began(s.ID)
	if string(created.ID) != made.ID || created.Name != "reader" || created.Instructions != "Read." || created.Model != "small" || created.Title != "Mine" || created.Metadata["a"] != "b" || s.Labels["env"] != "prod" {
		t.Errorf("got %+v and %+v", s, created)
	}
	if by := want[engine.Session](r, 201, post("/v1/sessions", `{"agent_id":"`+made.ID+`","model":"other"}`)); by.ID == s.ID {
		t.Errorf("got %+v", by)
	}
	given := want[engine.Session](r, 201, post("/v1/sessions", `{"agent_id":"helper"}`))
	if began := r.began(given.ID); began.Instructions != "Be brief." || began.ID != "" {
		t.Errorf("got %+v", began)
	}
	want[struct{}](r, 200, ask{method: "DELETE", path: "/v1/agents/reader"})
	if again := want[engine.Session](r, 201, order); again.ID != s.ID {
		t.Errorf("got %+v", again)
	}
	r.refusal(r.do(post("/v1/sessions", `{"agent_id":"reader","id":"session_019aa0000000700080000000000000aa"}`)), 409, "conflict")
	r.refusal(r.do(post("/v1/sessions", `{"agent_id":"reader"}`)), 404, "not_found")
	r.refusal(r.do(post("/v1/sessions", `{"agent_id":"`+made.ID+`"}`)), 409, "conflict")
	for _, wrong := range []string{`{}`, `{"agent":{},"agent_id":"helper"}`, `{"agent":{},"model":"small"}`} {
		r.refusal(r.do(post("/v1/sessions", wrong)), 400, "invalid")
	}
	stranger := r.let(`{"name":"other","org":"acme","scopes":["read","write","admin"]}`).Secret
	for _, q := range []ask{
		post("/v1/sessions", `{"agent_id":"helper"}`), put("/v1/agents/reader", `{}`), {method: "DELETE", path: "/v1/agents/" + made.ID}, get("/v1/agents/helper/versions"),
	} {
		r.refusal(r.do(q.as(stranger)), 404, "not_found")
	}
	program := r.let(`{"name":"program","agent":true,"scopes":["read","write"]}`).Secret
	r.refusal(r.do(put("/v1/agents/reader", `{}`).as(program)), 403, "forbidden")
	want[engine.Session](r, 201, post("/v1/sessions", `{"agent_id":"helper"}`).as(program))
}
