package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store/faulty"
)

// clientTimeout is how long a client waits for an answer, in virtual time.
const clientTimeout = 30 * time.Second

// operation is an operation of a client: a request to an engine, and the promises in its answer.
type operation struct {
	name string
	do   func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error)
}

// ask runs an operation of a client, concurrently with all others.
func (w *world) ask(d operation) {
	l := w.chosen(d.name, w.writeCommits)
	if l == nil { // the client tries again, or its step is lost
		return
	}
	w.mu.Lock()
	w.ops++
	w.mu.Unlock()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
		defer cancel()
		told, err := d.do(ctx, l.eng)
		w.mu.Lock()
		defer w.gate.ring()
		defer w.mu.Unlock()
		w.ops--
		switch {
		case errors.Is(err, faulty.Dead) || l.isDead(): // no answer reached the client
		case err != nil:
			w.trace.add("%s: told %v", d.name, kindOf(err))
		default:
			w.trace.add("%s: told ok", d.name)
			w.received = append(w.received, told...)
		}
	}()
}

// operation returns the operation of a step of the program; ok is false if there is nothing to
// operate on. It chooses its object from what a client can have read.
func (w *world) operation(s Step) (operation, bool) {
	id := w.ids[s.Session%len(w.ids)]
	if s.Below > 0 {
		if child, ok := pick(w.below(id), s.Below-1); ok {
			id = child
		}
	}
	return w.operationOn(id, s)
}

// waiting returns the foreground calls that wait for a subagent.
func (w *world) waiting() (keys []perdure.CallKey) {
	for _, id := range w.sessions() {
		for _, c := range inPhase(w.views[id], perdure.CallExecuting, spawnAgent) {
			keys = append(keys, perdure.CallKey{Session: id, Call: c})
		}
	}
	return keys
}

// below returns the known subagents of a session, at all depths.
func (w *world) below(root perdure.SessionID) (ids []perdure.SessionID) {
	for _, id := range w.sessions() {
		if l := w.views[id].fold.Lineage; l != nil && l.Root == root {
			ids = append(ids, id)
		}
	}
	return ids
}

// operationOn is deed for a given session, which may be a subagent.
func (w *world) operationOn(id perdure.SessionID, s Step) (operation, bool) {
	v := w.views[id]
	d := operation{name: fmt.Sprintf("step %d, %s of %s", s.N, s.Op, id)}
	nothing := func(do func(context.Context, engine.Engine) error) {
		d.do = func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error) { return nil, do(ctx, eng) }
	}
	switch s.Op {
	case Send:
		d.do = w.send(id, perdure.MessageID(fmt.Sprintf("message_%032x", uint64(s.N))), perdure.Message{
			Role: perdure.RoleUser, Parts: perdure.Text(s.Text).Parts, Mode: s.Mode,
		})
	case Repeat:
		sent, ok := pick(slices.Sorted(maps.Keys(w.sends)), s.Pick)
		if !ok {
			return d, false
		}
		d.do = w.send(w.sends[sent].to, sent, w.sends[sent].message)
	case Interrupt:
		nothing(func(ctx context.Context, eng engine.Engine) error {
			return eng.Sessions().Interrupt(ctx, id, "user", "simulation")
		})
	case Detach:
		c, ok := pick(inPhase(v, perdure.CallExecuting), s.Pick)
		if key, some := pick(w.waiting(), s.Pick); some && s.Pick%4 > 0 { // preferred, because they are rare
			id, c, ok = key.Session, key.Call, true
			d.name = fmt.Sprintf("step %d, %s of %s", s.N, s.Op, id)
		}
		if !ok {
			return d, false
		}
		nothing(func(ctx context.Context, eng engine.Engine) error {
			_, err := eng.Calls().Detach(ctx, perdure.CallKey{Session: id, Call: c}, "user")
			return err
		})
	case Answer:
		c, ok := pick(inPhase(v, perdure.CallAwaitingClient), s.Pick)
		if !ok {
			return d, false
		}
		nothing(func(ctx context.Context, eng engine.Engine) error {
			return eng.Calls().Answer(ctx, perdure.CallKey{Session: id, Call: c}, "user",
				perdure.ToolResult{Result: []byte(`"one"`)})
		})
	case Decide:
		a, ok := pick(openApprovals(v), s.Pick)
		if !ok {
			return d, false
		}
		nothing(func(ctx context.Context, eng engine.Engine) error {
			_, err := eng.Approvals().Decide(ctx, a, perdure.Verdict{Approve: s.Pick%3 > 0, By: "user"})
			return err
		})
	default:
		return w.taskOperation(d, s, v)
	}
	return d, true
}

// send sends a message and remembers it. An acknowledged message must never be lost.
func (w *world) send(
	id perdure.SessionID, name perdure.MessageID, m perdure.Message,
) func(context.Context, engine.Engine) ([]chaos.Response, error) {
	m.ID = name
	w.sends[name] = sentMessage{to: id, message: m}
	return func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error) {
		_, err := eng.Send(ctx, id, m)
		return []chaos.Response{{Session: id, Message: name}}, err
	}
}

// taskOperation is deed for the operations on tasks.
func (w *world) taskOperation(d operation, s Step, v *view) (operation, bool) {
	id := v.fold.ID
	if s.Op == Drain {
		d.do = func(ctx context.Context, eng engine.Engine) (told []chaos.Response, err error) {
			tasks, err := eng.Tasks().Drain(ctx, id)
			for _, t := range tasks {
				told = append(told, chaos.Response{Session: id, Task: &t})
			}
			return told, err
		}
		return d, true
	}
	if s.Op == CancelAll {
		d.do = func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error) {
			_, err := eng.Tasks().CancelAll(ctx, id, "user", "simulation")
			return nil, err
		}
		return d, true
	}
	if s.Op == Resolve {
		return w.resolve(d, s, v)
	}
	live := func(t perdure.Task) bool { return t.State.Live() }
	if s.Op == Reply {
		live = func(t perdure.Task) bool { return t.InputRequest != nil && t.InputRequest.Kind == "question" }
	} else if s.Op == Cancel && s.Pick%4 == 0 {
		live = func(perdure.Task) bool { return true } // including ended ones
	}
	t, ok := pick(tasksOf(v, live), s.Pick)
	d.do = func(ctx context.Context, eng engine.Engine) (told []chaos.Response, err error) {
		switch s.Op {
		case Cancel:
			_, err = eng.Tasks().Cancel(ctx, t.ID, "user", "simulation")
			told = []chaos.Response{{Session: id, Cancel: t.ID}}
		case Deliver:
			_, err = eng.Tasks().SetDelivery(ctx, t.ID, []perdure.Delivery{"", perdure.ToLoop, perdure.Manual}[s.Pick%3],
				[]perdure.Wake{"", perdure.WakeNone, perdure.WakeNotify, perdure.WakeContinue}[s.Pick%4])
		case Mail:
			_, err = eng.Tasks().Send(ctx, t.ID, perdure.TaskMessage{Text: "by the way", By: "user"})
		case Reply:
			_, err = eng.Tasks().Send(ctx, t.ID, perdure.TaskMessage{
				Text: "this one", InReplyTo: t.InputRequest.ID, By: "user",
			})
		}
		return told, err
	}
	return d, ok
}

// resolve resolves an unknown outcome as an operator.
func (w *world) resolve(d operation, s Step, v *view) (operation, bool) {
	word := engine.Resolution{
		Answer: []perdure.ResolveAnswer{perdure.ResolveHappened, perdure.ResolveDidNotHappen, perdure.ResolveRunAgain}[s.Pick%3], By: "operator",
	}
	if t, ok := pick(tasksOf(v, func(t perdure.Task) bool { return t.State == perdure.TaskUnknown }), s.Pick); ok {
		d.do = func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error) {
			return nil, eng.Tasks().Resolve(ctx, t.ID, word)
		}
		return d, true
	}
	c, ok := pick(slices.Sorted(maps.Keys(v.fold.UnknownCalls)), s.Pick)
	word.Answer = []perdure.ResolveAnswer{perdure.ResolveHappened, perdure.ResolveDidNotHappen}[s.Pick%2]
	d.do = func(ctx context.Context, eng engine.Engine) ([]chaos.Response, error) {
		return nil, eng.Calls().Resolve(ctx, perdure.CallKey{Session: v.fold.ID, Call: c}, word)
	}
	return d, ok
}

// pick chooses one of several values.
func pick[T any](from []T, n int) (one T, ok bool) {
	if len(from) == 0 {
		return one, false
	}
	return from[n%len(from)], true
}

// inPhase returns the calls of a turn that are in a phase, of all tools or only of some.
func inPhase(v *view, phase perdure.CallPhase, tools ...string) (ids []perdure.CallID) {
	if v.fold.Turn == nil {
		return nil
	}
	for _, c := range v.fold.Turn.Calls {
		if c.Phase == phase && (len(tools) == 0 || slices.Contains(tools, c.Name)) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func openApprovals(v *view) []perdure.ApprovalID { return slices.Sorted(maps.Keys(v.fold.Approvals)) }

// tasksOf returns the tasks that are of interest, oldest first.
func tasksOf(v *view, interest func(perdure.Task) bool) (some []perdure.Task) {
	for _, t := range v.fold.Tasks {
		if interest(t) {
			some = append(some, t)
		}
	}
	slices.SortFunc(some,
		func(a, b perdure.Task) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return some
}
