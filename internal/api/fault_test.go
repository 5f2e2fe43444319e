package api_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

// slowEngine holds each session's creation until it is let out.
type slowEngine struct {
	engine.Engine
	in, out chan struct{}
	once    sync.Once
}

// slowEngineSessions implements engine.Sessions for slowEngine.
type slowEngineSessions struct {
	engine.Sessions
	*slowEngine
}

// Sessions implements engine.Engine.
func (e *slowEngine) Sessions() engine.Sessions { return slowEngineSessions{e.Engine.Sessions(), e} }

func (e slowEngineSessions) CreateAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (engine.Session, error) {
	e.once.Do(func() { close(e.in) })
	<-e.out
	return e.Engine.Sessions().CreateAs(ctx, id, agent)
}

// failing answers every question with one error.
type failing struct {
	engine.Engine
	err error
}

// failingTools implements engine.Tools for failing.
type failingTools struct {
	engine.Tools
	failing
}

// Tools implements engine.Engine.
func (e failing) Tools() engine.Tools { return failingTools{e.Engine.Tools(), e} }

func (e failingTools) List(context.Context) ([]engine.Tool, error) {
	if e.err == errPanic {
		panic("a secret of ours")
	}
	return nil, e.err
}

var errPanic = fmt.Errorf("panic")

// TestKinds maps every kind once (ER1), and discloses as much as it may (ER4).
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  bool
		told   bool // the text is for everybody
	}{
		{perdure.NotFound, 404, "not_found", false, true},
		{perdure.Conflict, 409, "conflict", false, true},
		{perdure.Lost, 409, "lost", false, true},
		{perdure.UnknownOutcome, 409, "unknown_outcome", false, true},
		{perdure.Limit, 429, "limit", true, true},
		{perdure.Invalid, 400, "invalid", false, true},
		{perdure.Unavailable, 503, "unavailable", true, false},
		{perdure.Storage, 507, "storage", false, false},
		{fmt.Errorf("anything"), 500, "internal", false, false},
		{errPanic, 500, "internal", false, false},
	} {
		t.Run(c.code+"_"+c.err.Error(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(cfg *api.Config) {
				cfg.Disclosure = api.Detailed
				cfg.Engine = failing{cfg.Engine, fmt.Errorf("the secret cause: %w", c.err)}
				if c.err == errPanic {
					cfg.Engine = failing{cfg.Engine, errPanic}
				}
			})
			for _, d := range []string{"", "standard", "generic"} {
				q := get("/v1/tools")
				q.header = map[string]string{"Perdure-Disclosure": d}
				code := c.code
				if d == "generic" && c.status != 500 {
					code = "processing_error"
				}
				got := r.do(q)
				p := r.refusal(got, c.status, code)
				if p.Retryable != c.retry || (got.header.Get("Retry-After") == "1") != c.retry || p.Instance != "/v1/tools" {
					t.Errorf("got %+v %v", p, got.header)
				}
				told := d == "" && c.err != errPanic || d == "standard" && c.told
				if told != (p.Detail == "the secret cause: "+c.err.Error()) {
					t.Errorf("%q: got %q", d, p.Detail)
				}
			}
			q := get("/v1/tools")
			q.header = map[string]string{"Perdure-Disclosure": "all"}
			r.refusal(r.do(q), 400, "invalid")
		})
	}
}

// TestDisclosureNarrows: a request cannot see more than the server discloses.
func TestDisclosureNarrows(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *api.Config) { cfg.Engine = failing{cfg.Engine, fmt.Errorf("the secret cause")} })
	q := get("/v1/tools")
	q.header = map[string]string{"Perdure-Disclosure": "detailed"}
	if p := r.refusal(r.do(q), 500, "internal"); p.Detail == "the secret cause" {
		t.Errorf("got %+v", p)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]api.Config{
		"no engine":  {Token: "a"},
		"no token":   {Engine: failing{}},
		"disclosure": {Engine: failing{}, Token: "a", Disclosure: "all"},
	} {
		if _, err := api.New(cfg); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// counting is an engine that only counts.
type counting struct {
	engine.Engine
	made int
}

// countingSessions implements engine.Sessions for counting.
type countingSessions struct {
	engine.Sessions
	*counting
}

// Sessions implements engine.Engine.
func (e *counting) Sessions() engine.Sessions { return countingSessions{nil, e} }

func (e countingSessions) CreateAs(_ context.Context, id perdure.SessionID, _ perdure.Agent) (engine.Session, error) {
	e.made++
	return engine.Session{ID: id}, nil
}

func (e countingSessions) Get(_ context.Context, id perdure.SessionID) (engine.Session, error) {
	return engine.Session{ID: id}, nil
}

func (e countingSessions) ListWhere(context.Context, engine.SessionFilter) ([]engine.Session, error) {
	return nil, nil
}

// countingTasks implements engine.Tasks for counting.
type countingTasks struct {
	engine.Tasks
	*counting
}

// Tasks implements engine.Engine.
func (e *counting) Tasks() engine.Tasks { return countingTasks{nil, e} }

func (e countingTasks) List(context.Context, perdure.SessionID) ([]perdure.Task, error) {
	return nil, nil
}

func (e countingTasks) ListWhere(context.Context, engine.TaskQuery) ([]perdure.Task, error) {
	return nil, nil
}

// fuzzed is an API for a fuzz test.
func fuzzed(f *testing.F) (*api.API, *counting) {
	eng := &counting{}
	a, err := api.New(api.Config{Engine: eng, Token: token})
	if err != nil {
		f.Fatal(err)
	}
	return a, eng
}

// serve asks a handler without a network.
func serve(t *testing.T, a *api.API, q ask) reply {
	t.Helper()
	req := httptest.NewRequest(q.method, q.path, strings.NewReader(q.body))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, req)
	return reply{rec.Code, rec.Header(), rec.Body.Bytes()}
}

func escape(s string) string { return url.QueryEscape(s) }

// onSocket makes an API that of a socket.
func onSocket(c *api.Config) { c.Local, c.Token = true, "" }
