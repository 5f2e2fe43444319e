package local_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// spawns is an agent that starts one background run of a tool.
func spawns(name string) string { return strings.ReplaceAll(spawnOne, "bg_note", name) }

// onlyTask returns the one task of the session.
func (s *shop) onlyTask() perdure.Task {
	s.t.Helper()
	tasks, err := s.eng.Tasks().List(context.WithoutCancel(s.ctx), s.id)
	if err != nil || len(tasks) != 1 {
		s.t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	return tasks[0]
}

// end stops the engine and returns how it ended.
func (s *shop) end() error {
	s.stop()
	return <-s.done
}

// artifact reads a file of the session's one task.
func (s *shop) artifact(name string) string {
	s.t.Helper()
	var file store.File
	err := s.st.View(s.ctx, func(r store.Reader) (err error) {
		file, err = r.Files().Get(s.id, s.onlyTask().ArtifactDir()+"/"+name)
		return err
	})
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	return string(file.Content)
}

// TestLostHeartbeatStopsWork removes the row of a worker: its beat returns Lost, its work ends, and
// it has written nothing (TK8).
func TestLostHeartbeatStopsWork(t *testing.T) {
	t.Parallel()
	entered, causes := make(chan struct{}), make(chan error, 1)
	work := tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.Pure}, func(ctx context.Context, _ words, _ tool.Env) (answer, error) {
		close(entered)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	})
	a := openShop(t, spawns("work"), local.Config{Workers: local.Workers{Beat: 10 * time.Millisecond}}, work)
	a.run()
	a.session()
	a.say("go")
	<-entered
	before := a.onlyTask()
	err := a.st.InTx(a.ctx, func(tx store.Tx) error { return tx.Workers().Remove(before.Worker) })
	if err != nil {
		t.Fatal(err)
	}

	select {
	case ended := <-a.done:
		if !errors.Is(ended, perdure.Lost) {
			t.Errorf("Run ended with %v", ended)
		}
	case <-a.ctx.Done():
		t.Fatal("the engine of a lost worker runs on")
	}
	if cause := <-causes; cause == nil {
		t.Error("the work ended without a cause")
	}
	if after := a.onlyTask(); after.State != perdure.TaskRunning || after.Attempt != before.Attempt {
		t.Errorf("it wrote %+v", after)
	}
}

// TestProgressCoalesced reports progress a thousand times: the journal has none of it, and the row
// the last (TK10, EV7).
func TestProgressCoalesced(t *testing.T) {
	t.Parallel()
	const reports = 1000
	work := tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.Pure}, func(_ context.Context, _ words, env tool.Env) (answer, error) {
		for i := range reports {
			env.Sink.Progress(float64(i+1), reports, "on it")
			env.Sink.Status(fmt.Sprint("at ", i+1))
		}
		return answer{}, nil
	})
	a := openShop(t, spawns("work"), local.Config{}, work)
	a.run()
	a.session()
	a.say("go")
	a.rest()

	events, err := a.eng.Events(a.ctx, a.id, 0, 0)
	told := 0
	for _, e := range events {
		if f, ok := e.Fact.(perdure.TaskUpdated); ok && f.Task.State != perdure.TaskSucceeded {
			told++
		}
	}
	if p := a.onlyTask().Progress; err != nil || told != 0 || p == nil || *p.Current != reports {
		t.Errorf("%v; %d events with progress, the row has %+v", err, told, p)
	}
	a.end()
}

// rawTool returns a full output of its own.
type rawTool struct {
	resultTool
	raw string
}

func (r *rawTool) RunBackground(_ context.Context, _ tool.Call, _ tool.Env, sink tool.Sink) tool.Result {
	sink.Output("stdout", []byte("as it came"))
	return tool.Success(answer{"n": "1"}).WithRaw(r.raw)
}

// TestRawOutputCapped: raw output replaces the log up to the log's limit, and is stored in full
// beside it (BG12).
func TestRawOutputCapped(t *testing.T) {
	t.Parallel()
	const capped, marker = 262_144, "\n[system] background output truncated at 262144 characters\n"
	raw := strings.Repeat("ä", capped+7)
	spec := tool.Spec{Name: "raw", Description: "x", Class: perdure.Pure}
	a := openShop(t, spawns("raw"), local.Config{}, &rawTool{resultTool: resultTool{spec: spec}, raw: raw})
	a.run()
	a.session()
	a.say("go")
	a.rest()

	if log := a.artifact("output.log"); log != raw[:2*capped]+marker {
		t.Errorf("output.log has %d bytes and ends with %q", len(log), log[max(len(log)-80, 0):])
	}
	if whole := a.artifact("raw.txt"); whole != raw {
		t.Errorf("raw.txt has %d bytes, want %d", len(whole), len(raw))
	}
	events, err := a.eng.Events(a.ctx, a.id, 0, 0)
	for _, e := range events {
		line, encodeErr := perdure.EncodeEvent(e)
		if encodeErr != nil || len(line) > 10_000 {
			t.Errorf("event %d has %d bytes, %v", e.Seq, len(line), encodeErr)
		}
	}
	if err != nil {
		t.Error(err)
	}
	a.end()
}

// brokenFiles refuses to write one artifact.
type brokenFiles struct {
	tool.Files
	name string
}

func (b brokenFiles) Write(_ context.Context, w tool.FileWrite) (bool, error) {
	if strings.HasSuffix(w.Path, b.name) {
		return false, errors.New("secret cause")
	}
	return true, nil
}

// TestFinaliseDespiteArtifactError: a file that cannot be written does not keep a run from ending,
// and is not reported to the model (BG15).
func TestFinaliseDespiteArtifactError(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"output.log", "result.json", "meta.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.AtMostOnce}, func(context.Context, words, tool.Env) (answer, error) {
				return answer{"status": "ok"}, nil
			})
			files := func(perdure.SessionID) (model, runtime tool.Files) {
				return brokenFiles{name: name}, brokenFiles{name: name}
			}
			a := openShop(t, spawns("work"), local.Config{Ports: local.Ports{Files: files}}, work)
			a.run()
			a.session()
			a.say("go")
			a.rest()

			task := a.onlyTask()
			if task.State != perdure.TaskSucceeded || task.StateDetail != "artifacts incomplete: "+name || task.Delivered != perdure.DeliveredInjected {
				t.Errorf("got %+v", task)
			}
			if (task.LogPath == "") != (name == "output.log") || (task.ResultPath == "") != (name == "result.json") {
				t.Errorf("paths %q and %q", task.LogPath, task.ResultPath)
			}
			events, err := a.eng.Events(a.ctx, a.id, 0, 0)
			for _, e := range events {
				if line, err := perdure.EncodeEvent(e); err != nil || strings.Contains(string(line), "secret cause") {
					t.Errorf("the journal says %s, %v", line, err)
				}
			}
			if err != nil {
				t.Error(err)
			}
			a.end()
		})
	}
}

// TestMetaSidecar: a result with a status field is stored unchanged; the status of the run is
// stored beside it (BG14).
func TestMetaSidecar(t *testing.T) {
	t.Parallel()
	work := tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.Pure}, func(context.Context, words, tool.Env) (answer, error) {
		return answer{"status": "failed", "error": "of an order"}, nil
	})
	a := openShop(t, spawns("work"), local.Config{}, work)
	a.run()
	a.session()
	a.say("go")
	a.rest()

	var result, meta map[string]any
	if err := perdure.DecodeJSON([]byte(a.artifact("result.json")), &result); err != nil || len(result) != 2 || result["status"] != "failed" {
		t.Errorf("result.json has %v, %v", result, err)
	}
	if err := perdure.DecodeJSON([]byte(a.artifact("meta.json")), &meta); err != nil || meta["status"] != "succeeded" || meta["error_kind"] != nil {
		t.Errorf("meta.json has %v, %v", meta, err)
	}
	if task := a.onlyTask(); task.State != perdure.TaskSucceeded || task.Error != nil {
		t.Errorf("got %+v", task)
	}
	a.end()
}

// TestForgedReattachableIgnored restarts with another effect class of a tool than its task
// recorded: the more careful of both decides, and the reattach field of the record decides nothing
// (BG10).
func TestForgedReattachableIgnored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recorded, live perdure.EffectClass
		again          bool
	}{
		"recorded_as_harmless": {recorded: perdure.Idempotent, live: perdure.AtMostOnce},
		"now_harmless":         {recorded: perdure.AtMostOnce, live: perdure.Pure},
		"both_harmless":        {recorded: perdure.Idempotent, live: perdure.Pure, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered := make(chan struct{}, 2) // one slot for each execution
			pay := func(class perdure.EffectClass) tool.Tool {
				return tool.NewBackground(tool.Spec{Name: "pay", Description: "x", Class: class}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
					entered <- struct{}{}
					if env.Call.Execution > 1 {
						return answer{}, nil
					}
					<-ctx.Done()
					return nil, context.Cause(ctx)
				})
			}
			st := memory.New(memory.Config{})
			a := openShop(t, spawns("pay"), local.Config{Store: st}, pay(c.recorded))
			a.run()
			a.session()
			a.say("go")
			<-entered
			recorded := a.onlyTask().Spec.Reattachable
			a.end()
			b := openShop(t, spawns("pay"), local.Config{Store: st}, pay(c.live))
			b.id = a.id
			b.run()
			b.rest()

			task, want := b.onlyTask(), perdure.TaskUnknown
			if c.again {
				want = perdure.TaskSucceeded
			}
			if recorded != c.recorded.Repeatable() || task.State != want || len(entered) == 1 != c.again {
				t.Errorf("recorded as reattachable %t; %d runs more; got %+v", recorded, len(entered), task)
			}
			b.end()
		})
	}
}

// TestWatchdogNamesCalls: the log of an idle turn names the running calls, by tool and prefix of
// the id (RC19).
func TestWatchdogNamesCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := scripted.Parse("waiting", []byte(waitingScript))
		if err != nil {
			t.Fatal(err)
		}

		failed, _, logged := idleTurn(t, m, waiting(5*time.Hour, 9*time.Hour))

		if failed.Code != perdure.CodeIdle || !regexp.MustCompile(`\bwaiting\(id=call_[0-9a-f]{7}\b`).MatchString(logged) {
			t.Errorf("the turn failed with %q; the log says %s", failed.Code, logged)
		}
	})
}

// queued waits until a task of the session is queued.
func (s *shop) queued() {
	s.t.Helper()
	found := errors.New("queued")
	err := s.st.Watch(s.ctx, s.id, 0, func(f store.Frame) error {
		if f.Event == nil {
			return nil
		}
		if u, ok := f.Event.Fact.(perdure.TaskUpdated); ok && u.Task.State == perdure.TaskQueued {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		s.t.Fatal(err)
	}
}

// reattachWithOneSlot leaves two runs behind and restarts with one slot: one runs, the other waits.
// Closing the channel ends the work.
func reattachWithOneSlot(t *testing.T) (b *shop, release chan struct{}) {
	t.Helper()
	entered := make(chan struct{}, 9)
	release = make(chan struct{})
	work := tool.NewBackground(tool.Spec{Name: "work", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, _ tool.Env) (answer, error) {
		entered <- struct{}{}
		select {
		case <-release:
			return answer{}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	const script = `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: work, args: {}}}, {name: spawn_background, args: {tool: work, args: {}}}]
steps: [{text: x}, {text: they run, repeat: true}]
`
	st := memory.New(memory.Config{})
	a := openShop(t, script, local.Config{Store: st, Limits: local.Limits{SlotsPerSession: 2}}, work)
	a.run()
	a.session()
	a.say("go")
	<-entered
	<-entered
	a.end()
	b = openShop(t, script, local.Config{Store: st, Limits: local.Limits{SlotsPerSession: 1}}, work)
	b.id = a.id
	b.run()
	<-entered
	b.queued()
	return b, release
}

// TestReattachLimitStaysQueued restarts with fewer slots than runs that were left: those without a
// slot wait, and do not fail (RC14, BG18).
func TestReattachLimitStaysQueued(t *testing.T) {
	t.Parallel()
	b, release := reattachWithOneSlot(t)
	states := map[perdure.TaskState]int{}
	tasks, err := b.eng.Tasks().List(b.ctx, b.id)
	for _, task := range tasks {
		states[task.State]++
	}
	close(release)
	b.rest()

	if err != nil || states[perdure.TaskRunning] != 1 || states[perdure.TaskQueued] != 1 {
		t.Errorf("two runs with one slot: %v, %v", states, err)
	}
	after, err := b.eng.Tasks().List(b.ctx, b.id)
	for _, task := range after {
		if err != nil || task.State != perdure.TaskSucceeded {
			t.Errorf("%v, got %+v", err, task)
		}
	}
	b.end()
}

// TestCanceledWhileQueuedAgain cancels a run that is queued a second time: nothing of it is left
// open (RC2, RC14).
func TestCanceledWhileQueuedAgain(t *testing.T) {
	t.Parallel()
	b, release := reattachWithOneSlot(t)
	tasks, err := b.eng.Tasks().List(b.ctx, b.id)
	for _, task := range tasks {
		if task.State == perdure.TaskQueued {
			_, failed := b.eng.Tasks().Cancel(b.ctx, task.ID, "user", "enough")
			err = errors.Join(err, failed)
		}
	}
	close(release)
	b.rest()
	calls, failed := b.eng.Calls().List(b.ctx, b.id)
	after, _ := b.eng.Tasks().List(b.ctx, b.id)

	states := map[perdure.TaskState]int{}
	for _, task := range after {
		states[task.State]++
	}
	if err != nil || states[perdure.TaskSucceeded] != 1 || states[perdure.TaskCanceled] != 1 {
		t.Errorf("%v, %v", states, err)
	}
	for _, call := range calls {
		if failed != nil || call.State != perdure.CallSettled {
			t.Errorf("call %s is %s, %v", call.Key, call.State, failed)
		}
	}
	b.end()
}
