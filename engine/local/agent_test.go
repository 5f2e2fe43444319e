package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// house is a store with two harnesses, an agent on them and models, and an engine over it.
type house struct {
	*local.Engine
	store      store.Store
	asked      *heard
	root, leaf agent.Harness
	agent      agent.Agent
	def, small store.Model
	reached    chan perdure.NetworkList // the network list that reach was allowed
}

// furnish fills a store and opens an engine over it, which runs until the end of the test.
func furnish(t *testing.T, script string, change func(*local.Config)) *house {
	t.Helper()
	h := &house{store: memory.New(memory.Config{}), reached: make(chan perdure.NetworkList, 10)}
	h.root = agent.Harness{ID: core.NewID[perdure.HarnessID](), Name: "house", Status: agent.Active, Overlay: agent.Overlay{
		SystemPrompt: "Be kind.", Tools: []string{"reach"}, MaxIterations: agent.Limit{Hard: 10}, NetworkAccess: []perdure.NetworkList{{Allowed: []string{"*.a.test"}}},
		InitialFiles: []agent.File{{Path: "/rules.md", Content: "Be kind.", IsReadOnly: true}, {Path: "/note", Content: "of the house"}},
	}}
	h.leaf = agent.Harness{ID: core.NewID[perdure.HarnessID](), Name: "room", Parent: h.root.ID, Status: agent.Active, Overlay: agent.Overlay{
		SystemPrompt: "Be brief.", Capabilities: []string{"maths"}, InitialFiles: []agent.File{{Path: "/note", Content: "of the room"}},
	}}
	h.agent = agent.Agent{ID: core.NewID[perdure.AgentID](), Name: "reader", Harness: h.leaf.ID, Status: agent.Active, Overlay: agent.Overlay{
		SystemPrompt: "You read.", MaxIterations: agent.Limit{Value: 50}, NetworkAccess: []perdure.NetworkList{{Allowed: []string{"x.a.test", "b.test"}}},
	}}
	provider := store.Provider{ID: core.NewID[perdure.ProviderID](), Kind: "openai"}
	h.def = store.Model{ID: core.NewID[perdure.ModelID](), Provider: provider.ID, Name: "large-1"}
	h.small = store.Model{ID: core.NewID[perdure.ModelID](), Provider: provider.ID, Name: "small-1"}
	h.write(t, func(tx store.Tx) (err error) {
		for _, put := range []func() error{
			func() error { h.root, err = tx.Directory().Harnesses().Put(h.root); return err },
			func() error { h.leaf, err = tx.Directory().Harnesses().Put(h.leaf); return err },
			func() error { h.agent, err = tx.Directory().Agents().Put(h.agent); return err },
			func() error { _, err = tx.Directory().Providers().Put(provider); return err },
			func() error { h.def, err = tx.Directory().Models().Put(h.def); return err },
			func() error { h.small, err = tx.Directory().Models().Put(h.small); return err },
			func() error { return tx.Directory().Models().SetDefault(h.def.ID) },
		} {
			if err := put(); err != nil {
				return err
			}
		}
		return nil
	})
	model, err := scripted.Parse("house", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	h.asked = &heard{Model: model}
	cfg := local.Config{
		Store: h.store, Model: h.asked, Tools: tool.NewRegistry(h.reach(), plainTool("unwanted")),
		Timing: local.Timing{Grace: time.Second},
		Catalogue: local.Catalogue{Capabilities: []tool.Capability{{
			ID: "maths", Name: "Sums", Prompt: "You can add.", Tools: []tool.Tool{plainTool("sum")}, Files: []agent.File{{Path: "/tables", Content: "1"}, {Path: "/note", Content: "no"}},
		}}, Blueprints: []tool.Blueprint{{
			Name: "greeter", Schema: json.RawMessage(`{"type":"object","properties":{"who":{"type":"string"}},"required":["who"],"additionalProperties":false}`),
			Make: func(config json.RawMessage) (agent.Overlay, error) {
				return agent.Overlay{SystemPrompt: "Greet " + string(config)}, nil
			},
		}}},
	}
	if change != nil {
		change(&cfg)
	}
	h.Engine, err = local.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- h.Run(work) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	return h
}

func (h *house) write(t *testing.T, fn func(store.Tx) error) {
	t.Helper()
	if err := h.store.InTx(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// reach is a tool that reports which hosts it may reach.
func (h *house) reach() tool.Tool {
	spec := tool.Spec{Name: "reach", Description: "Reaches out.", Class: perdure.Pure}
	return tool.New(spec, func(_ context.Context, _ struct{}, env tool.Env) (string, error) {
		h.reached <- env.Network
		return "reached", nil
	})
}

func plainTool(name string) tool.Tool {
	spec := tool.Spec{Name: name, Description: "A tool of the tests.", Class: perdure.Pure}
	return tool.New(spec, func(context.Context, struct{}, tool.Env) (string, error) { return "done", nil })
}

// start starts a session.
func (h *house) start(t *testing.T, o tool.SessionRequest) engine.Session {
	t.Helper()
	s, err := h.StartAgent(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// say sends a message and waits for the end of the turns that it causes.
func (h *house) say(t *testing.T, id perdure.SessionID) []perdure.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := h.Send(ctx, id, perdure.Text("go"))
	if err == nil {
		err = h.Sessions().WaitIdle(ctx, id)
	}
	events, read := h.Events(ctx, id, 0, 0)
	if err = errors.Join(err, read); err != nil {
		t.Fatal(err)
	}
	return events
}

func differ(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestStartAgent: the configuration of a session of a stored agent is the fold of its chain of
// harnesses, and the first event contains it (N8, N9).
func TestStartAgent(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - calls: [{name: reach}, {name: sum}]\n  - text: done\n", nil)

	s := h.start(t, tool.SessionRequest{Agent: h.agent.ID, Title: "Reading", Overlay: agent.Overlay{SystemPrompt: "Now.", SoftBudgetMS: -1}})
	events := h.say(t, s.ID)

	want := perdure.Agent{
		ID: h.agent.ID, Harness: h.leaf.ID, Title: "Reading", Instructions: "Be kind.\n\nBe brief.\n\nYou read.\n\nNow.\n\nYou can add.", Model: "large-1",
		Tools: []string{"reach", "sum"}, Capabilities: []string{"maths"}, MaxIterations: 10, SoftBudgetMS: -1, Network: perdure.NetworkList{Allowed: []string{"x.a.test"}},
	}
	want.CreateDigest = events[0].Fact.(perdure.SessionCreated).Agent.CreateDigest // see TestStartAgentOther
	differ(t, "agent", events[0].Fact, perdure.SessionCreated{Agent: want})
	first := h.asked.requests[0]
	differ(t, "the model's words", []string{first.System, first.Model}, []string{want.Instructions, "large-1"})
	var told []string
	for _, one := range first.Tools {
		told = append(told, one.Name)
	}
	differ(t, "tools told", told, want.Tools)
	differ(t, "where a tool may go", <-h.reached, want.Network)

	files := map[string]string{}
	err := h.store.View(t.Context(), func(r store.Reader) error {
		list, err := r.Files().List(s.ID, "/", true)
		for _, f := range list {
			whole, failed := r.Files().Get(s.ID, f.Path)
			err = errors.Join(err, failed)
			files[f.Path] = fmt.Sprint(string(whole.Content), " ", whole.ReadOnly)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	differ(t, "files", files, map[string]string{"/rules.md": "Be kind. true", "/note": "of the room false", "/tables": "1 false"})
}

// TestStartAgentModel: the model of the order has precedence, then the agent's, then the default
// one (N10).
func TestStartAgentModel(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: done\n", nil)
	modelOf := func(o tool.SessionRequest) string {
		events, err := h.Events(t.Context(), h.start(t, o).ID, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return events[0].Fact.(perdure.SessionCreated).Agent.Model
	}

	differ(t, "default", modelOf(tool.SessionRequest{}), "large-1")
	differ(t, "chosen", modelOf(tool.SessionRequest{Agent: h.agent.ID, Overlay: agent.Overlay{DefaultModel: h.small.ID}}), "small-1")
	h.write(t, func(tx store.Tx) error { return tx.Directory().Models().SetDefault("") })
	differ(t, "the engine's", modelOf(tool.SessionRequest{Agent: h.agent.ID}), "")
}

// TestStartAgentAgain: one id is one session, even if the agent has changed since (N5).
func TestStartAgentAgain(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: done\n", nil)
	o := tool.SessionRequest{ID: core.NewID[perdure.SessionID](), Agent: h.agent.ID, Title: "one"}
	s := h.start(t, o)
	changed := h.agent
	changed.Overlay.SystemPrompt = "You write."
	h.write(t, func(tx store.Tx) error { _, err := tx.Directory().Agents().Put(changed); return err })

	differ(t, "again", h.start(t, o), s)
	o.Title = "other"
	if _, err := h.StartAgent(t.Context(), o); !errors.Is(err, perdure.Conflict) {
		t.Errorf("another order: got %v, want a conflict", err)
	}
	events := h.say(t, s.ID)
	if got := events[0].Fact.(perdure.SessionCreated).Agent.Instructions; strings.Contains(got, "You write.") {
		t.Errorf("got %q, want what it was made of", got)
	}
}

// TestStartAgentGone: the same order returns its session even if everything that it names has been
// deleted (N5).
func TestStartAgentGone(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: done\n", nil)
	o := tool.SessionRequest{ID: core.NewID[perdure.SessionID](), Agent: h.agent.ID, Overlay: agent.Overlay{DefaultModel: h.small.ID}}
	other := tool.SessionRequest{ID: core.NewID[perdure.SessionID](), Harness: h.leaf.ID}
	s, of := h.start(t, o), h.start(t, other)
	h.agent.Status, h.root.Status = agent.Archived, agent.Deleted
	h.write(t, func(tx store.Tx) error {
		_, err := tx.Directory().Agents().Put(h.agent)
		_, failed := tx.Directory().Harnesses().Put(h.root)
		_, broken := tx.Directory().Models().Remove(h.small.ID)
		return errors.Join(err, failed, broken)
	})

	differ(t, "again", h.start(t, o), s)
	differ(t, "of a harness, again", h.start(t, other), of)
	o.ID = ""
	if _, err := h.StartAgent(t.Context(), o); !errors.Is(err, perdure.Conflict) {
		t.Errorf("for another session: got %v, want a conflict", err)
	}
}

// TestStartAgentOther: an order with any other content is a different one, and so is an order for a
// copy of a session. An order with the same content in another form is the same one (N5).
func TestStartAgentOther(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: done\n", nil)
	o := tool.SessionRequest{
		ID: core.NewID[perdure.SessionID](), Blueprint: "greeter", Config: json.RawMessage(`{"who":"ada"}`),
		Overlay: agent.Overlay{InitialFiles: []agent.File{{Path: "/bytes", Content: "\xff"}}},
	}
	s, plain := h.start(t, o), h.start(t, tool.SessionRequest{})

	same := o
	same.Config, same.Overlay.Tools, same.Overlay.Metadata = json.RawMessage(`{ "who" : "\u0061da" }`), []string{}, map[string]string{}
	differ(t, "in other words", h.start(t, same), s)
	differ(t, "of nothing, in other words", h.start(t, tool.SessionRequest{ID: plain.ID, Config: json.RawMessage{}}), plain)

	if _, err := h.StartAgent(t.Context(), tool.SessionRequest{ID: plain.ID, Config: json.RawMessage(`{}`)}); !errors.Is(err, perdure.Conflict) {
		t.Errorf("a configuration of nothing: got %v, want a conflict", err)
	}

	refused := func(what string) {
		if _, err := h.StartAgent(t.Context(), o); !errors.Is(err, perdure.Conflict) {
			t.Errorf("another %s: got %v, want a conflict", what, err)
		}
	}
	id, files := o.ID, o.Overlay.InitialFiles
	o.Overlay.InitialFiles = []agent.File{{Path: "/bytes", Content: "\xfe"}}
	refused("content")
	o.Overlay.InitialFiles = files
	for i, field := range reflect.VisibleFields(reflect.TypeFor[tool.SessionRequest]()) {
		if field.Name != "ID" {
			eachChange(reflect.ValueOf(&o).Elem().Field(i), field.Name, refused)
		}
	}
	copied, err := h.Sessions().Fork(t.Context(), id, engine.Fork{Effects: perdure.ForkDryRun})
	if err != nil {
		t.Fatal(err)
	}
	o.ID = copied.ID
	refused("session, copied from its own")
}

// eachChange changes one thing in v after another, calls do for each, and restores it.
func eachChange(v reflect.Value, name string, do func(what string)) {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			eachChange(v.Field(i), name+"."+v.Type().Field(i).Name, do)
		}
		return
	}
	before := reflect.New(v.Type()).Elem()
	before.Set(v)
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("other"), reflect.New(v.Type().Elem()).Elem())
	}
	do(name)
	v.Set(before)
}

// TestStartAgentRefuses: an order that cannot be carried out as requested starts nothing.
func TestStartAgentRefuses(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: done\n", nil)
	archived, lone := h.agent, agent.Harness{ID: core.NewID[perdure.HarnessID](), Name: "lone", Status: agent.Active}
	archived.ID, archived.Version, archived.Status = core.NewID[perdure.AgentID](), 0, agent.Archived
	gone := agent.Harness{ID: core.NewID[perdure.HarnessID](), Name: "gone", Status: agent.Deleted}
	h.write(t, func(tx store.Tx) error {
		_, err := tx.Directory().Agents().Put(archived)
		_, failed := tx.Directory().Harnesses().Put(lone)
		_, broken := tx.Directory().Harnesses().Put(gone)
		return errors.Join(err, failed, broken)
	})
	before, err := h.Sessions().List(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		order tool.SessionRequest
		kind  error
	}{
		"session id":               {tool.SessionRequest{ID: "session"}, perdure.Invalid},
		"agent agent_":             {tool.SessionRequest{Agent: core.NewID[perdure.AgentID]()}, perdure.NotFound},
		"harness harness_":         {tool.SessionRequest{Harness: core.NewID[perdure.HarnessID]()}, perdure.NotFound},
		"is archived":              {tool.SessionRequest{Agent: archived.ID}, perdure.Conflict},
		"is deleted":               {tool.SessionRequest{Harness: gone.ID}, perdure.Conflict},
		"it does not inherit from": {tool.SessionRequest{Agent: h.agent.ID, Harness: lone.ID}, perdure.Invalid},
		`tool "fly"`:               {tool.SessionRequest{Overlay: agent.Overlay{Tools: []string{"fly"}}}, perdure.NotFound},
		`capability "magic"`:       {tool.SessionRequest{Overlay: agent.Overlay{Capabilities: []string{"magic"}}}, perdure.NotFound},
		"model model_":             {tool.SessionRequest{Overlay: agent.Overlay{DefaultModel: core.NewID[perdure.ModelID]()}}, perdure.NotFound},
		"soft_budget_ms":           {tool.SessionRequest{Overlay: agent.Overlay{SoftBudgetMS: -9}}, perdure.Invalid},
		"initial file /a//b":       {tool.SessionRequest{Overlay: agent.Overlay{InitialFiles: []agent.File{{Path: "/a//b"}}}}, perdure.Invalid},
		`blueprint "none"`:         {tool.SessionRequest{Blueprint: "none"}, perdure.NotFound},
		"an agent or a blueprint":  {tool.SessionRequest{Blueprint: "greeter", Agent: h.agent.ID}, perdure.Invalid},
		"the order names none":     {tool.SessionRequest{Config: json.RawMessage(`{}`)}, perdure.Invalid},
		"/who: is required":        {tool.SessionRequest{Blueprint: "greeter"}, perdure.Invalid},
	} {
		if _, err := h.StartAgent(t.Context(), c.order); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %v: %s", err, c.kind, want)
		}
	}
	after, err := h.Sessions().List(t.Context(), 0)
	if err != nil || len(after) != len(before) {
		t.Errorf("got %d sessions, %v, want %d", len(after), err, len(before))
	}
}

// TestArchivedAgent: a turn that needs what is archived or deleted stops at its next step, and says
// why (N11).
func TestArchivedAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		archive func(h *house, tx store.Tx) error
		want    string
	}{
		"agent": {func(h *house, tx store.Tx) error {
			a := h.agent
			a.Status = agent.Archived
			_, err := tx.Directory().Agents().Put(a)
			return err
		}, "agent %[1]s is archived"},
		"harness": {func(h *house, tx store.Tx) error {
			r := h.root
			r.Status = agent.Deleted
			_, err := tx.Directory().Harnesses().Put(r)
			return err
		}, "harness %[2]s is deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := furnish(t, "steps:\n  - text: one\n  - text: two\n", nil)
			s := h.start(t, tool.SessionRequest{Agent: h.agent.ID})
			h.say(t, s.ID)
			h.write(t, func(tx store.Tx) error { return c.archive(h, tx) })

			events := h.say(t, s.ID)

			end, _ := events[slices.IndexFunc(events, func(e perdure.Event) bool { _, failed := e.Fact.(perdure.TurnFailed); return failed })].Fact.(perdure.TurnFailed)
			want := fmt.Sprintf(c.want, h.agent.ID, h.root.ID)
			if end.Code != "dependency_unavailable" || end.Retryable || end.Error != want {
				t.Errorf("got %+v, want dependency_unavailable: %s", end, want)
			}
			if n := len(h.asked.requests); n != 1 {
				t.Errorf("the model was asked %d times, want once", n)
			}
		})
	}
}

// TestSeedsOfHostFiles: a host that stores the files itself must be able to store a seed read-only.
func TestSeedsOfHostFiles(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps:\n  - text: one\n", func(cfg *local.Config) {
		cfg.Ports.Files = func(perdure.SessionID) (tool.Files, tool.Files) { return tool.DisabledFiles{}, tool.DisabledFiles{} }
	})

	_, err := h.StartAgent(t.Context(), tool.SessionRequest{Agent: h.agent.ID})

	if err == nil || !strings.Contains(err.Error(), "read-only initial files require a SessionFileSystem-specific seed implementation") {
		t.Errorf("got %v, want the host's reason", err)
	}
}

// TestCapabilityConfig: an engine does not open with invalid capabilities.
func TestCapabilityConfig(t *testing.T) {
	t.Parallel()
	other := tool.New(tool.Spec{Name: "echo", Description: "Another one.", Class: perdure.Pure}, func(context.Context, struct{}, tool.Env) (string, error) { return "", nil })
	for want, capabilities := range map[string][]tool.Capability{
		`capability ""`: {{}},
		"another tool":  {{ID: "x", Tools: []tool.Tool{other}}},
	} {
		script, err := scripted.Parse("none", []byte("steps:\n  - text: one\n"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: script, Tools: tool.NewRegistry(plainTool("echo")), Catalogue: local.Catalogue{Capabilities: capabilities}})
		if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an invalid %s", err, want)
		}
	}
}

// TestConnectionCanary: a token that a tool reads is in no event and no row, even if the tool
// prints it (CN1).
func TestConnectionCanary(t *testing.T) {
	t.Parallel()
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	const canary = "canary-5d1f0a9be3774c"
	loud := tool.New(tool.Spec{Name: "loud", Description: "Tells its token.", Class: perdure.Pure},
		func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
			token, err := env.Connections.Token(ctx, "github")
			if err != nil || token != canary {
				return "", fmt.Errorf("not the token: %w", err)
			}
			key, err := env.Credentials.Credential(ctx, "openai")
			return "my token is " + token + " and my key " + key.Key, err
		})
	h := furnish(t, "steps:\n  - calls: [{name: loud}]\n  - text: done\n", func(cfg *local.Config) {
		cfg.Storage.Secrets.Keys = keys
		cfg.Tools = tool.NewRegistry(loud)
	})
	ports := sessionport.Config{Keys: keys}
	h.write(t, func(tx store.Tx) error {
		token, err := ports.SealToken(store.ConnectionKey{User: sessionport.LocalUser, Provider: "github"}, canary)
		if err != nil {
			return err
		}
		_, err = tx.Directory().Connections().Put(store.Connection{User: sessionport.LocalUser, Provider: "github", Sealed: token})
		p := store.Provider{ID: core.NewID[perdure.ProviderID](), Kind: "openai"}
		key, failed := ports.SealKey(p.ID, canary+"-key")
		p.Sealed = key
		_, broken := tx.Directory().Providers().Put(p)
		return errors.Join(err, failed, broken, tx.Directory().Providers().SetDefault(p.ID))
	})
	s := h.start(t, tool.SessionRequest{Overlay: agent.Overlay{Tools: []string{"loud"}}})

	h.say(t, s.ID)

	var dump store.SessionDump
	var rows any
	err = h.store.View(t.Context(), func(r store.Reader) error {
		all, err := r.Directory().Providers().List()
		connections, failed := r.Directory().Connections().List()
		rows = []any{all, connections}
		whole, broken := r.Sessions().Dump(s.ID)
		dump = whole
		return errors.Join(err, failed, broken)
	})
	text, failed := json.Marshal([]any{dump, rows})
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "my token is") {
		t.Errorf("the tool did not get as far as its token: %s", text)
	}
	if strings.Contains(string(text), canary) {
		t.Errorf("the canary stands in what is stored: %s", text)
	}
}
