package mcptool_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/mcptool"
)

// newAsker is an engine for which the tools of a far server are other agents.
func newAsker(t *testing.T, f *far, class perdure.EffectClass, script string) *near {
	t.Helper()
	asked, err := mcptool.Open(t.Context(), mcptool.Config{URL: f.web.URL + "/mcp", HTTP: f.web.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defs, err := asked.Definitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = asked.Close(false) // it has said what it has
	classes := map[string]perdure.EffectClass{}
	for _, def := range defs {
		classes[def.Name] = class
	}
	n := &near{far: f}
	var served *mcptool.Server
	n.side = newSide(t, script, func(st *memory.Store) *tool.Registry {
		ports := sessionport.New(sessionport.Config{Store: st})
		handles := watching{mcptool.InResources(func(call tool.Call) tool.Resources { return ports(call.Session, call).Resources }), n}
		if served != nil {
			_ = served.Close() // it is lost with its process
		}
		var err error
		served, err = mcptool.NewServer(mcptool.ServerConfig{
			Name: "far", Definitions: defs, Agents: []string{"hold_*", "ask"}, Classes: classes, Handles: handles,
			Open: func(ctx context.Context, _ perdure.SessionID) (*mcptool.Client, error) {
				return mcptool.Open(ctx, mcptool.Config{URL: f.web.URL + "/mcp", HTTP: f.web.Client(), Patience: n.patience})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		set := tool.NewRegistry(background.Tools(background.Config{})...)
		for _, r := range served.Tools() {
			set.Register(r)
		}
		return set
	})
	t.Cleanup(func() { _ = served.Close() })
	s, err := n.eng.Sessions().Create(context.Background(), perdure.Agent{Name: "near"})
	if err != nil {
		t.Fatal(err)
	}
	n.session = s.ID
	return n
}

// remotes is the tasks of the far server.
func (f *far) remotes() []perdure.Task {
	f.t.Helper()
	tasks, err := f.eng.Tasks().List(context.Background(), "")
	if err != nil {
		f.t.Fatal(err)
	}
	return tasks
}

// TestExternalAgent: a task of a tool that is an external agent has that kind, names the remote
// task that carries it out before the first poll, and resumes polling across crashes in the middle
// of its polls (SA13).
func TestExternalAgent(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	var n *near
	var key perdure.CallKey
	var unlinked atomic.Int64
	f.answers = func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler) {
		if method == "tasks/get" {
			now, err := n.eng.Tasks().List(context.Background(), n.session)
			if err != nil || len(now) != 1 || now[0].Links.RemoteTask == "" {
				unlinked.Add(1)
			}
		}
		answer.ServeHTTP(w, r)
	}
	n = newAsker(t, f, perdure.AtMostOnce, silent)
	key = n.begin("far__hold_charge", `{"text":"a"}`)
	f.Entered(t, "hold_charge", 1)
	for range 3 {
		polls := f.asked("tasks/get")
		n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > polls })
		n.restart()
	}
	f.Release("hold_charge")
	done := n.until(key, over)
	if task := done.Task; task.Kind != perdure.KindExternalAgent || task.State != perdure.TaskSucceeded || task.Attempt != 4 || task.Executions != 1 {
		t.Errorf("got a task of kind %s that is %s, attempt %d, %d executions", task.Kind, task.State, task.Attempt, task.Executions)
	}
	if unlinked.Load() != 0 {
		t.Errorf("%d polls were made before the remote id was committed", unlinked.Load())
	}
	remotes := f.remotes()
	if len(remotes) != 1 || f.asked("tools/call") != 1 || len(f.Effects("hold_charge")) != 1 {
		t.Fatalf("%d remote tasks, %d calls, %d effects, want one", len(remotes), f.asked("tools/call"), len(f.Effects("hold_charge")))
	}
	if _, err := perdure.ParseID[perdure.TaskID](done.Task.Links.RemoteTask); err != nil && !strings.Contains(done.Task.Links.RemoteTask, "task_") {
		t.Errorf("it is linked with %q: %v", done.Task.Links.RemoteTask, err)
	}
}

// TestExternalAgentMirrored: a remote task that ended while nobody polled it is mirrored, with its
// result or error.
func TestExternalAgentMirrored(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	n := newAsker(t, f, perdure.AtMostOnce, silent)
	key := n.begin("far__hold_note", `{"text":"a"}`)
	f.Entered(t, "hold_note", 1)
	n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > 0 })
	n.kill()
	f.Release("hold_note")
	if err := f.eng.Sessions().WaitIdle(t.Context(), f.remotes()[0].Session); err != nil {
		t.Fatal(err)
	}
	if now := f.remotes()[0]; now.State != perdure.TaskSucceeded {
		t.Fatalf("the remote task is %s", now.State)
	}
	n.start()
	if done := n.until(key, over); done.Task.State != perdure.TaskSucceeded || f.asked("tools/call") != 1 {
		t.Errorf("the task is %s after %d calls", done.Task.State, f.asked("tools/call"))
	}
}

// TestExternalAgentEnded: a crash between the answer that says how the remote task ended and the
// commit of that end, before or after it was recorded that the remote is done. The remote is polled
// again, nothing is started twice, and the result is delivered once (RC17).
func TestExternalAgentEnded(t *testing.T) {
	t.Parallel()
	for _, class := range []perdure.EffectClass{perdure.AtMostOnce, perdure.Idempotent} {
		for _, noted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/noted=%t", class, noted), func(t *testing.T) {
				t.Parallel()
				f := newFar(t)
				n := newAsker(t, f, class, silent)
				dead := make(chan struct{})
				var first sync.Once
				n.over = func(note func() error) (err error) {
					died := false
					first.Do(func() {
						died = true
						if noted {
							err = note()
						}
						n.mortal.Kill()
						close(dead)
					})
					if noted && died {
						return err
					}
					return note()
				}
				key := n.begin("far__hold_charge", `{"text":"a"}`)
				f.Entered(t, "hold_charge", 1)
				f.Release("hold_charge")
				<-dead
				n.restart()
				done := n.until(key, over)
				if task := done.Task; task.State != perdure.TaskSucceeded || task.Executions != 1 || done.Result.IsError() {
					t.Errorf("the task is %s after %d executions, with %+v", task.State, task.Executions, done.Result)
				}
				if remotes := f.remotes(); len(remotes) != 1 || f.asked("tools/call") != 1 || len(f.Effects("hold_charge")) != 1 {
					t.Errorf("%d remote tasks, %d calls, %d effects, want one", len(remotes), f.asked("tools/call"), len(f.Effects("hold_charge")))
				}
			})
		}
	}
}

// TestExternalAgentUnnamed: a crash between the remote task's creation and the commit of its id. At
// most once: the outcome is unknown. An idempotent task is found by its key if the server supports
// keys, and is never started a second time (RC17).
func TestExternalAgentUnnamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		class perdure.EffectClass
		keys  bool
		state perdure.TaskState
		kind  perdure.ErrorKind
	}{
		{"once", perdure.AtMostOnce, true, perdure.TaskUnknown, ""},
		{"found", perdure.Idempotent, true, perdure.TaskSucceeded, ""},
		{"orphaned", perdure.Idempotent, false, perdure.TaskFailed, perdure.ErrorOrphaned},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			made, gone := make(chan struct{}), make(chan struct{})
			var first sync.Once
			f.answers = func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler) {
				said := httptest.NewRecorder()
				answer.ServeHTTP(said, r)
				if method == "tools/call" {
					first.Do(func() { close(made); <-gone })
				}
				body := said.Body.Bytes()
				if !c.keys {
					body = bytes.ReplaceAll(body, []byte("io.github.perdure/key"), []byte("io.github.perdure/nix"))
				}
				for name, values := range said.Header() {
					w.Header()[name] = values
				}
				w.WriteHeader(said.Code)
				_, _ = w.Write(body) // the client may have died
			}
			n := newAsker(t, f, c.class, silent)
			key := n.begin("far__hold_charge", `{"text":"a"}`)
			<-made
			n.kill()
			close(gone)
			n.start()
			f.Entered(t, "hold_charge", 1)
			f.Release("hold_charge")
			done := n.until(key, func(now engine.HostCall) bool { return now.Task.State.Terminal() })
			var kind perdure.ErrorKind
			if done.Task.Error != nil {
				kind = done.Task.Error.Kind
			}
			if done.Task.State != c.state || kind != c.kind {
				t.Errorf("it is %s, %s; want %s, %s", done.Task.State, kind, c.state, c.kind)
			}
			if n := len(f.remotes()); n != 1 {
				t.Errorf("%d remote tasks, want one", n)
			}
		})
	}
}

// TestExternalAgentCancel: a cancel goes through to the remote, also when the remote hears it only
// at the third time.
func TestExternalAgentCancel(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	var refused atomic.Int64
	f.answers = func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler) {
		if method == "tasks/cancel" && refused.Add(1) < 3 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		answer.ServeHTTP(w, r)
	}
	n := newAsker(t, f, perdure.AtMostOnce, silent)
	key := n.begin("far__hold_note", `{"text":"a"}`)
	f.Entered(t, "hold_note", 1)
	now := n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > 0 })
	if _, err := n.eng.Tasks().Cancel(t.Context(), now.Task.ID, "test", "enough"); err != nil {
		t.Fatal(err)
	}
	if done := n.until(key, over); done.Task.State != perdure.TaskCanceled {
		t.Errorf("it is %s", done.Task.State)
	}
	if remote := f.remotes()[0]; !remote.CancelRequested() {
		t.Errorf("the remote task is %s, and its end was not requested", remote.State)
	}
}

// TestExternalAgentCancelRepeated: a cancel that the remote accepts but does not answer is repeated
// within the grace.
func TestExternalAgentCancelRepeated(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	var heard atomic.Int64
	f.answers = func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler) {
		if method == "tasks/cancel" && heard.Add(1) == 1 {
			<-r.Context().Done() // the client leaves first
			return
		}
		answer.ServeHTTP(w, r)
	}
	n := newAsker(t, f, perdure.AtMostOnce, silent)
	key := n.begin("far__hold_note", `{"text":"a"}`)
	f.Entered(t, "hold_note", 1)
	now := n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > 0 })
	if _, err := n.eng.Tasks().Cancel(t.Context(), now.Task.ID, "test", "enough"); err != nil {
		t.Fatal(err)
	}
	done := n.until(key, over)
	n.until(key, func(engine.HostCall) bool { return f.remotes()[0].CancelRequested() })
	if done.Task.State != perdure.TaskCanceled {
		t.Errorf("it is %s", done.Task.State)
	}
}

// TestExternalAgentCancelUnnamed: a cancel that ends the call before the id of the remote task is
// known here finds the task by its key, and ends it. No second task is started (SA13).
func TestExternalAgentCancelUnnamed(t *testing.T) {
	t.Parallel()
	cancel := func(n *near, key perdure.CallKey) {
		now := n.until(key, func(c engine.HostCall) bool { return c.Task != nil })
		if _, err := n.eng.Tasks().Cancel(context.Background(), now.Task.ID, "test", "enough"); err != nil {
			t.Error(err)
		}
	}
	for name, then := range map[string]func(f *far, n *near, key perdure.CallKey){
		"the answer is late": func(_ *far, n *near, key perdure.CallKey) { cancel(n, key) },
		"the server is unavailable after a crash": func(f *far, n *near, key perdure.CallKey) {
			f.goAway(true)
			n.restart()
			cancel(n, key)
			f.goAway(false)
		},
		"of a dead attempt": func(f *far, n *near, key perdure.CallKey) {
			n.kill()
			found, _ := n.tools().Get("far__hold_note")
			call := tool.Call{Session: n.session, ID: key.Call, Tool: "far__hold_note", Key: key.IdempotencyKey(), Args: []byte(`{"text":"a"}`)}
			if err := found.(tool.Adoptable).Stop(context.Background(), call); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFar(t)
			var first sync.Once
			f.answers = func(w http.ResponseWriter, r *http.Request, method string, answer http.Handler) {
				late := false
				if method == "tools/call" {
					first.Do(func() { late = true })
				}
				if !late {
					answer.ServeHTTP(w, r)
					return
				}
				answer.ServeHTTP(httptest.NewRecorder(), r) // the task is made
				<-r.Context().Done()                        // the client leaves first
			}
			n := newAsker(t, f, perdure.Idempotent, silent)
			key := n.begin("far__hold_note", `{"text":"a"}`)
			f.Entered(t, "hold_note", 1)
			then(f, n, key)
			for end := time.Now().Add(patience); !f.remotes()[0].CancelRequested(); <-time.After(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the cancel did not reach the remote task")
				}
			}
			if remotes := f.remotes(); len(remotes) != 1 {
				t.Errorf("%d remote tasks, want one", len(remotes))
			}
		})
	}
}

// TestExternalAgentAsks: a question of the remote is the task's, over a death, and one answer
// resolves both.
func TestExternalAgentAsks(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	n := newAsker(t, f, perdure.AtMostOnce, silent)
	key := n.begin("far__ask", `{}`)
	waits := func(c engine.HostCall) bool { return c.Task != nil && c.Task.AwaitsInput() }
	asked := n.until(key, waits)
	n.restart()
	asked = n.until(key, waits)
	if asked.Task.Kind != perdure.KindExternalAgent || asked.Task.State != perdure.TaskAwaitingInput {
		t.Errorf("a task of kind %s is %s", asked.Task.Kind, asked.Task.State)
	}
	answer := perdure.TaskMessage{InReplyTo: asked.Task.InputRequest.ID, By: "test", Text: "blue", Data: []byte(`{"answer":"blue"}`)}
	if _, err := n.eng.Tasks().Send(t.Context(), asked.Task.ID, answer); err != nil {
		t.Fatal(err)
	}
	f.Release("ask_after")
	if done := n.until(key, over); !strings.Contains(string(done.Result.Result), "blue") {
		t.Errorf("got %s %s", done.Result.Result, done.Result.Error)
	}
	if remote := f.remotes()[0]; remote.State != perdure.TaskSucceeded || remote.InputRequest != nil {
		t.Errorf("the remote task is %s, and asks %+v", remote.State, remote.InputRequest)
	}
}

// TestExternalAgentInBackground: a model starts one in the background, and the result is in its
// transcript as untrusted text.
func TestExternalAgentInBackground(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	f.Release("hold_note")
	n := newAsker(t, f, perdure.AtMostOnce, "steps:\n  - calls: [{name: spawn_background, args: {tool: far__hold_note, args: {text: a}}}]\n  - {text: well, repeat: true}\n")
	if _, err := n.eng.Send(t.Context(), n.session, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	if err := n.eng.Sessions().WaitIdle(t.Context(), n.session); err != nil {
		t.Fatal(err)
	}
	events, err := n.eng.Events(t.Context(), n.session, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, event := range events {
		if came, ok := event.Fact.(perdure.TaskDelivered); ok {
			told++
			if !came.Message.Untrusted() || !strings.Contains(fmt.Sprint(came.Message.Parts), "far__hold_note") {
				t.Errorf("this may give orders: %+v", came.Message)
			}
		}
	}
	tasks, err := n.eng.Tasks().List(t.Context(), n.session)
	if err != nil || told != 1 || len(tasks) != 1 || tasks[0].Kind != perdure.KindExternalAgent || tasks[0].Origin != perdure.OriginSpawned {
		t.Errorf("notified %d times of %+v, %v", told, tasks, err)
	}
}

// TestAgentsAreChosen: only the operator decides which tools are agents.
func TestAgentsAreChosen(t *testing.T) {
	t.Parallel()
	defs := []*mcp.Tool{defined("ask_build", `{"type":"object"}`), defined("read", `{"type":"object"}`)}
	s, err := mcptool.NewServer(mcptool.ServerConfig{Name: "far", Definitions: defs})
	if err != nil || s.Tools()[0].Spec().ExternalAgent {
		t.Errorf("a name makes an agent: %v", err)
	}
	if s, err = mcptool.NewServer(mcptool.ServerConfig{Name: "far", Definitions: defs, Agents: []string{"ask_*"}}); err != nil {
		t.Fatal(err)
	}
	agent, other := s.Tools()[0].Spec(), s.Tools()[1].Spec()
	if !agent.ExternalAgent || agent.SoftBudget != tool.Never || agent.Class != perdure.AtMostOnce || other.ExternalAgent || other.SoftBudget != 0 {
		t.Errorf("got %+v, %+v", agent, other)
	}
	if _, err := mcptool.NewServer(mcptool.ServerConfig{Name: "far", Definitions: defs, Agents: []string{"["}}); err == nil {
		t.Error("a pattern without an end is accepted")
	}
}

// TestConnectionOf: no two users outside a session share a connection, whatever their names are.
func TestConnectionOf(t *testing.T) {
	t.Parallel()
	one, two := tool.Call{Org: "a/b", User: "c"}, tool.Call{Org: "a", User: "b/c"}
	if mcptool.ConnectionOf(one) == mcptool.ConnectionOf(two) {
		t.Errorf("both have %q", mcptool.ConnectionOf(one))
	}
	one.Session = "session_1"
	if got := mcptool.ConnectionOf(one); got != "session_1" {
		t.Errorf("got %q, want the session", got)
	}
}
