package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

// factsOf returns the facts of one type in the journal of a session, with their events.
func factsOf[T perdure.Fact](s *shop) (facts []T, events []perdure.Event) {
	s.t.Helper()
	all, err := s.eng.Events(s.ctx, s.id, 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range all {
		if f, ok := e.Fact.(T); ok {
			facts, events = append(facts, f), append(events, e)
		}
	}
	return facts, events
}

// TestNarration has TL7: the sentences of a call stand in the events of its start and its end, and
// only where the tool has some.
func TestNarration(t *testing.T) {
	t.Parallel()
	s := openShop(t, `
rules:
  - when: {not_called: write_file}
    calls:
      - {id: call_1, name: write_file, args: {path: /a.txt, content: hello}}
      - {id: call_2, name: read_file, args: {path: /nothing.txt}}
      - {id: call_3, name: plain, args: {}}
  - when: {called: write_file}
    text: done
`, local.Config{}, append(file.Tools(), namelessTool())...)
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	s.rest()

	started, _ := factsOf[perdure.ToolStarted](s)
	ended, _ := factsOf[perdure.ToolCompleted](s)
	got := map[perdure.CallID]string{}
	for _, f := range started {
		got[f.CallID] = f.Narration
	}
	for _, f := range ended {
		got[f.CallID] += " | " + f.Narration
	}
	for id, want := range map[perdure.CallID]string{
		"call_1": "Writing /a.txt | Wrote /a.txt",
		"call_2": "Reading /nothing.txt | Could not read /nothing.txt: File not found: /nothing.txt",
		"call_3": " | ",
	} {
		if got[id] != want {
			t.Errorf("%s: got %q, want %q", id, got[id], want)
		}
	}
}

func namelessTool() tool.Tool {
	return tool.New(tool.Spec{Name: "plain", Description: "x", Class: perdure.Pure}, func(context.Context, words, tool.Env) (answer, error) {
		return answer{}, nil
	})
}

// emitter emits events and returns what came of each.
func emitter(names ...string) tool.Tool {
	spec := tool.Spec{Name: "deploy", Description: "x", Class: perdure.Idempotent, Narration: tool.Narration{
		Started: "Deploying", Completed: "Deployed", Failed: "Could not deploy"}}
	return tool.NewBackground(spec, func(ctx context.Context, _ words, env tool.Env) (tool.Result, error) {
		outcomes := map[string]string{}
		for _, name := range names {
			outcomes[name] = "recorded"
			if err := env.Events.Emit(ctx, name, map[string]string{"step": name}); err != nil {
				outcomes[name] = err.Error()
			}
		}
		return tool.Success(outcomes).WithMetadata(map[string]any{"release": 7}), nil
	})
}

// TestToolEvents: events of a tool stand in the journal under its name, with its call, in every
// lane; the rules of names and counts hold.
func TestToolEvents(t *testing.T) {
	t.Parallel()
	s := openShop(t, `
rules:
  - when: {not_called: deploy}
    calls: [{id: call_1, name: deploy, args: {}}]
  - when: {called: deploy, not_called: spawn_background}
    calls: [{id: call_2, name: spawn_background, args: {tool: deploy, args: {}}}]
  - when: {last_role: notification}
    text: done
  - when: {called: spawn_background}
    text: waiting
`, local.Config{}, emitter("step.done", "Step"))
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	s.rest()

	reported, events := factsOf[perdure.ToolEvent](s)
	if len(reported) != 2 {
		t.Fatalf("%d events, want one of each lane: %+v", len(reported), reported)
	}
	for i, e := range events {
		if e.Type() != "x.deploy.step.done" || string(reported[i].Data) != `{"step":"step.done"}` || e.Call != reported[i].CallID ||
			e.Turn == "" || e.Actor != "runtime" {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if task := s.onlyTask(); events[1].Task != task.ID || events[1].Attempt != 1 || events[0].Task != "" {
		t.Errorf("the tasks of the events: %q and %q, want none and %q", events[0].Task, events[1].Task, task.ID)
	}
	ends, _ := s.ends()
	if text := string(ends[0].Result.Result); !strings.Contains(text, "invalid name of an event") || string(ends[0].Result.Metadata) != `{"release":7}` {
		t.Errorf("the result of the call: %s with the metadata %s", text, ends[0].Result.Metadata)
	}
	if task := s.onlyTask(); task.Narration != "Deployed" {
		t.Errorf("the task is described as %q", task.Narration)
	}
	calls, err := s.eng.Calls().List(s.ctx, s.id)
	if err != nil || len(calls) == 0 || string(calls[0].Result.Metadata) != `{"release":7}` {
		t.Errorf("the metadata in the ledger: %+v, %v", calls, err)
	}
}

// TestToolEventLimits: an execution records at most so many events, and none once its call has
// ended.
func TestToolEventLimits(t *testing.T) {
	t.Parallel()
	names := slices.Repeat([]string{"tick"}, tool.MaxEventsOfCall)
	var kept tool.Env
	greedy := tool.New(tool.Spec{Name: "deploy", Description: "x", Class: perdure.Idempotent},
		func(ctx context.Context, _ words, env tool.Env) (answer, error) {
			for range names {
				if err := env.Events.Emit(ctx, "tick", nil); err != nil {
					return nil, tool.Errorf("too early: %v", err)
				}
			}
			if err := env.Events.Emit(ctx, "tick", nil); !errors.Is(err, perdure.Limit) {
				return nil, tool.Errorf("beyond the limit: %v", err)
			}
			return answer{}, nil
		})
	late := tool.New(tool.Spec{Name: "late", Description: "x", Class: perdure.Idempotent},
		func(_ context.Context, _ words, env tool.Env) (answer, error) {
			kept = env
			return answer{}, nil
		})
	s := openShop(t, `
rules:
  - when: {not_called: deploy}
    calls: [{id: call_1, name: deploy, args: {}}, {id: call_2, name: late, args: {}}]
  - when: {called: deploy}
    text: done
`, local.Config{}, greedy, late)
	s.run()
	defer s.over()
	s.session()
	s.say("go")
	s.rest()

	ends, _ := s.ends()
	for _, end := range ends {
		if end.Result.IsError() {
			t.Errorf("%s: %s", end.Name, end.Result.Error)
		}
	}
	if reported, _ := factsOf[perdure.ToolEvent](s); len(reported) != tool.MaxEventsOfCall {
		t.Errorf("%d events, want %d", len(reported), tool.MaxEventsOfCall)
	}
	if err := kept.Events.Emit(s.ctx, "tick", nil); !errors.Is(err, perdure.Lost) {
		t.Errorf("after the end of the call: %v", err)
	}
}

// callers records for whom calls were made, as hooks, the routing policy and tools learn it.
type callers struct {
	mu   sync.Mutex
	seen map[string]tool.Call // guarded by mu
}

func (c *callers) note(where string, call tool.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]tool.Call{}
	}
	c.seen[where+" "+call.Tool] = call
}

func (c *callers) BeforeTool(_ context.Context, call tool.Call) (tool.Before, error) {
	c.note("before", call)
	return tool.Before{}, nil
}

func (c *callers) AfterTool(_ context.Context, call tool.Call, _ tool.Result) (tool.After, error) {
	c.note("after", call)
	return tool.After{}, nil
}

func (c *callers) route(call tool.Call) dispatch.Route {
	c.note("route", call)
	if call.Caller().Request["lane"] == "background" && call.Tool == "work" {
		return dispatch.InBackground()
	}
	return dispatch.Route{}
}

func (c *callers) permit(_ context.Context, call tool.Call, _ perdure.Permission) (perdure.Decision, string, error) {
	c.note("permit", call)
	return perdure.Undecided, "", nil
}

// TestCaller: hooks, policies and tools learn for whom a call is made, in every lane: the agent,
// its model and locale, labels, org and user, and the metadata of the request.
func TestCaller(t *testing.T) {
	t.Parallel()
	for lane, metadata := range map[string]map[string]string{
		"foreground": {"ticket": "42"}, "background": {"ticket": "42", "lane": "background"},
	} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			var saw callers
			work := tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.Idempotent},
				func(_ context.Context, _ words, env tool.Env) (answer, error) {
					saw.note("tool", env.Call)
					return answer{}, nil
				})
			s := openShop(t, `
rules:
  - when: {last_role: notification}
    text: done
  - when: {not_called: work}
    calls: [{id: call_1, name: work, args: {}}]
  - when: {called: work}
    text: waiting
`, local.Config{Policies: local.Policies{Hooks: []tool.Hook{&saw}, Route: saw.route, Permit: saw.permit}}, work)
			s.run()
			defer s.over()
			session, err := s.eng.Sessions().Create(engine.WithOwner(s.ctx, engine.Owner{Org: "acme", User: "ada"}), perdure.Agent{
				Name: "builder", Model: "scripted", Locale: "de", Labels: perdure.Labels{"team": "web"}, Metadata: map[string]string{"tier": "gold"}})
			if err != nil {
				t.Fatal(err)
			}
			s.id = session.ID
			message := perdure.Text("go")
			message.Metadata = metadata
			if _, err := s.eng.Send(s.ctx, s.id, message); err != nil {
				t.Fatal(err)
			}
			s.rest()

			saw.mu.Lock()
			defer saw.mu.Unlock()
			for _, where := range []string{"before", "permit", "route", "tool", "after"} {
				call, ok := saw.seen[where+" work"]
				by := call.Caller()
				if !ok || by.Agent != "builder" || by.Model != "scripted" || by.Locale != "de" || by.Labels["team"] != "web" ||
					by.Metadata["tier"] != "gold" || by.Request["ticket"] != "42" || call.Org != "acme" || call.User != "ada" {
					t.Errorf("%s saw %+v of org %q and user %q", where, by, call.Org, call.User)
				}
			}
			if lane == "background" && s.onlyTask().Metadata["ticket"] != "42" {
				t.Errorf("the task does not keep the metadata of its request: %+v", s.onlyTask().Metadata)
			}
		})
	}
}

// liveOf follows a session until it rests, and returns the data of its live updates by type.
func liveOf(s *shop, say string) map[string][]map[string]any {
	s.t.Helper()
	ctx, end := context.WithCancel(s.ctx)
	live, ready := map[string][]map[string]any{}, make(chan struct{})
	var once sync.Once
	var group sync.WaitGroup
	group.Go(func() {
		_ = s.eng.Follow(ctx, s.id, 0, func(f engine.Frame) error {
			once.Do(func() { close(ready) })
			if f.Event == nil {
				data := map[string]any{}
				if err := json.Unmarshal(f.Data, &data); err != nil {
					s.t.Errorf("%s: %v", f.Data, err)
				}
				live[f.Type] = append(live[f.Type], data)
			}
			return nil
		})
	})
	<-ready // the first event: the frames follow
	s.say(say)
	s.rest()
	end()
	group.Wait()
	return live
}

// reporter reports output in two pieces, progress with a unit, and progress that is no number, and
// then works for a second, in which followers receive the reports.
func reporter() tool.Tool {
	return tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.Idempotent},
		func(ctx context.Context, _ words, env tool.Env) (answer, error) {
			env.Sink.Output("stdout", []byte("one\n"))
			env.Sink.Output("stderr", []byte("zwei ü\n"))
			three, eight, odd := 3.0, 8.0, 0.0
			tool.ReportProgress(env.Sink, perdure.Progress{Current: &three, Total: &eight, Unit: "files", Label: "compiling"})
			odd = odd / odd
			env.Sink.Progress(odd, 1, "no number")
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return answer{}, nil
		})
}

// TestLiveReports: followers receive output with its place, and progress with its unit, of a
// foreground call and of a background run; the log of the run has the same places.
func TestLiveReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openShop(t, `
rules:
  - when: {not_called: work, user_contains: front}
    calls: [{id: call_1, name: work, args: {}}]
  - when: {user_contains: back, not_called: spawn_background}
    calls: [{id: call_2, name: spawn_background, args: {tool: work, args: {}}}]
  - when: {last_role: notification}
    text: done
  - when: {last_role: tool_result}
    text: waiting
`, local.Config{}, reporter())
		s.run()
		s.session()
		front := liveOf(s, "front")

		check := func(output []map[string]any, id, value string) {
			t.Helper()
			if len(output) != 2 || output[0]["offset"] != 0.0 || output[0]["bytes"] != 4.0 || output[0]["delta"] != "one\n" ||
				output[1]["offset"] != 4.0 || output[1]["bytes"] != 8.0 || output[1]["stream"] != "stderr" || output[0][id] != value {
				t.Errorf("output: %v", output)
			}
		}
		check(front["tool.output.delta"], "call_id", "call_1")
		if p := front["tool.progress"]; len(p) != 1 || p[0]["unit"] != "files" || p[0]["current"] != 3.0 || p[0]["message"] != "compiling" {
			t.Errorf("progress: %v", p)
		}
		back := liveOf(s, "back")
		task := s.onlyTask()
		check(back["tool.output.delta"], "task_id", string(task.ID))
		if len(back["task.live"]) == 0 {
			t.Fatal("no live updates of the task")
		}
		p, _ := back["task.live"][len(back["task.live"])-1]["progress"].(map[string]any)
		if p["unit"] != "files" || p["label"] != "compiling" || p["total"] != 8.0 {
			t.Errorf("live updates of the task: %v", back["task.live"])
		}
		log, err := s.eng.Tasks().Log(s.ctx, task.ID, 4, 100)
		if err != nil || len(log.Chunks) != 1 || log.Chunks[0].Offset != 4 || string(log.Chunks[0].Bytes) != "zwei ü\n" {
			t.Errorf("the log from offset 4: %+v, %v", log, err)
		}
		s.over()
	})
}

// thinker thinks for a long time, a little at a time, and then answers.
type thinker struct{ d, every time.Duration }

func (m thinker) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		for range m.d / m.every {
			select {
			case <-time.After(m.every):
			case <-ctx.Done():
				yield(model.Delta{}, context.Cause(ctx))
				return
			}
			if !yield(model.Delta{Thinking: "hm"}, nil) {
				return
			}
		}
		yield(model.Delta{Text: "42", Finish: model.FinishStop}, nil)
	}
}

// TestWatchdogThinkingCounts: a model that thinks is not idle (RC19).
func TestWatchdogThinkingCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed, after, _ := idleTurn(t, thinker{d: 3 * time.Hour, every: 10 * time.Minute})

		if failed.Code != "" || after < 3*time.Hour {
			t.Errorf("after %s the turn ended with %+v", after, failed)
		}
	})
}

// TestStreamProgress: followers learn how far an answer is while the model only thinks.
func TestStreamProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Tools: tool.NewRegistry(),
			Model: thinker{d: 10 * time.Second, every: 100 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		s := &shop{t: t, ctx: t.Context(), eng: eng, done: make(chan error, 1)}
		s.run()
		s.session()

		live := liveOf(s, "think")["output.message.progress"]

		if len(live) < 8 || len(live) > 10 {
			t.Fatalf("%d updates in ten seconds: %v", len(live), live)
		}
		last := time.Time{}
		for i, p := range live {
			at, err := time.Parse(time.RFC3339Nano, p["last_delta_at"].(string))
			if thinking, _ := p["thinking_chars"].(float64); err != nil || p["text_chars"] != 0.0 || thinking < 20*float64(i+1) ||
				!at.After(last) || !strings.HasPrefix(p["message_id"].(string), "message_") {
				t.Errorf("update %d: %v, %v", i, p, err)
			}
			last = at
		}
		s.over()
	})
}
