package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

var update = flag.Bool("update", false, "write docs/reference/openapi.json anew")

const committed = "../../docs/reference/openapi.json"

// question is the id of a task's question.
var question = regexp.MustCompile(`req_[0-9a-f]{32}`)

// spec is the document as its readers see it.
type spec struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]*huma.Schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID         string                `json:"operationId"`
	Summary    string                `json:"summary"`
	Security   []map[string][]string `json:"security"`
	Parameters []struct {
		Name   string `json:"name"`
		In     string `json:"in"`
		Schema struct {
			Examples []any `json:"examples"`
		} `json:"schema"`
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]struct {
			Schema  map[string]any  `json:"schema"`
			Example json.RawMessage `json:"example"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// document reads the document that a server serves.
func (r *rig) document() (spec, []byte) {
	r.t.Helper()
	got := r.do(get("/openapi.json"))
	// huma writes its schemas and does not read them: here are the two places where its fields are
	// named otherwise.
	text := bytes.ReplaceAll(got.body, []byte(`"$ref"`), []byte(`"Ref"`))
	text = regexp.MustCompile(`"type": \[\s*"(\w+)",\s*"null"\s*\]`).ReplaceAll(text, []byte(`"type": "$1"`))
	var s spec
	if err := json.Unmarshal(text, &s); err != nil {
		r.t.Fatal(err)
	}
	return s, got.body
}

// TestH1Committed compares the committed document with the served one; -update writes it.
func TestH1Committed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	_, served := r.document()
	if *update {
		if err := os.WriteFile(committed, served, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, served) {
		t.Error("docs/reference/openapi.json is stale: go test ./internal/api -run TestH1Committed -update")
	}
	if again, err := r.api.OpenAPI(); err != nil || !bytes.Equal(again, served) {
		t.Errorf("the document is not always the same: %v", err)
	}
}

// TestH1Whole: every reference has its end, and every operation what a reader needs.
func TestH1Whole(t *testing.T) {
	t.Parallel()
	s, text := newRig(t, nil).document()
	if s.OpenAPI != "3.1.0" {
		t.Errorf("got %s", s.OpenAPI)
	}
	for _, ref := range regexp.MustCompile(`"\$ref": "([^"]+)"`).FindAllSubmatch(text, -1) {
		name, ok := strings.CutPrefix(string(ref[1]), "#/components/schemas/")
		if s.Components.Schemas[name] == nil || !ok {
			t.Errorf("%s leads nowhere", ref[1])
		}
	}
	var union []string
	for _, one := range s.Components.Schemas["ToolPayload"].OneOf {
		union = append(union, strings.TrimPrefix(one.Ref, "#/components/schemas/"))
	}
	if !slices.Equal(union, []string{"BackgroundPayload", "RunPayload", "SchedulePayload", "StatusPayload"}) {
		t.Errorf("ToolPayload is %v", union)
	}
	ids := map[string]bool{}
	s.each(func(method, path string, op operation) {
		if op.ID == "" || ids[op.ID] || op.Summary == "" {
			t.Errorf("%s %s: id %q, summary %q", method, path, op.ID, op.Summary)
		}
		ids[op.ID] = true
		if (method == "post" || method == "put" || method == "patch") != (op.RequestBody != nil) {
			t.Errorf("%s: a body is for POST, PUT and PATCH", op.ID)
		}
		for _, status := range []string{"400", "406", "500"} {
			if _, ok := op.Responses[status].Content["application/problem+json"]; !ok {
				t.Errorf("%s does not tell of %s", op.ID, status)
			}
		}
		// Operations whose body or query names a session.
		if _, ok := op.Responses["404"]; ok != (strings.Contains(path, "{") || op.ID == "create-schedule" || op.ID == "follow-topics" || op.ID == "create-webhook" || op.ID == "finish-connection" || op.ID == "connection-callback") {
			t.Errorf("%s: 404 is for paths that name something", op.ID)
		}
		for _, name := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(path, -1) {
			if !slices.ContainsFunc(op.Parameters, func(p struct {
				Name   string `json:"name"`
				In     string `json:"in"`
				Schema struct {
					Examples []any `json:"examples"`
				} `json:"schema"`
			}) bool {
				return p.Name == name[1] && p.In == "path" && len(p.Schema.Examples) > 0
			}) {
				t.Errorf("%s: {%s} has no example", op.ID, name[1])
			}
		}
	})
	if len(ids) != 151 {
		t.Errorf("%d operations", len(ids))
	}
}

// each walks the operations.
func (s spec) each(fn func(method, path string, op operation)) {
	for path, methods := range s.Paths {
		for method, op := range methods {
			fn(method, path, op)
		}
	}
}

// ofBudget puts a budget of its own into a path that names one.
func (r *rig) ofBudget(path, name string) string {
	if !strings.Contains(path, "{budget}") {
		return path
	}
	set := want[budget.Standing](r, 200, put("/v1/budgets/agent/"+name, `{"currency":"calls","limit":"1"}`))
	return strings.ReplaceAll(path, "{budget}", string(set.ID))
}

// withToken adds the one POST whose response is not stored.
func withToken(posts map[string]ask) map[string]ask {
	posts["create-token"] = post("/v1/tokens", "")
	return posts
}

// ofToken puts a token of its own into a path that names one.
func (r *rig) ofToken(path string) string {
	if !strings.Contains(path, "{token}") {
		return path
	}
	return strings.ReplaceAll(path, "{token}", string(r.let(`{"name":"example"}`).ID))
}

// ofStorage names what sessions keep, and a bulk.
func ofStorage(path, method, bulk string) string {
	return strings.NewReplacer("{key}", "city", "/secrets/{name}", "/secrets/smtp_password", "files:stat", "files:stat?path=/notes", "files:grep", "files:grep?pattern=in",
		"{resource}", "box", "{agent}", "helper", "{provider}", "shown", "/v1/bulks/{id}", bulk, "{path}", "notes/"+method).Replace(path)
}

// TestH1Examples runs the example of every operation, on a server where its subject exists, and
// holds the answer against its schema.
func TestH1Examples(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	posts := r.withHooks(withToken(r.writes()))
	s, _ := r.document()
	session := r.filed("/notes/today.md")
	want[engine.Value](r, 200, put(session+"/values/city", `{"value":"Lisbon"}`))
	r.say(session, "spawn stream")
	r.rest(session)
	r.beside(session, "box")
	r.provider("shown")
	approval := r.pay().ID
	task, call := r.task(session).ID, want[taskInList[perdure.Call]](r, 200, get(session+"/calls")).Items[0].Key.Call
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	for name, schema := range s.Components.Schemas {
		registry.Map()[name] = schema
		schema.PrecomputeMessages()
	}
	bulk := r.do(post("/v1/tasks:cancel", `{"filter":{"session_id":"none"}}`)).header.Get("Location")
	held, ran := strings.NewReplacer("/v1/payments/{payment}", r.payment(session), "/v1/sessions/{id}/images/{image}", r.image(session)), 0
	s.each(func(method, path string, op operation) {
		if op.ID == "export-session" || op.ID == "dump-database" || op.ID == "get-file" || op.ID == "follow-topics" || op.ID == "metrics" || strings.HasPrefix(op.ID, "document") || op.ID == "finish-connection" || op.ID == "connection-callback" {
			return // not JSON, or another service is asked: tests of their own read these
		}
		path = ofStorage(held.Replace(path), method, bulk)
		path = strings.NewReplacer("{call}", string(call), "{seq}", "1", "{name}", "echo", "{scope}", "agent", "{subject}", "researcher").Replace(path)
		if strings.HasPrefix(path, "/v1/tasks") {
			path = strings.ReplaceAll(path, "{id}", string(task))
		}
		switch op.ID {
		case "delete-session":
			path = r.session() // the others are asked about the first one
		case "delete-schedule":
			path = r.hourly()
		case "put-agent", "put-harness", "put-provider":
			path = path[:strings.LastIndex(path, "/")] + "/made"
		case "get-harness", "list-harness-versions":
			path = strings.Replace(path, "/v1/harnesses/{harness}", r.layer(op.ID), 1)
		}
		path = strings.ReplaceAll(path, "/v1/schedules/{id}", strings.TrimSuffix(posts["trigger-schedule"].path, "/trigger"))
		path = strings.NewReplacer("/v1/sessions/{id}", session, "/v1/approvals/{id}", "/v1/approvals/"+string(approval)).Replace(path)
		q := ask{method: strings.ToUpper(method), path: path, header: map[string]string{"Accept": "application/json"}}
		q.path = r.ofWebhook(r.ofToken(r.ofBudget(q.path, op.ID)))
		if method == "put" || method == "patch" {
			q.body = string(op.RequestBody.Content["application/json"].Example)
		}
		switch op.ID {
		case "preview-schedule":
			q.path += "?cron_expression=@daily"
		case "write-file":
			q.header["Content-Type"] = "text/plain"
		case "delete-file", "delete-value", "delete-secret", "delete-image", "release-resource", "delete-agent", "delete-harness", "delete-provider", "delete-connection", "put-connection":
			q.path = posts[op.ID].path
		}
		if method == "post" {
			q.path = posts[op.ID].path
			asked := question.FindString(posts[op.ID].body) // the one thing that an example cannot know
			q.body = question.ReplaceAllString(string(op.RequestBody.Content["application/json"].Example), asked)
			if op.ID == "import-session" || op.ID == "put-image" {
				q.body, q.header["Content-Type"] = posts[op.ID].body, posts[op.ID].header["Content-Type"]
			}
		}
		if q.path == "" {
			t.Fatalf("%s: no world for its example", op.ID)
		}
		got := r.do(q)
		if got.status >= 300 {
			t.Errorf("%s %s %s: got %d %s", op.ID, q.path, q.body, got.status, got.body)
			return
		}
		ran++
		if got.status == 204 {
			return
		}
		op.holds(t, registry, got)
	})
	if ran != 141 {
		t.Errorf("%d examples ran", ran)
	}
}

// holds holds an answer against its schema.
func (op operation) holds(t *testing.T, registry huma.Registry, got reply) {
	t.Helper()
	media, ok := op.Responses[fmt.Sprint(got.status)].Content["application/json"]
	if !ok {
		t.Errorf("%s answers %d, of which the document knows nothing", op.ID, got.status)
		return
	}
	schema := &huma.Schema{}
	if err := json.Unmarshal(media.Schema, schema); err != nil {
		t.Fatal(err)
	}
	schema.PrecomputeMessages()
	var value any
	if err := json.Unmarshal(got.body, &value); err != nil {
		t.Fatalf("%s: %v", op.ID, err)
	}
	result := &huma.ValidateResult{}
	huma.Validate(registry, schema, huma.NewPathBuffer([]byte{}, 0), huma.ModeReadFromServer, value, result)
	for _, err := range result.Errors {
		t.Errorf("%s: %v", op.ID, err)
	}
	for _, field := range unnamed(registry, schema, value, "") {
		t.Errorf("%s: the answer has the field %s, which the document does not name", op.ID, field)
	}
}

// unnamed returns the fields of a value that its schema does not name.
func unnamed(registry huma.Registry, schema *huma.Schema, value any, at string) (found []string) {
	if schema == nil {
		return nil
	}
	if schema.Ref != "" {
		return unnamed(registry, registry.SchemaFromRef(schema.Ref), value, at)
	}
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			found = append(found, unnamed(registry, schema.Items, one, at+"[]")...)
		}
	case map[string]any:
		if len(schema.Properties) == 0 {
			return nil // a map, or any JSON
		}
		for field, one := range value {
			if schema.Properties[field] == nil {
				found = append(found, at+"."+field)
			}
			found = append(found, unnamed(registry, schema.Properties[field], one, at+"."+field)...)
		}
	}
	return found
}

// TestH11Matrix asks every operation of the document without what it needs.
func TestH11Matrix(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s, _ := r.document()
	before := r.count()
	s.each(func(method, path string, op operation) {
		free := len(op.Security) == 0
		if free != (path == "/healthz" || path == "/readyz" || path == "/openapi.json" || path == "/docs" || path == "/docs/{path}" || path == "/llms.txt" || path == "/v1/connections/callback") {
			t.Errorf("%s: open %v", path, free)
		}
		for name, header := range map[string]string{
			"none": "", "wrong": "Bearer " + token + "x", "part": "Bearer " + token[:5], "basic": "Basic " + token, "bare": token, "empty": "Bearer ", "two": "Bearer a " + token,
		} {
			q := ask{method: strings.ToUpper(method), path: path, header: map[string]string{"Authorization": header, "Perdure-Actor": "operator"}}
			if got := r.do(q); !free {
				if r.refusal(got, 401, "unauthorized"); got.header.Get("Www-Authenticate") != "Bearer" {
					t.Errorf("%s %s: got %v", op.ID, name, got.header)
				}
			}
		}
		for _, name := range []string{"token", "access_token"} {
			q := ask{method: strings.ToUpper(method), path: path + "?" + name + "=" + url.QueryEscape(token)}
			if !free {
				r.refusal(r.do(q), 401, "unauthorized") // also beside the right header
				q.header = map[string]string{"Authorization": ""}
				r.refusal(r.do(q), 401, "unauthorized")
			}
		}
	})
	r.refusal(r.do(ask{method: "GET", path: "/none", header: map[string]string{"Authorization": ""}}), 401, "unauthorized")
	if after := r.count(); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
	q := get("/v1/sessions")
	q.header = map[string]string{"Authorization": "bearer " + token}
	want[taskInList[engine.Session]](r, 200, q)
}

// TestLocal: on the socket no token is required, and a header names the actor.
func TestLocal(t *testing.T) {
	t.Parallel()
	r := newRig(t, onSocket)
	for actor, by := range map[string]string{"": "user", "user": "user", "operator": "operator"} {
		s := r.session()
		r.say(s, "charge")
		r.entered("charge")
		q := post(s+"/interrupt", "")
		q.header = map[string]string{"Authorization": "", "Perdure-Actor": actor}
		want[struct{}](r, 202, q)
		r.rest(s)
		page := want[eventPage](r, 200, get(s+"/events?types=turn.interrupt_requested"))
		if got := page.Items[0].Fact.(perdure.InterruptRequested).By; got != by {
			t.Errorf("got %s, want %s", got, by)
		}
	}
	q := get("/v1/tools")
	q.header = map[string]string{"Perdure-Actor": "root"}
	r.refusal(r.do(q), 400, "invalid")
}
