package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// scene is an engine whose answers are fields. Unused methods are missing.
type scene struct {
	Engine
	sessions []engine.Session
	agents   map[perdure.SessionID]string // names
	views    [][]perdure.Task             // results of Tasks and Task, one after another; the last one is repeated
	logs     []string                     // output of the task, in the same way
	err      error                        // of every method
	looks    []time.Time                  // times of the calls of Task

	approvals []perdure.Approval
	faster    perdure.ApprovalState // an earlier decision of somebody else; empty: none
	verdicts  []perdure.Verdict     // accepted decisions
	sent      []perdure.TaskMessage
	unfit     error // refuses every message
	canceled  []perdure.SessionID
	ready     []perdure.Task // to be drained
	bills     []engine.CostQuery
	homes     []engine.Home
}

// sceneBudgets implements engine.Budgets for scene.
type sceneBudgets struct {
	engine.Budgets
	*scene
}

// Budgets implements engine.Engine.
func (s *scene) Budgets() engine.Budgets { return sceneBudgets{nil, s} }

// Costs reports a cent more with each call.
func (s sceneBudgets) Costs(_ context.Context, q engine.CostQuery) (engine.CostReport, error) {
	s.bills = append(s.bills, q)
	spent := map[budget.Currency]budget.Amount{budget.USD: budget.Amount(10_000 * len(s.bills))}
	return engine.CostReport{Total: engine.CostLine{ModelCalls: 1, Cost: spent}}, s.err
}

func (s *scene) Close() error { return nil }

// sceneSessions implements engine.Sessions for scene.
type sceneSessions struct {
	engine.Sessions
	*scene
}

// Sessions implements engine.Engine.
func (s *scene) Sessions() engine.Sessions { return sceneSessions{nil, s} }

func (s sceneSessions) List(context.Context, int) ([]engine.Session, error) { return s.sessions, s.err }
func (s sceneSessions) ListWhere(context.Context, engine.SessionFilter) ([]engine.Session, error) {
	return s.sessions, s.err
}

// Homes lists the homes of the scene.
func (s sceneSessions) Homes(context.Context) ([]engine.Home, error) { return s.homes, s.err }

// sceneProviders implements engine.Providers for scene: there are none, and no default model.
type sceneProviders struct {
	engine.Providers
	*scene
}

// Providers implements engine.Engine.
func (s *scene) Providers() engine.Providers { return sceneProviders{nil, s} }

func (s sceneProviders) DefaultModel(context.Context) (engine.DefaultModel, error) {
	return engine.DefaultModel{}, s.err
}

// sceneTools implements engine.Tools for scene.
type sceneTools struct {
	engine.Tools
	*scene
}

// Tools implements engine.Engine.
func (s *scene) Tools() engine.Tools { return sceneTools{nil, s} }

func (s sceneTools) List(context.Context) ([]engine.Tool, error) {
	return []engine.Tool{{Name: "echo"}}, s.err
}

func (s *scene) Events(_ context.Context, id perdure.SessionID, _ int64, _ int) ([]perdure.Event, error) {
	return []perdure.Event{{ID: "event_1", Seq: 1, Session: id, Fact: perdure.SessionCreated{Agent: perdure.Agent{Name: s.agents[id]}}}}, s.err
}

// sceneTasks implements engine.Tasks for scene.
type sceneTasks struct {
	engine.Tasks
	*scene
}

// Tasks implements engine.Engine.
func (s *scene) Tasks() engine.Tasks { return sceneTasks{nil, s} }

func (s sceneTasks) List(context.Context, perdure.SessionID) ([]perdure.Task, error) {
	if len(s.views) == 0 {
		return nil, s.err
	}
	return s.views[0], s.err
}

func (s sceneTasks) Get(_ context.Context, id perdure.TaskID) (perdure.Task, error) {
	s.looks = append(s.looks, time.Now())
	if len(s.views) > 1 {
		defer func() { s.views = s.views[1:] }()
	}
	i := slices.IndexFunc(s.views[0], func(t perdure.Task) bool { return t.ID == id })
	return s.views[0][i], s.err
}

// sceneApprovals implements engine.Approvals for scene.
type sceneApprovals struct {
	engine.Approvals
	*scene
}

// Approvals implements engine.Engine.
func (s *scene) Approvals() engine.Approvals { return sceneApprovals{nil, s} }

func (s sceneApprovals) List(context.Context, engine.ApprovalFilter) ([]perdure.Approval, error) {
	return slices.Clone(s.approvals), s.err
}

func (s sceneApprovals) Get(_ context.Context, id perdure.ApprovalID) (perdure.Approval, error) {
	return s.approvals[s.approvalAt(id)], s.err
}

func (s *scene) approvalAt(id perdure.ApprovalID) int {
	return slices.IndexFunc(s.approvals, func(p perdure.Approval) bool { return p.ID == id })
}

func (s sceneApprovals) Decide(_ context.Context, id perdure.ApprovalID, v perdure.Verdict) (perdure.Approval, error) {
	p := &s.approvals[s.approvalAt(id)]
	if s.faster != "" {
		p.State, p.DecidedBy = s.faster, "somebody"
	}
	resolved, err := p.Resolve(v, time.Time{})
	if err != nil {
		return perdure.Approval{}, err
	}
	*p = p.Resolved(resolved, time.Now())
	s.verdicts = append(s.verdicts, v)
	return *p, nil
}

func (s sceneTasks) Send(_ context.Context, _ perdure.TaskID, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	s.sent = append(s.sent, m)
	return "tmsg_1", s.unfit
}

func (s sceneTasks) CancelAll(_ context.Context, id perdure.SessionID, _, _ string) (int, error) {
	s.canceled = append(s.canceled, id)
	return len(s.views[0]), s.err
}

func (s sceneTasks) Drain(context.Context, perdure.SessionID) ([]perdure.Task, error) {
	ready := s.ready
	s.ready = nil
	return ready, s.err
}

func (s sceneTasks) Log(context.Context, perdure.TaskID, int64, int) (engine.Log, error) {
	if len(s.logs) == 0 {
		return engine.Log{}, s.err
	}
	text := s.logs[0]
	if len(s.logs) > 1 {
		s.logs = s.logs[1:]
	}
	return engine.Log{Chunks: []engine.Chunk{{Bytes: []byte(text)}}}, s.err
}

// command is one run of the program with its own World.
type command struct {
	args     string // separated by spaces
	scene    *scene
	engine   Engine // instead of the scene; nil: the scene
	opening  error  // error of opening the engine
	terminal Terminal
	env      map[string]string
	stdin    string
	typed    io.Reader // instead of stdin; nil: stdin
	wire     ConnectFunc
	keys     func() (func() error, error)
	signals  <-chan os.Signal
	hear     func(said string) // receives each piece of output on stderr
	checks   []Check
}

// run runs the command, and returns its exit code, its stdout and its stderr.
func (c command) run(ctx context.Context) (code int, out, talk string) {
	var data bytes.Buffer
	said := &talkHeard{hear: c.hear}
	code = Main(ctx, Dependencies{
		Args: strings.Fields(c.args), Stdin: c.input(), Stdout: &data, Stderr: said, Terminal: c.terminal,
		Env: func(name string) string { return c.env[name] }, DataDir: "/data", Log: quietLog,
		Open: func(context.Context, OpenOptions) (Engine, error) {
			if c.engine != nil {
				return c.engine, c.opening
			}
			return c.scene, c.opening
		},
		Connect: c.wire, RawKeys: c.keys, Signals: c.signals,
		Diagnose: func(context.Context, string) []Check { return c.checks },
	})
	return code, data.String(), said.String()
}

// talkHeard is a stderr with several concurrent writers.
type talkHeard struct {
	hear func(string)
	mu   sync.Mutex
	text strings.Builder
}

func (h *talkHeard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hear != nil {
		h.hear(string(p))
	}
	return h.text.Write(p)
}

func (h *talkHeard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func (c command) input() io.Reader {
	if c.typed != nil {
		return c.typed
	}
	return strings.NewReader(c.stdin)
}

func sessionsOf(ids ...perdure.SessionID) []engine.Session {
	var all []engine.Session
	for _, id := range ids {
		all = append(all, engine.Session{ID: id})
	}
	return all
}
