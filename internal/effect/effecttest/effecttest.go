// Package effecttest sets up the lower parts of the effect layer over an empty store, for the tests
// of the stories above them.
package effecttest

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// Worker is the worker of a Bed.
const Worker = perdure.WorkerID("worker_00000000000000000000000000000001")

// Bed is the lower parts over an empty store, with a session in it.
type Bed struct {
	Session     perdure.SessionID
	Core        *core.Core
	Toolset     *toolset.Toolset
	Secrets     *secrets.Secrets
	Environment *environment.Environment
	Admission   *admission.Admission
	Records     *taskrecord.Records
}

// noPorts gives work no ports to other work.
type noPorts struct{}

// Bind implements environment.Ports.
func (noPorts) Bind(*tool.Env, *environment.Caller) {}

// Config returns a configuration over an empty store.
func Config(t *testing.T, tools ...tool.Tool) core.Config {
	t.Helper()
	m, err := scripted.Parse("bed", []byte("steps: [{text: hello}]"))
	if err != nil {
		t.Fatal(err)
	}
	return core.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tool.NewRegistry(tools...),
		Runner: dispatch.NewRunner(t.Context(), dispatch.Config{}), Worker: Worker, Scheduler: alwaysRunning{}}
}

// alwaysRunning is the scheduler of an engine that runs and holds its lease, and hears of nothing.
type alwaysRunning struct{}

func (alwaysRunning) Wake(perdure.SessionID)           {}
func (alwaysRunning) StartQueued()                     {}
func (alwaysRunning) ReportActivity(perdure.SessionID) {}
func (alwaysRunning) ReportTakeOver(core.TakenOver)    {}
func (alwaysRunning) Running() bool                    { return true }
func (alwaysRunning) Stopping() bool                   { return false }
func (alwaysRunning) LeaseHeld() bool                  { return true }
func (alwaysRunning) Leads() bool                      { return true }
func (alwaysRunning) Granted() bool                    { return false }

func (alwaysRunning) CreateSchedule(context.Context, perdure.Schedule, *core.ScheduleCall) (perdure.Schedule, error) {
	return perdure.Schedule{}, perdure.Unavailable
}

// Session adds a session to a store.
func Session(t *testing.T, st store.Store) perdure.SessionID {
	t.Helper()
	id := core.NewID[perdure.SessionID]()
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		if err := tx.Sessions().Create(store.Session{ID: id, Status: perdure.SessionStarted, CreatedAt: tx.Now(),
			UpdatedAt: tx.Now()}); err != nil {
			return err
		}
		events := []perdure.Event{{Session: id, Fact: perdure.SessionCreated{}}}
		core.Stamp(events, tx.Now())
		return tx.Journal().Append(id, events)
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// New returns a Bed. change may change its configuration; nil: it does not.
func New(t *testing.T, change func(*core.Config), tools ...tool.Tool) *Bed {
	t.Helper()
	cfg := Config(t, tools...)
	if change != nil {
		change(&cfg)
	}
	c, err := core.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &Bed{Core: c, Toolset: toolset.New(c), Session: Session(t, cfg.Store)}
	b.Secrets = secrets.New(c, b.Toolset)
	b.Environment = environment.New(c, b.Toolset, b.Secrets, noPorts{})
	b.Admission = admission.New(c, b.Toolset, b.Secrets)
	b.Records = taskrecord.New(c, b.Toolset, b.Secrets, b.Admission)
	return b
}

// Claimed adds a running call of a session to a store, and returns it as a caller.
func Claimed(t *testing.T, b *Bed, id perdure.CallID) *environment.Caller {
	t.Helper()
	row := perdure.Call{Key: perdure.CallKey{Session: b.Session, Call: id}, Tool: "claimed", Class: perdure.Pure,
		State: perdure.CallRunning, Token: core.NewToken(), Worker: b.Core.Worker, Attempt: 1, Executions: 1}
	err := b.Core.Store.InTx(t.Context(), func(tx store.Tx) error {
		_, _, err := tx.Calls().Claim(row, func(perdure.WorkerID) bool { return true })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return &environment.Caller{Owner: &core.Owner{Session: b.Session}, Call: id, Token: row.Token}
}

// Quick returns a tool that returns at once.
func Quick(name string, class perdure.EffectClass, background bool) tool.Tool {
	spec := tool.Spec{Name: name, Description: "A fixture.", Class: class}
	run := func(context.Context, struct{}, tool.Env) (string, error) { return "ok", nil }
	if background {
		return tool.NewBackground(spec, run)
	}
	return tool.New(spec, run)
}

// Running adds a running task of a tool.
func Running(t *testing.T, st store.Store, id perdure.SessionID, name string) perdure.Task {
	t.Helper()
	task := perdure.Task{
		ID: core.NewID[perdure.TaskID](), Run: core.NewID[perdure.RunID](), Session: id,
		RootSession: id, Kind: perdure.KindBackgroundTool,
		Origin: perdure.OriginSpawned, Tool: name, Spec: perdure.TaskSpec{Tool: name},
		Class: perdure.Idempotent, Lane: perdure.Background,
		State: perdure.TaskRunning, Attempt: 1, Executions: 1, Delivery: perdure.ToLoop,
		Wake: perdure.WakeContinue, Delivered: perdure.NotDelivered,
	}
	err := st.InTx(t.Context(), func(tx store.Tx) error {
		task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
		_, _, err := tx.Tasks().Create(task)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return task
}
