package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// payloadScript calls a tool with what the person said: with a tool in it, it is for
// spawn_background.
const payloadScript = `
rules:
  - when: {last_role: user, user_contains: '"tool"'}
    calls: [{name: spawn_background, args: '{{user}}'}]
  - when: {last_role: user}
    calls: [{name: check_background_tool, args: '{{user}}'}]
steps: [{text: noted, repeat: true}]
`

// TestToolPayload holds the real answers of the tools for work in the background against the
// committed document: each is exactly the payload it should be, and has no field of which the
// document does not tell.
func TestToolPayload(t *testing.T) {
	t.Parallel()
	p := &payloads{rig: newPayloadRig(t), document: readDocument(t), seen: map[string]int{}}
	p.chat = p.session()

	p.check("ListPayload", `"tasks":[]`, `{"list":true}`)
	p.check("RefusalPayload", "background_id is required", `{}`)
	p.check("RefusalPayload", "No background task", `{"background_id":"task_00"}`)
	running := p.spawn(`"status":"running"`, `{"tool":"hold","args":{}}`)
	p.entered("hold")
	queued := p.spawn(`"queue_position":1`, `{"tool":"quick","args":{},"title":"Later","signal_on_completion":false}`)
	p.check("CheckPayload", `"status":"still_running"`, `{"background_id":%q,"wait_seconds":0}`, running)
	p.check("CheckPayload", `"waited_seconds":1`, `{"background_id":%q,"wait_seconds":1}`, running)
	p.check("CheckPayload", `"queue_position":1`, `{"background_id":%q,"wait_seconds":0}`, queued)
	p.check("ListPayload", `"status":"still_running"`, `{"list":true}`)
	p.check("CheckPayload", `"dead_at"`, `{"background_id":%q,"cancel":true}`, running)
	p.check("CheckPayload", "was cancelled", `{"background_id":%q}`, running)
	p.ended(queued)
	p.check("ListPayload", `"status":"completed"`, `{"list":true}`)
	p.check("CheckPayload", `"output":{"text":"quick"}`, `{"background_id":%q}`, queued)
	broken := p.spawn(`"status":"running"`, `{"tool":"broken","args":{}}`)
	p.check("CheckPayload", `"status":"error"`, `{"background_id":%q}`, broken)

	if want := map[string]int{"RunPayload": 3, "CheckPayload": 7, "ListPayload": 3, "RefusalPayload": 2}; !maps.Equal(p.seen, want) {
		t.Errorf("saw %v, want %v", p.seen, want)
	}
}

// TestToolPayloadRefuses: the document takes nothing for a payload that is not one whole.
func TestToolPayloadRefuses(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for _, text := range []string{
		`{}`, `{"type":"error"}`, `{"type":"mcp_tool_output","message":"m","session_id":"s"}`, `{"type":"background","tool":"t"}`,
		`{"type":"error","message":"m","session_id":"s","tasks":[]}`,
		`{"type":"mcp_tool_output","message":"m","session_id":"s","tasks":null}`,
		`{"type":"mcp_tool_output","message":"m","session_id":"s","tasks":[{}]}`,
		`{"type":"mcp_tool_output","message":"m","session_id":"s","status":"running","tool":"t","background_id":"b"}`,
		`{"type":"mcp_tool_output","message":"m","session_id":"s","status":"completed","tool":"t","background_id":"b","worker":"w"}`,
	} {
		if fault := d.fault("ToolPayload", []byte(text)); fault == "" {
			t.Errorf("%s passes for a payload", text)
		}
	}
}

// payloads is a rig with the document at hand.
type payloads struct {
	*rig
	chat     string // the path of its session
	document schemas
	seen     map[string]int // by payload
}

// newPayloadRig starts a server with one place for work in the background in a session.
func newPayloadRig(t *testing.T) *rig {
	t.Helper()
	m, err := scripted.Parse("payloads", []byte(payloadScript))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, store: memory.New(memory.Config{}), keys: &keys{rows: map[string]api.Request{}}, in: make(chan string, 100),
	}
	work := func(name string, run func(context.Context) (words, error)) tool.Tool {
		spec := tool.Spec{Name: name, Description: "A fixture.", Class: perdure.Idempotent}
		return tool.NewBackground(spec, func(ctx context.Context, _ words, _ tool.Env) (words, error) { return run(ctx) })
	}
	tools := append(background.Tools(background.Config{}),
		work("quick", func(context.Context) (words, error) { return words{Text: "quick"}, nil }),
		work("broken", func(context.Context) (words, error) { return words{}, tool.Errorf("boom") }),
		work("hold", func(ctx context.Context) (words, error) {
			r.in <- "hold"
			<-ctx.Done()
			return words{}, context.Cause(ctx)
		}))
	r.eng, err = local.Open(t.Context(), local.Config{
		Store: r.store, Model: m, Tools: tool.NewRegistry(tools...), Limits: local.Limits{SlotsPerSession: 1},
		Timing: local.Timing{Drain: -1}, Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.eng.Run(ctx) }()
	r.cfg = api.Config{Engine: r.eng, Token: token, Keys: r.keys}
	r.startAPI()
	t.Cleanup(func() {
		r.closeServer()
		cancel()
		<-ended
		r.store.Close()
	})
	return r
}

// spawn calls spawn_background and returns the id of the task.
func (p *payloads) spawn(part, args string) perdure.TaskID {
	p.t.Helper()
	var run struct {
		ID perdure.TaskID `json:"background_id"`
	}
	if err := json.Unmarshal(p.call("RunPayload", part, args), &run); err != nil || run.ID == "" {
		p.t.Fatalf("spawn %s: no id (%v)", args, err)
	}
	return run.ID
}

// check calls check_background_tool.
func (p *payloads) check(payload, part, args string, ids ...any) {
	p.t.Helper()
	p.call(payload, part, fmt.Sprintf(args, ids...))
}

// call lets the model make one call and wants its result, as the API shows it, to be one payload
// and no other, with a part that says which answer it is.
func (p *payloads) call(payload, part, args string) json.RawMessage {
	p.t.Helper()
	before := p.results()
	p.say(p.chat, args)
	answer := p.result(len(before))
	if !strings.Contains(string(answer), part) {
		p.t.Fatalf("%s: got %s, want %s in it", args, answer, part)
	}
	if fault := p.document.fault("ToolPayload", answer); fault != "" {
		p.t.Errorf("%s: got %s, which is no ToolPayload: %s", args, answer, fault)
	}
	for _, name := range []string{"BackgroundPayload", "RunPayload", "SchedulePayload", "CheckPayload", "ListPayload", "RefusalPayload"} {
		if fault := p.document.fault(name, answer); (fault == "") != (name == payload) {
			p.t.Errorf("%s: got %s, want a %s; as a %s it has %q", args, answer, payload, name, fault)
		}
	}
	p.seen[payload]++
	return answer
}

// result waits for the result with a place in the session, and for the end of its turn.
func (p *payloads) result(place int) json.RawMessage {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	enough, n := errors.New("enough"), 0
	err := p.eng.Follow(ctx, perdure.SessionID(strings.TrimPrefix(p.chat, "/v1/sessions/")), 0, func(f engine.Frame) error {
		switch {
		case f.Event == nil:
		case f.Event.Type() == "tool.completed":
			n++
		case f.Event.Type() == "turn.completed" && n > place:
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		p.t.Fatalf("no result %d in %s: %v", place, p.chat, err)
	}
	return p.results()[place]
}

// results are the results of the session's calls, as they stand on the wire.
func (p *payloads) results() (all []json.RawMessage) {
	p.t.Helper()
	var page struct {
		Items []struct {
			Data struct {
				Result struct {
					Result json.RawMessage `json:"result"`
				} `json:"result"`
			} `json:"data"`
		} `json:"items"`
	}
	got := p.do(get(p.chat + "/events?limit=200&types=tool.completed"))
	if err := json.Unmarshal(got.body, &page); err != nil {
		p.t.Fatalf("%v in %d %s", err, got.status, got.body)
	}
	for _, item := range page.Items {
		all = append(all, item.Data.Result.Result)
	}
	return all
}

// ended waits for the end of a task.
func (p *payloads) ended(id perdure.TaskID) {
	p.t.Helper()
	if task := want[perdure.Task](p.rig, 200, get("/v1/tasks/"+string(id)+"?wait=20s")); !task.State.Terminal() {
		p.t.Fatalf("task %s is %s", id, task.State)
	}
}

// schemas are those of the committed document, each of which knows all its fields: an answer may
// have more fields than the document of a reader, but not than our own.
type schemas struct {
	t  *testing.T
	of map[string]json.RawMessage
}

func readDocument(t *testing.T) schemas {
	t.Helper()
	text, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	closed := strings.NewReplacer(`"additionalProperties": true`, `"additionalProperties": false`, "#/components/schemas/", "#/$defs/")
	for name, schema := range doc.Components.Schemas {
		doc.Components.Schemas[name] = json.RawMessage(closed.Replace(string(schema)))
	}
	return schemas{t, doc.Components.Schemas}
}

// fault returns what is wrong with a value as an instance of a schema, according to the validator
// of tool arguments. Empty: nothing.
func (s schemas) fault(name string, value json.RawMessage) string {
	s.t.Helper()
	if s.of[name] == nil {
		s.t.Fatalf("the document has no %s", name)
	}
	needed := map[string]json.RawMessage{}
	s.collect(name, needed)
	spec := tool.Spec{Name: name, Description: "A schema.", Class: perdure.Pure, Parameters: raw(map[string]any{
		"type": "object", "$ref": "#/$defs/" + name, "$defs": needed,
	})}
	result := tool.NewRegistry(shape{spec}).Validate(name, value)
	switch {
	case result == nil:
		return ""
	case strings.HasPrefix(result.Text, "Tool definition"):
		s.t.Fatalf("%s is no schema: %s", name, result.Text)
	}
	return result.Text
}

// collect adds a schema and all that it refers to.
func (s schemas) collect(name string, needed map[string]json.RawMessage) {
	if needed[name] != nil {
		return
	}
	needed[name] = s.of[name]
	for other := range s.of {
		if strings.Contains(string(s.of[name]), `"#/$defs/`+other+`"`) {
			s.collect(other, needed)
		}
	}
}

// shape is a schema in the form of a tool.
type shape struct{ spec tool.Spec }

func (s shape) Spec() tool.Spec { return s.spec }

func (s shape) Run(context.Context, tool.Call, tool.Env) tool.Result { return tool.Result{} }
