package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/tool"
	tasks "github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/subagent"
)

// hash derives a number from the seed and the given values.
func (w *world) hash(about ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.program.Seed)
	for _, a := range about {
		fmt.Fprintf(h, "\x00%v", a)
	}
	n := h.Sum64() // mixed, because FNV hardly spreads the low bits of the last bytes
	n ^= n >> 31
	n *= 0x9e3779b97f4a7c15
	return n ^ n>>29
}

// words are the arguments of every tool: the order from the message.
type words struct {
	Text string `json:"text"`
}

type answer = map[string]string

// scriptedModel is the model of one engine. It makes the calls that the last user message lists,
// round by round, and then ends the turn.
type scriptedModel struct {
	w *world
	l *process
}

// Stream answers after a while. Sometimes the provider is unavailable, or the stream is cut off.
func (m *scriptedModel) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		about := fmt.Sprintf("model of %s, %d messages, attempt %d", req.Session, len(req.Messages), req.Attempt)
		if !m.w.gate.step(m.l, about) {
			yield(model.Delta{}, perdure.CauseShutdown)
			return
		}
		if text := chaos.Unpaired(req.Messages); text != "" {
			m.w.addViolation("I17", req.Session, about+": "+text)
		}
		pause(ctx, 5*time.Millisecond+time.Duration(m.w.hash(about)%50_000)*time.Microsecond)
		if !m.w.gate.step(m.l, about+" answers") || ctx.Err() != nil {
			yield(model.Delta{}, orCause(ctx))
			return
		}
		switch dice := m.w.hash(about, "weather") % 24; {
		case m.w.calm:
		case dice == 0 && req.Attempt == 1:
			yield(model.Delta{}, &model.Error{Code: model.Unavailable})
			return
		case dice == 1: // the stream is cut off
			yield(model.Delta{Text: "well"}, nil)
			return
		}
		for _, call := range calls(req.Messages) {
			if !yield(model.Delta{Call: &call}, nil) {
				return
			}
		}
		yield(model.Delta{Text: "so be it", Finish: model.FinishStop}, nil)
	}
}

// orCause returns the cause of a context. An engine that has ended counts as a stopped process.
func orCause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return perdure.CauseShutdown
}

// pause waits in virtual time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// processKey is the context key of the engine that a context belongs to.
type processKey struct{}

func processOf(ctx context.Context) *process { return ctx.Value(processKey{}).(*process) }

// gated wraps a tool of the runtime, so that it starts and ends at the gate like all others.
type gated struct{ tool.Tool }

// Run waits at the gate before the tool runs and before it returns. The tool has woken the driver;
// without the second wait, the scheduler would decide whether the driver gets the result with that
// wake-up or after it.
func (g gated) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	l := processOf(ctx)
	about := fmt.Sprintf("%s, execution %d of %s in %s", call.Tool, call.Execution, call.ID, call.Session)
	if !l.w.gate.step(l, "enter "+about) {
		return tool.Internal(perdure.CauseShutdown)
	}
	result := g.Tool.Run(ctx, call, env)
	if !l.w.gate.step(l, "leave "+about) {
		return tool.Internal(perdure.CauseShutdown)
	}
	return result
}

// ValidatesItself forwards to the tool.
func (g gated) ValidatesItself() bool {
	own, ok := g.Tool.(tool.SelfValidating)
	return ok && own.ValidatesItself()
}

// newTools creates the tools of all engines.
func newTools() *tool.Registry {
	spec := func(name string, class perdure.EffectClass, more ...func(*tool.Spec)) tool.Spec {
		s := tool.Spec{Name: name, Description: "A fixture.", Class: class, SoftBudget: tool.Never}
		for _, change := range more {
			change(&s)
		}
		return s
	}
	soft := func(s *tool.Spec) { s.SoftBudget = 60 * time.Millisecond }
	asks := func(s *tool.Spec) { s.Policy = tool.PolicyRequiresApproval }
	const pure, again, once = perdure.Pure, perdure.Idempotent, perdure.AtMostOnce
	work := func(how kind) func(context.Context, words, tool.Env) (answer, error) {
		return func(ctx context.Context, in words, env tool.Env) (answer, error) {
			l := processOf(ctx)
			return (&job{w: l.w, l: l, kind: how, order: in.Text, env: env}).run(ctx)
		}
	}
	var all []tool.Tool
	for _, t := range append(tasks.Tools(tasks.Config{}), subagent.Tools()...) {
		all = append(all, gated{t})
	}
	all = append(all,
		tool.New(spec("pure", pure), work(plain)),
		tool.New(spec("note", again), work(plain)),
		tool.New(spec("charge", once), work(plain)),
		tool.New(spec("serial", again, func(s *tool.Spec) { s.Concurrency = "one" }), work(plain)),
		tool.New(spec("soft", again, soft), work(slow)),
		tool.New(spec("soft_charge", once, soft), work(slow)),
		tool.New(spec("late", again, func(s *tool.Spec) { s.Deadline = 300 * time.Millisecond }), work(slow)),
		tool.New(spec("needs", once, asks), work(plain)),
		tool.New(spec("client", once, func(s *tool.Spec) { s.Policy = tool.PolicyClientSide }), work(plain)),
		tool.New(spec("routed", again), work(slow)),
		tool.New(spec("routed_charge", once), work(slow)),
		tool.New(spec("ask", again), work(asking)),
		tool.New(spec("permit", again), work(permitting)),
		tool.New(spec("stubborn", again, soft), work(stubborn)),
		tool.NewBackground(spec("bg_note", again), work(plain)),
		tool.NewBackground(spec("bg_charge", once), work(slow)),
		tool.NewBackground(spec("bg_slow", again), work(slow)),
		tool.NewBackground(spec("bg_chatty", again), work(chatty)),
		tool.NewBackground(spec("bg_ask", again), work(asking)),
		tool.NewBackground(spec("bg_needs", once, asks), work(plain)),
		tool.NewBackground(spec("bg_stubborn", again), work(stubborn)),
		tool.NewBackground(spec("bg_fill", pure), work(filling)),
	)
	return tool.NewRegistry(all...)
}

// route sends calls to the background by their names.
func route(call tool.Call) dispatch.Route {
	agent := call.Tool == spawnAgent && strings.Contains(string(call.Args), `"name":"routed`)
	if strings.HasPrefix(call.Tool, "routed") || agent {
		return dispatch.InBackground()
	}
	return dispatch.Route{}
}

// kind is the behaviour of a tool besides its effect.
type kind int

const (
	plain      kind = iota // takes up to 60 ms
	slow                   // takes up to 600 ms
	chatty                 // takes up to 600 ms and reports
	asking                 // asks a question first
	permitting             // requests an approval first
	stubborn               // does not stop when it is canceled
	filling                // holds a slot until all are occupied
)

// job is one execution of a tool.
type job struct {
	w     *world
	l     *process
	kind  kind
	order string
	env   tool.Env
}

// run has one effect, at its start or at its end, and each of its steps waits at the gate.
func (j *job) run(ctx context.Context) (answer, error) {
	j.l.jobs.Add(1)
	defer j.l.jobs.Add(-1)
	about := fmt.Sprintf("%s, execution %d of %s", j.order, j.env.Call.Execution, j.env.Call.ID)
	if !j.w.gate.step(j.l, "enter "+about) || ctx.Err() != nil {
		return nil, orCause(ctx)
	}
	if err := j.talk(ctx); err != nil {
		if !j.w.gate.step(j.l, "give up "+about) {
			return nil, perdure.CauseShutdown
		}
		return nil, err
	}
	early := j.w.hash(j.order, "early")%2 == 0
	if early {
		j.effect()
	}
	j.work(ctx, about)
	if !j.w.gate.step(j.l, "leave "+about) || ctx.Err() != nil && j.kind != stubborn {
		return nil, orCause(ctx)
	}
	if !early && ctx.Err() == nil {
		j.effect()
	}
	switch _, how, _ := strings.Cut(j.order, "!"); how {
	case "fail":
		return nil, tool.Errorf("boom")
	case "panic":
		panic("secret cause")
	}
	return answer{"did": j.order}, nil
}

// work lets virtual time pass.
func (j *job) work(ctx context.Context, about string) {
	most := uint64(60_000)
	if j.kind == slow || j.kind == chatty {
		most = 600_000
	}
	d := time.Duration(1+j.w.hash(about)%most)*time.Microsecond + time.Duration(j.w.hash(about, "own")%997)
	switch j.kind {
	case stubborn:
		pause(context.Background(), d+time.Duration(j.w.hash(about)%4_000)*time.Millisecond)
	case chatty:
		for part := range 3 {
			_ = j.env.Sink.Status(fmt.Sprintf("part %d", part))
			_ = j.env.Sink.Output("stdout", []byte(fmt.Sprintf("%s part %d\n", j.order, part)))
			_ = j.env.Sink.Progress(float64(part), 3, "")
			pause(ctx, d/3)
		}
	case filling:
		j.w.fill(ctx, j.order)
	default:
		pause(ctx, d)
	}
}

// talk asks the question of its kind of job.
func (j *job) talk(ctx context.Context) error {
	q := tool.Question{Prompt: "which one?"}
	if j.kind == permitting {
		q = tool.Question{Prompt: "may I?", Permissions: []perdure.Permission{{Kind: "command", Target: "rm -r /"}}}
	}
	if j.kind != asking && j.kind != permitting {
		return nil
	}
	reply, err := j.env.Dialog.Ask(ctx, q)
	if err == nil && j.kind == permitting && !reply.Approved {
		return tool.Errorf("not allowed")
	}
	return err
}

// effect adds a line to the outside ledger, which no engine knows.
func (j *job) effect() {
	c := j.env.Call
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	line := chaos.Line{
		Effect: j.order, Class: string(c.Class), Key: c.Key, At: time.Now().UTC().Truncate(time.Microsecond),
		Call: string(c.ID), Attempt: c.Attempt, Session: c.Session, Task: c.Task,
	}
	j.w.ledger = append(j.w.ledger, line)
	j.w.trace.add("effect %s of %s %s", j.order, c.ID, c.Task)
}
