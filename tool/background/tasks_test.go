package background_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

const session perdure.SessionID = "session_00000000000000000000000000000001"

// registry is tool.Tasks in memory: the session's tasks in the order of their creation, which a
// test changes as the work would.
type registry struct {
	err      error                             // of every method, when set
	spawned  tool.SpawnResult                  // the answer of Spawn
	onCancel func(t *perdure.Task) (dead bool) // what a cancel does; nil: the work stops
	outran   func(t *perdure.Task)             // how the task ends just before a cancel is asked for; nil: it does not

	mu      sync.Mutex // guards all below
	tasks   []perdure.Task
	logs    map[perdure.TaskID][]byte
	changed chan struct{} // closed and replaced at every change
	spawns  []tool.SpawnRequest
	waits   []tool.WaitRequest
	cancels []string // the reasons
}

func newRegistry(tasks ...perdure.Task) *registry {
	return &registry{tasks: tasks, logs: map[perdure.TaskID][]byte{}, changed: make(chan struct{})}
}

// set replaces a task by what change makes of it.
func (r *registry) set(id perdure.TaskID, change func(*perdure.Task)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.tasks {
		if r.tasks[i].ID == id {
			change(&r.tasks[i])
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// remove takes a task away, as retention does.
func (r *registry) remove(id perdure.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = slices.DeleteFunc(r.tasks, func(t perdure.Task) bool { return t.ID == id })
}

func (r *registry) Spawn(_ context.Context, s tool.SpawnRequest) (tool.SpawnResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spawns = append(r.spawns, s)
	return r.spawned, r.err
}

func (r *registry) Task(_ context.Context, id string) (perdure.Task, error) {
	t, _, err := r.look(id)
	return t, err
}

// look returns a task and a channel that is closed at the next change.
func (r *registry) look(id string) (perdure.Task, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return perdure.Task{}, nil, r.err
	}
	for _, t := range r.tasks {
		if string(t.ID) == id || t.Run != "" && string(t.Run) == id {
			return t, r.changed, nil
		}
	}
	return perdure.Task{}, nil, fmt.Errorf("task %s: %w", id, perdure.NotFound)
}

func (r *registry) List(context.Context) ([]perdure.Task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tasks), r.err
}

func (r *registry) Cancel(ctx context.Context, id, why string) (perdure.CancelReceipt, perdure.Task, error) {
	t, err := r.Task(ctx, id)
	if err != nil {
		return perdure.CancelReceipt{}, t, err
	}
	if r.outran != nil { // nothing was asked for, and t is as it was before
		r.set(t.ID, r.outran)
		return perdure.CancelReceipt{}, t, nil
	}
	receipt := perdure.CancelReceipt{RequestedAt: noon, SignalledAt: noon}
	r.set(t.ID, func(t *perdure.Task) {
		dead := true
		if r.onCancel != nil {
			dead = r.onCancel(t)
		} else {
			t.State = perdure.TaskCanceled
		}
		if dead {
			receipt.DeadAt = noon.Add(time.Second)
		}
		r.cancels = append(r.cancels, why)
	})
	t, err = r.Task(ctx, id)
	return receipt, t, err
}

func (r *registry) Wait(ctx context.Context, w tool.WaitRequest) ([]perdure.Task, error) {
	late := time.NewTimer(w.Timeout)
	defer late.Stop()
	r.mu.Lock()
	r.waits = append(r.waits, w)
	r.mu.Unlock()
	for {
		tasks, changed, over, err := r.lookAt(w)
		if err != nil || over {
			return tasks, err
		}
		select {
		case <-changed:
		case <-late.C:
			return tasks, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lookAt returns the tasks of a wait, a channel that is closed at the next change, and whether the
// wait is over.
func (r *registry) lookAt(w tool.WaitRequest) (tasks []perdure.Task, changed <-chan struct{}, over bool, err error) {
	n := 0
	for i, id := range w.IDs {
		t, now, err := r.look(id)
		if err != nil {
			return nil, nil, false, err
		}
		if i == 0 {
			changed = now // a change of a later task after this is one too
		}
		if tasks = append(tasks, t); t.State.Terminal() || t.State == perdure.TaskAwaitingInput {
			n++
		}
	}
	return tasks, changed, n == len(w.IDs) || !w.All && n > 0, nil
}

func (r *registry) Log(ctx context.Context, id string, offset int64, most int) (tool.LogPage, error) {
	t, err := r.Task(ctx, id)
	if err != nil {
		return tool.LogPage{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.logs[t.ID]
	end := int64(len(log))
	if offset < 0 {
		offset += end
	}
	offset = max(0, min(offset, end))
	piece := log[offset:min(end, offset+int64(most))]
	return tool.LogPage{Offset: offset, Bytes: piece, Next: offset + int64(len(piece)), LogLen: end}, nil
}

// mail is tool.Mail in memory.
type mail struct {
	err  error // of Send, when set
	mu   sync.Mutex
	sent []perdure.TaskMessage // guarded by mu
}

func (m *mail) Send(_ context.Context, id string, message perdure.TaskMessage) (perdure.TaskMessageID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return "", m.err
	}
	message.Task = perdure.TaskID(id)
	m.sent = append(m.sent, message)
	return "tmsg_1", nil
}

// files is the part of tool.Files that these tools use: content by path.
type files struct {
	tool.Files
	content map[string]string
}

func (f files) Read(_ context.Context, path string) (tool.File, error) {
	content, ok := f.content[path]
	if !ok {
		return tool.File{}, &tool.FileError{Kind: perdure.NotFound, Text: "File not found: " + path}
	}
	return tool.File{Content: []byte(content)}, nil
}

// toolbox is this package's set and some targets. It is made once: to compile schemas takes long
// under -race.
var toolbox = sync.OnceValue(func() *tool.Registry {
	return tool.NewRegistry(append(background.Tools(background.Config{}), targets()...)...)
})

// noon is when every test happens, unless it says otherwise.
var noon = time.Date(2026, 4, 16, 12, 0, 0, 0, time.UTC)

// task is a background run that started 90.126 s ago.
func task(n int, state perdure.TaskState) perdure.Task {
	return perdure.Task{
		ID:        perdure.TaskID(fmt.Sprintf("task_%032d", n)),
		Run:       perdure.RunID(fmt.Sprintf("bg_%032d", n)),
		Session:   session,
		Kind:      perdure.KindBackgroundTool,
		Lane:      perdure.Background,
		Tool:      "slow_tool",
		State:     state,
		Delivered: perdure.NotDelivered,
		CreatedAt: noon.Add(-100 * time.Second),
		StartedAt: noon.Add(-90126 * time.Millisecond),
		Spec:      perdure.TaskSpec{Tool: "slow_tool", Arguments: json.RawMessage(`{"token":"t"}`)},
	}
}

// env is a session with these tasks and files.
func env(tasks *registry, content map[string]string) tool.Env {
	e := tool.Env{
		Call:     tool.Call{Session: session, ID: "call_1"},
		Registry: toolbox(),
		Files:    files{content: content},
		Now:      func() time.Time { return noon },
	}
	if tasks != nil {
		e.Tasks = tasks
	}
	return e
}

// run carries out a call as the runtime does, and returns the record's JSON with the result.
func run(t *testing.T, e tool.Env, name, args string) (string, tool.Result) {
	t.Helper()
	return runIn(t.Context(), t, e, name, args)
}

func runIn(ctx context.Context, t *testing.T, e tool.Env, name, args string) (string, tool.Result) {
	t.Helper()
	set := toolbox()
	found, ok := set.Get(name)
	if !ok {
		t.Fatalf("no tool %s: %v", name, set.Err())
	}
	call := tool.Call{Session: e.Call.Session, ID: e.Call.ID, Tool: name, Args: json.RawMessage(args)}
	self, selfValidating := found.(tool.SelfValidating)
	if !selfValidating || !self.ValidatesItself() {
		if refusal := set.Validate(name, call.Args); refusal != nil {
			return body(t, *refusal), *refusal
		}
	}
	result, err := set.Execute(ctx, call, e)
	if err != nil {
		t.Fatal(err)
	}
	return body(t, result), result
}

func body(t *testing.T, r tool.Result) string {
	t.Helper()
	record, err := r.Record("call_1")
	if err != nil && r.Kind != tool.KindInternal {
		t.Fatal(err)
	}
	return string(record.Result)
}

// wantJSON compares an answer with JSON.
func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	if diff := cmp.Diff(g, w); diff != "" {
		t.Fatalf("got -, want +:\n%s", diff)
	}
}

func wantRead(t *testing.T, r tool.Result, want ...perdure.TaskID) {
	t.Helper()
	if !slices.Equal(r.ReadTasks, want) {
		t.Fatalf("got %v read off, want %v", r.ReadTasks, want)
	}
}

func errorBody(text string) string {
	b, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		panic(err)
	}
	return string(b)
}
