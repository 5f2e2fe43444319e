package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// The timeouts of the driver. The longest tool of the mix takes two seconds.
const (
	pollEvery      = 300 * time.Millisecond // between two polls of a working session
	idleTimeout    = 2 * time.Second        // for a session to prove that it is idle
	messageTimeout = 5 * time.Second        // for a session to become idle before the next message
	minMessages    = 6                      // minimum number of messages of a session
	maxMessages    = 14
	actor          = "chaos"
	peekBytes      = 32 << 10
)

// Driver uses many sessions at once, like impatient users: messages in the middle of a turn,
// interrupts, cancels, detached calls, decisions and answers. It reports all responses to its
// witness. Its actions follow from the seed.
type Driver struct {
	Engines     []engine.Engine // respond again after each restart; each session uses one of them
	Agent       perdure.Agent
	Messages    []string // possible messages, without their number
	Sessions    int      // concurrent sessions
	Seed        int64
	IdleTimeout time.Duration // for the last sessions to become idle
	Record      *ClientRecord
}

// Run uses the sessions until enough is closed, and returns when every session is idle, or Rest is
// over. A response that no server should give is an error.
func (d Driver) Run(ctx context.Context, enough <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	errs := make([]error, d.Sessions)
	for i := range d.Sessions {
		group.Go(func() {
			if errs[i] = d.sessions(ctx, i, enough); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	group.Wait()
	if errors.Join(errs...) != nil {
		return context.Cause(ctx) // the first error; the others are consequences of it
	}
	return nil
}

// sessions runs one session after another.
func (d Driver) sessions(ctx context.Context, number int, enough <-chan struct{}) error {
	dice := rand.New(rand.NewPCG(uint64(d.Seed), uint64(number)))
	var left []*sessionDriver // not idle in time: they wait for an answer, or take long
	for n := 0; ; n++ {
		s, err := d.begin(ctx, d.Engines[(number+n)%len(d.Engines)], fmt.Sprintf("%d.%d", number+1, n+1), dice)
		if err != nil {
			return err
		}
		for range minMessages + dice.IntN(maxMessages-minMessages+1) {
			if over(enough) {
				break
			}
			if err := s.step(ctx); err != nil {
				return err
			}
		}
		if !over(enough) {
			rested, err := s.waitIdle(ctx, messageTimeout)
			if err != nil {
				return err
			}
			if !rested { // it is completed at the end
				left = append(left, s)
			}
			continue
		}
		for _, s := range append(left, s) {
			if _, err := s.waitIdle(ctx, d.IdleTimeout); err != nil {
				return err
			}
		}
		return nil
	}
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// sessionDriver is one session of the driver.
type sessionDriver struct {
	Driver
	Engine engine.Engine
	id     perdure.SessionID
	name   string
	said   int
	rand   *rand.Rand
}

func (d Driver) begin(ctx context.Context, eng engine.Engine, name string, dice *rand.Rand) (*sessionDriver, error) {
	agent := d.Agent
	agent.Title = "chaos " + name
	s, err := eng.Sessions().Create(ctx, agent)
	// unavailable for long, or full
	for (errors.Is(err, perdure.Unavailable) || errors.Is(err, perdure.Storage)) && wait(ctx, pollEvery) {
		s, err = eng.Sessions().Create(ctx, agent)
	}
	return &sessionDriver{Driver: d, Engine: eng, id: s.ID, name: name, rand: dice}, err
}

// step sends a message, and in most cases waits until it is processed.
func (t *sessionDriver) step(ctx context.Context) error {
	if err := t.say(ctx); err != nil {
		return err
	}
	switch chance := t.rand.IntN(100); {
	case chance < 15: // sends another one meanwhile
		wait(ctx, t.pauseBriefly())
		if err := t.say(ctx); err != nil {
			return err
		}
	case chance < 23:
		wait(ctx, t.pauseBriefly())
		if err := t.allowed(t.Engine.Sessions().Interrupt(ctx, t.id, actor, "changed my mind")); err != nil {
			return err
		}
	case chance < 33:
		wait(ctx, t.pauseBriefly())
		if err := t.cancel(ctx); err != nil {
			return err
		}
	case chance < 40:
		wait(ctx, t.pauseBriefly())
		if err := t.detach(ctx); err != nil {
			return err
		}
	case chance < 50:
		wait(ctx, t.pauseBriefly()) // does not wait for the end
	}
	if err := t.readSession(ctx); err != nil || t.rand.IntN(5) == 0 {
		return err
	}
	_, err := t.waitIdle(ctx, messageTimeout)
	return err
}

// pauseBriefly returns a random time during the processing of a message.
func (t *sessionDriver) pauseBriefly() time.Duration {
	return time.Duration(t.rand.Int64N(int64(600 * time.Millisecond)))
}

// say sends the next message, and records that it was accepted.
func (t *sessionDriver) say(ctx context.Context) error {
	t.said++
	text := fmt.Sprintf("%s %s-%d", t.Messages[t.rand.IntN(len(t.Messages))], t.name, t.said)
	_, err := t.Engine.Send(ctx, t.id, perdure.Text(text))
	if err == nil {
		t.Record.Acknowledged(t.id, text)
	}
	return t.allowed(err)
}

// cancel cancels one task.
func (t *sessionDriver) cancel(ctx context.Context) error {
	tasks, err := t.tasks(ctx)
	for _, task := range tasks {
		if task.State.Live() && err == nil {
			receipt, err := t.Engine.Tasks().Cancel(ctx, task.ID, actor, "changed my mind")
			if err == nil && !receipt.RequestedAt.IsZero() {
				t.Record.Canceled(t.id, task.ID)
			}
			return t.allowed(err)
		}
	}
	return err
}

// detach detaches a running call.
func (t *sessionDriver) detach(ctx context.Context) error {
	calls, err := t.Engine.Calls().List(ctx, t.id)
	t.Record.Calls(calls)
	for _, call := range calls {
		if call.State == perdure.CallRunning && call.Task == "" && err == nil {
			_, err = t.Engine.Calls().Detach(ctx, call.Key, actor)
			break
		}
	}
	if errors.Is(err, perdure.NotFound) { // it has ended meanwhile
		return nil
	}
	return t.allowed(err)
}

func (t *sessionDriver) tasks(ctx context.Context) ([]perdure.Task, error) {
	tasks, err := t.Engine.Tasks().List(ctx, t.id)
	if err == nil {
		t.Record.Tasks(tasks)
	}
	return tasks, t.allowed(err)
}

// readSession reads a part of the data, for the witness.
func (t *sessionDriver) readSession(ctx context.Context) error {
	switch t.rand.IntN(4) {
	case 0:
		calls, err := t.Engine.Calls().List(ctx, t.id)
		if err == nil {
			t.Record.Calls(calls)
		}
		return t.allowed(err)
	case 1:
		tasks, err := t.tasks(ctx)
		if len(tasks) == 0 || err != nil {
			return err
		}
		task := tasks[t.rand.IntN(len(tasks))]
		log, err := t.Engine.Tasks().Log(ctx, task.ID, 0, peekBytes)
		if err == nil {
			t.Record.Log(task.ID, bytesOf(log))
		}
		return t.allowed(err)
	default:
		events, err := t.Engine.Events(ctx, t.id, int64(t.rand.IntN(100)), 100)
		if errors.Is(err, perdure.Invalid) {
			return nil // the journal is shorter
		}
		if err == nil {
			t.Record.Events(t.id, events)
		}
		return t.allowed(err)
	}
}

// bytesOf joins the chunks of a log.
func bytesOf(log engine.Log) (all []byte) {
	for _, chunk := range log.Chunks {
		all = append(all, chunk.Bytes...)
	}
	return all
}

// waitIdle answers questions until the session is idle or the time is over. It reports whether the
// session is idle.
func (t *sessionDriver) waitIdle(ctx context.Context, limit time.Duration) (rested bool, err error) {
	for until := time.Now().Add(limit); time.Now().Before(until); {
		s, err := t.Engine.Sessions().Get(ctx, t.id)
		switch {
		case err != nil:
			if err := t.allowed(err); err != nil {
				return false, err
			}
		case s.NeedsYou > 0:
			if err := t.answer(ctx); err != nil {
				return false, err
			}
		case s.OpenTasks == 0 && (s.Status == perdure.SessionIdle || s.Status == perdure.SessionStarted):
			if rested, err := t.isIdle(ctx); rested || err != nil {
				return rested, err
			}
		}
		if !wait(ctx, pollEvery) {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// isIdle lets the session prove that it is idle: nothing is queued, and everything is delivered. It
// does not wait long, because a queued message may ask a question.
func (t *sessionDriver) isIdle(ctx context.Context) (bool, error) {
	short, cancel := context.WithTimeout(ctx, idleTimeout)
	defer cancel()
	if err := t.Engine.Sessions().WaitIdle(short, t.id); err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return false, t.allowed(err)
	}
	_, err := t.tasks(ctx)
	return err == nil, err
}

// answer decides open approvals, and answers questions.
func (t *sessionDriver) answer(ctx context.Context) error {
	open, err := t.Engine.Approvals().List(ctx, engine.ApprovalFilter{Session: t.id, State: perdure.ApprovalOpen})
	if err != nil {
		return t.allowed(err)
	}
	for _, approval := range open {
		verdict := perdure.Verdict{Approve: t.rand.IntN(5) > 0, By: actor, ArgsHash: approval.ArgsHash}
		if _, err := t.Engine.Approvals().Decide(ctx, approval.ID, verdict); t.allowed(err) != nil {
			return err
		}
	}
	tasks, err := t.tasks(ctx)
	for _, task := range tasks {
		if !task.AwaitsInput() || task.InputRequest == nil || task.InputRequest.Kind == "approval" || err != nil {
			continue
		}
		m := perdure.TaskMessage{Text: "yes", InReplyTo: task.InputRequest.ID, By: actor}
		if _, err := t.Engine.Tasks().Send(ctx, task.ID, m); t.allowed(err) != nil {
			return err
		}
	}
	return err
}

// allowed returns errors that no server should give here. Conflicts, limits and long unavailability
// are expected. A missing session was acknowledged before, so that is reported to the witness.
func (t *sessionDriver) allowed(err error) error {
	switch {
	case err == nil, errors.Is(err, perdure.Conflict), errors.Is(err, perdure.Limit),
		errors.Is(err, perdure.Unavailable), errors.Is(err, perdure.Storage):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, perdure.NotFound):
		t.Record.RecordMissing(t.id, err.Error())
		return nil
	}
	return err
}

// wait pauses, and reports whether ctx is still active.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
