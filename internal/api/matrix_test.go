package api_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/store"
)

// samples has a request for every operation, each of which succeeds on a world that is all of the
// default org.
func (r *rig) samples() map[string]ask {
	r.t.Helper()
	all := r.writes()
	session, filed := r.session(), r.filed("/today.md")
	r.do(put(filed+"/values/city", `{"value":"Lisbon"}`))
	bulk := r.do(post("/v1/tasks:cancel", `{"filter":{"session_id":"none"}}`)).header.Get("Location")
	r.say(session, "spawn stream")
	r.rest(session)
	task := "/v1/tasks/" + string(r.task(session).ID)
	call := session + "/calls/" + string(want[taskInList[perdure.Call]](r, 200, get(session+"/calls")).Items[0].Key.Call)
	approval, plan := "/v1/approvals/"+string(r.pay().ID), r.hourly()
	started := want[engine.HostCall](r, 202, post(session+"/calls", `{"tool":"echo","args":{"text":"a"}}`))
	capped := func(name string) string {
		return "/v1/budgets/" + string(want[budget.Standing](r, 200, put("/v1/budgets/agent/"+name, `{"currency":"calls","limit":"1"}`)).ID)
	}
	own := strings.TrimPrefix(session, "/v1/sessions/")
	for name, q := range map[string]ask{
		"list-sessions": get("/v1/sessions"), "get-session": get(session), "delete-session": {method: "DELETE", path: r.session()},
		"export-session": get(r.session() + "/export"), "list-messages": get(session + "/messages"), "list-events": get(session + "/events"), "get-event": get(session + "/events/1"),
		"list-calls": get(session + "/calls"), "get-call": get(call), "get-host-call": get(session + "/calls/" + string(started.ID) + "/task"),
		"list-approvals": get("/v1/approvals"), "get-approval": get(approval),
		"list-tasks": get("/v1/tasks"), "get-task": get(task), "get-task-log": get(task + "/log"), "get-task-process": get(task + "/process"), "list-task-messages": get(task + "/messages"),
		"list-schedules": get("/v1/schedules"), "get-schedule": get(plan), "next-fires": get(plan + "/next"), "preview-schedule": get("/v1/schedules:preview?cron_expression=@daily"), "list-fires": get(plan + "/fires"),
		"delete-schedule": {method: "DELETE", path: r.hourly()},
		"list-files":      get(filed + "/files"), "stat-file": get(filed + "/files:stat?path=/today.md"), "get-file": get(filed + "/files/today.md"),
		"list-values": get(filed + "/values"), "get-value": get(filed + "/values/city"), "list-secrets": get(filed + "/secrets"), "get-bulk": get(bulk),
		"grep-files": get(filed + "/files:grep?pattern=in"), "list-images": get(filed + "/images"), "get-image": get(r.image(filed)),
		"list-databases": get(r.database() + "/databases"), "dump-database": get(r.database() + "/databases/main/dump"),
		"list-payments": get("/v1/payments"), "get-payment": get(r.unknownPayment()),
		"list-resources": get(session + "/resources"), "get-resource": get(r.beside(session, "box")),
		"follow-topics": {method: "GET", path: "/v1/events?topics=" + own, header: map[string]string{"Accept": "text/event-stream"}},
		"list-budgets":  get("/v1/budgets"), "get-budgets": get("/v1/budgets/session/" + own), "check-budgets": get(session + "/budgets"), "get-costs": get("/v1/costs"),
		"set-budget":    put("/v1/budgets/session/"+own, `{"currency":"calls","limit":"9"}`),
		"remove-budget": {method: "DELETE", path: capped("a")}, "list-budget-entries": get(capped("b") + "/entries"),
		"list-agents": get("/v1/agents"), "get-agent": get("/v1/agents/helper"), "get-effective-agent": get("/v1/agents/helper/effective"),
		"list-agent-versions": get(r.kept("watcher") + "/versions"),
		"list-harnesses":      get("/v1/harnesses"), "get-harness": get(r.layer("house")), "delete-harness": {method: "DELETE", path: r.layer("left")},
		"list-harness-versions": get(r.layer("past") + "/versions"),
		"put-harness":           {method: "PUT", path: r.layer("rules"), body: `{"system_prompt":"Be kind."}`, header: map[string]string{"If-Match": "*"}},
		"put-agent":             {method: "PUT", path: r.kept("reader"), body: `{"system_prompt":"Read."}`, header: map[string]string{"If-Match": "*"}},
		"put-connection":        put("/v1/connections/gitlab", `{"token":"x"}`),
		"delete-connection":     {method: "DELETE", path: "/v1/connections/gone"},
		"finish-connection":     post("/v1/connections:finish", `{"state":"x","code":"y"}`),
		"list-connections":      get("/v1/connections"), "list-providers": get("/v1/providers"),
		"get-provider": get(r.provider("shown")), "list-models": get("/v1/models"), "get-default-model": get("/v1/models/default"),
		"get-version": get("/v1/version"), "get-storage": get("/v1/storage"), "get-verification": get("/v1/storage/verification"),
		"diagnose": get("/v1/doctor"), "list-homes": get("/v1/homes"), "count-tasks": get("/v1/tasks:count"), "list-recoveries": get("/v1/recoveries"), "get-egress": get("/v1/egress"),
		"get-place": get("/v1/place"), "get-principal": get("/v1/principal"), "get-work": get("/v1/work"), "list-tools": get("/v1/tools"), "metrics": get("/metrics"), "get-tool": get("/v1/tools/echo"),
		"create-token": post("/v1/tokens", `{"name":"made","scopes":["admin"]}`), "list-tokens": get("/v1/tokens"), "list-audit": get("/v1/audit"),
		"revoke-token": {method: "DELETE", path: "/v1/tokens/" + string(r.let(`{"name":"gone"}`).ID)},
	} {
		all[name] = q
	}
	return r.hookSamples(all)
}

// layer keeps a harness, and returns its path by its id.
func (r *rig) layer(name string) string {
	r.t.Helper()
	return "/v1/harnesses/" + string(want[engine.HarnessEntry](r, 200, put("/v1/harnesses/"+name, `{"system_prompt":"Be brief."}`)).ID)
}

// provider stores a provider, and returns its path.
func (r *rig) provider(name string) string {
	r.t.Helper()
	want[engine.Provider](r, 200, put("/v1/providers/"+name, `{"kind":"openai","base_url":"https://models.test/v1","key":"k-of-the-rig","default_model":"small"}`))
	return "/v1/providers/" + name
}

// kept keeps an agent, and returns its path by its id.
func (r *rig) kept(name string) string {
	r.t.Helper()
	made := want[engine.AgentEntry](r, 200, put("/v1/agents/"+name, `{"system_prompt":"Be brief.","tools":["echo"]}`))
	return "/v1/agents/" + made.ID
}

// without is every scope but one.
func without(s access.Scope) string {
	var rest []string
	for _, other := range access.All() {
		if other != s {
			rest = append(rest, `"`+string(other)+`"`)
		}
	}
	return strings.Join(rest, ",")
}

// TestS13Matrix calls every operation of the document with every token that lacks the right, and
// then with one that has exactly the scope that the document names.
func TestS13Matrix(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	samples := r.samples()
	s, _ := r.document()
	live, revoked, expired := r.let(`{"name":"live"}`).Secret, r.let(`{"name":"revoked"}`), r.let(`{"name":"expired","expires_at":"2099-01-01T00:00:00Z"}`)
	want[engine.Token](r, 200, ask{method: "DELETE", path: "/v1/tokens/" + string(revoked.ID)})
	r.expire(expired.ID)
	only, all := map[access.Scope]string{}, map[access.Scope]string{}
	for _, scope := range access.All() {
		only[scope] = r.let(fmt.Sprintf(`{"name":"only","scopes":[%q]}`, scope)).Secret
		all[scope] = r.let(fmt.Sprintf(`{"name":"all but","scopes":[%s]}`, without(scope))).Secret
	}
	agent := r.let(`{"name":"agent","agent":true,"scopes":["read","write"]}`).Secret
	strangers := map[string]string{
		"revoked": revoked.Secret, "expired": expired.Secret, "tampered": live[:len(live)-2] + "AA", "longer": live + "A", "none": "",
		"alg=none": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhcGkiLCJzY29wZSI6ImFkbWluIn0.", "an id": string(revoked.ID), "another case": strings.ToUpper(live),
	}
	refusedAll := func(name string, got reply, status int, code string) {
		t.Helper()
		if got.status != status || !strings.Contains(string(got.body), `"code":"`+code+`"`) {
			t.Errorf("%s: got %d %s, want %d %s", name, got.status, got.body, status, code)
		}
	}
	s.each(func(method, path string, op operation) {
		if openOperations[op.ID] {
			return
		}
		sample, ok := samples[op.ID]
		if !ok || !strings.EqualFold(sample.method, method) {
			t.Errorf("%s (%s %s) has no sample; add one to samples", op.ID, method, path)
			return
		}
		policy := access.Scope(op.Security[0]["bearer"][0])
		for name, secret := range strangers {
			refusedAll(op.ID+" "+name, r.do(sample.as(secret)), 401, "unauthorized")
		}
		inQuery := sample.as("")
		inQuery.header["Authorization"] = ""
		refusedAll(op.ID+" no token", r.do(inQuery), 401, "unauthorized")
		inQuery.path += map[bool]string{true: "&", false: "?"}[strings.Contains(inQuery.path, "?")] + "access_token=" + live
		refusedAll(op.ID+" in the query", r.do(inQuery), 401, "unauthorized")
		refusedAll(op.ID+" wrong scope", r.do(sample.as(all[policy])), 403, "forbidden")
		if policy == access.Approve || policy == access.Admin {
			refusedAll(op.ID+" agent", r.do(sample.as(agent)), 403, "forbidden")
		}
	})
	s.each(func(_, _ string, op operation) {
		if openOperations[op.ID] {
			return
		}
		if op.ID == "follow-topics" || op.ID == "finish-connection" {
			// One has no end: TestTopics reads it. The other asks another service:
			// TestConnectionOverHTTP in internal/app.
			return
		}
		secret := only[access.Scope(op.Security[0]["bearer"][0])]
		if got := r.do(samples[op.ID].as(secret)); got.status >= 300 {
			t.Errorf("%s with its scope alone: got %d %s", op.ID, got.status, got.body)
		}
	})
}

// expire lets a token expire in the past.
func (r *rig) expire(id perdure.TokenID) {
	r.t.Helper()
	err := r.store.InTx(r.t.Context(), func(tx store.Tx) error {
		t, err := tx.Tokens().Get(id)
		if err != nil {
			return err
		}
		t.ExpiresAt = tx.Now().Add(-time.Second)
		return tx.Tokens().Put(t)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// anyID is an id of something that an org has.
var anyID = regexp.MustCompile(`(session|agent|harness|task|appr|sched|bdgt|token|bulk|webhook|whd)_[0-9a-f]{32}`)

// nobodys replaces the placeholders in a text by ids that do not exist.
func nobodys(text string) string {
	return anyID.ReplaceAllString(text, "${1}_019bb0000000700080000000000000bb")
}

// plainly is an answer without what differs from request to request, or is not there yet.
func plainly(got reply) string {
	text := regexp.MustCompile(`,?"(request_id|instance|started_at|finished_at|state)":"[^"]*"`).ReplaceAllString(string(got.body), "")
	return fmt.Sprint(got.status, " ", got.header.Get("Content-Type"), " ", anyID.ReplaceAllString(text, "ID"))
}

// TestS14Swaps: a principal of another org learns and changes nothing by any id, cursor or
// idempotency key, and existing objects are answered in the same words as missing ones.
func TestS14Swaps(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	samples := r.samples()
	stranger := r.let(`{"name":"other","org":"acme","scopes":["read","write","approve","admin"]}`).Secret
	before := r.count()
	imported := samples["import-session"]
	delete(samples, "import-session")
	delete(samples, "create-session") // they name nothing that is there
	delete(samples, "call-tool")
	delete(samples, "create-token")
	delete(samples, "create-webhook")
	delete(samples, "put-connection") // of the caller's own
	delete(samples, "authorize-connection")
	for name, path := range map[string]string{
		"costs of": "/v1/costs?session=", "tasks of": "/v1/tasks?session=", "approvals of": "/v1/approvals?session=", "schedules of": "/v1/schedules?session=",
		"budgets of": "/v1/budgets?subject=", "budgets in": "/v1/budgets?scope=session&subject=",
	} {
		samples[name] = get(path + strings.Split(samples["get-session"].path, "/")[3])
	}
	samples["user budgets"], samples["agent budgets"], samples["org budgets"] = get("/v1/budgets/user/user"), get("/v1/budgets/agent/b"), get("/v1/budgets/org/default")
	samples["an idle wait"] = get(samples["get-session"].path + "?wait=1s")
	samples["the whole list"] = get("/v1/sessions?limit=200")
	ids := map[string]bool{}
	for _, q := range samples {
		for _, id := range anyID.FindAllString(q.path+q.body, -1) {
			ids[id] = true
		}
	}
	for name, q := range samples {
		got := r.do(q.as(stranger))
		none := q.as(stranger)
		none.path, none.body = nobodys(q.path), nobodys(q.body)
		if named := q.path != none.path && !strings.Contains(q.path, "?"); named && got.status != 404 && !strings.HasPrefix(q.path, "/v1/budgets/session/") {
			t.Errorf("%s: got %d %s, want 404", name, got.status, got.body)
		}
		if want := r.do(none); plainly(got) != plainly(want) {
			t.Errorf("%s: another org's is answered\n%s\nwhat is not there\n%s", name, plainly(got), plainly(want))
		}
		for id := range ids {
			if strings.Contains(string(got.body), id) && !strings.Contains(q.path+q.body, id) {
				t.Errorf("%s reveals %s: %s", name, id, got.body)
			}
		}
	}
	if after := r.count(); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
	r.refusal(r.do(get("/metrics").as(stranger)), 403, "forbidden")
	r.swapKeys(stranger)
	r.swapCursors(stranger)
	want[engine.Session](r, 201, imported)
	r.refusal(r.do(imported.as(stranger)), 409, "conflict")
	// the same order as the owner's
	taken := post("/v1/sessions", `{"agent":{},"id":"session_019aa0000000700080000000000000aa"}`)
	r.refusal(r.do(taken.as(stranger)), 409, "conflict")
}

// swapKeys: the same idempotency key of two principals is two requests.
func (r *rig) swapKeys(stranger string) {
	r.t.Helper()
	q := keyed(post("/v1/sessions", `{"agent":{"name":"mine"}}`), "shared")
	own, other := r.do(q), r.do(q.as(stranger))
	ours, theirs := read[engine.Session](r.t, own.body), read[engine.Session](r.t, other.body)
	if own.status != 201 || other.status != 201 || other.header.Get("Idempotency-Replayed") != "" || ours.ID == theirs.ID || theirs.Org != "acme" {
		r.t.Errorf("got %s and %s", own.body, other.body)
	}
	if again := r.do(q.as(stranger)); string(again.body) != string(other.body) || again.header.Get("Idempotency-Replayed") != "true" {
		r.t.Errorf("got %s, want %s", again.body, other.body)
	}
}

// swapCursors: a cursor of one org is none of another, not even of a list that is empty.
func (r *rig) swapCursors(stranger string) {
	r.t.Helper()
	for range 2 {
		r.hourly()
		r.pay()
	}
	for _, path := range []string{"/v1/sessions", "/v1/tasks", "/v1/schedules", "/v1/approvals", "/v1/tokens"} {
		page := want[taskInList[map[string]any]](r, 200, get(path+"?limit=1"))
		if page.Next == "" {
			r.t.Errorf("%s has one page", path)
			continue
		}
		next := path + "?limit=1&cursor=" + page.Next
		want[taskInList[map[string]any]](r, 200, get(next))
		r.refusal(r.do(get(next).as(stranger)), 400, "invalid")
	}
}
