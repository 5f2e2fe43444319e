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

// The bounds of the driver's patience. The longest tool of the mix takes two seconds.
const (
	glance    = 300 * time.Millisecond // between two looks at a session in work
	calm      = 2 * time.Second        // for a session to prove that it is at rest
	patience  = 5 * time.Second        // for a session to come to rest before the next message
	fewest    = 6                      // messages of a session
	most      = 14
	byChaos   = "chaos"
	peekBytes = 32 << 10
)

// Driver speaks in many sessions at once, as impatient people do: messages in the middle of a turn, interrupts, cancels,
// detached calls, verdicts and answers. What it is told it gives to its witness. Its words follow from the seed.
type Driver struct {
	Engine   engine.Engine // answers again after each restart
	Agent    perdure.Agent
	Words    []string // what may be asked, each a message without its number
	Sessions int      // at once
	Seed     int64
	Rest     time.Duration // for the last sessions to come to rest
	Witness  *Witness
}

// Run speaks until enough is closed, and returns when every session is at rest, or Rest is over. An answer that no
// server should give is an error.
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
		return context.Cause(ctx) // the first; the others are its echo
	}
	return nil
}

// sessions leads one session after another.
func (d Driver) sessions(ctx context.Context, number int, enough <-chan struct{}) error {
	dice := rand.New(rand.NewPCG(uint64(d.Seed), uint64(number)))
	var left []*talk // did not come to rest in time: they wait for somebody, or take long
	for n := 0; ; n++ {
		s, err := d.begin(ctx, fmt.Sprintf("%d.%d", number+1, n+1), dice)
		if err != nil {
			return err
		}
		for range fewest + dice.IntN(most-fewest+1) {
			if over(enough) {
				break
			}
			if err := s.step(ctx); err != nil {
				return err
			}
		}
		if !over(enough) {
			rested, err := s.rest(ctx, patience)
			if err != nil {
				return err
			}
			if !rested { // it is seen to at the end
				left = append(left, s)
			}
			continue
		}
		for _, s := range append(left, s) {
			if _, err := s.rest(ctx, d.Rest); err != nil {
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

// talk is one session that is led.
type talk struct {
	Driver
	id   perdure.SessionID
	name string
	said int
	dice *rand.Rand
}

func (d Driver) begin(ctx context.Context, name string, dice *rand.Rand) (*talk, error) {
	agent := d.Agent
	agent.Title = "chaos " + name
	s, err := d.Engine.NewSession(ctx, agent)
	for (errors.Is(err, perdure.Unavailable) || errors.Is(err, perdure.Storage)) && wait(ctx, glance) { // away for long, or full
		s, err = d.Engine.NewSession(ctx, agent)
	}
	return &talk{Driver: d, id: s.ID, name: name, dice: dice}, err
}

// step says something, and mostly waits until it is done.
func (t *talk) step(ctx context.Context) error {
	if err := t.say(ctx); err != nil {
		return err
	}
	switch chance := t.dice.IntN(100); {
	case chance < 15: // and says more in the middle of it
		wait(ctx, t.soon())
		if err := t.say(ctx); err != nil {
			return err
		}
	case chance < 23:
		wait(ctx, t.soon())
		if err := t.allowed(t.Engine.Interrupt(ctx, t.id, byChaos, "changed my mind")); err != nil {
			return err
		}
	case chance < 33:
		wait(ctx, t.soon())
		if err := t.cancel(ctx); err != nil {
			return err
		}
	case chance < 40:
		wait(ctx, t.soon())
		if err := t.detach(ctx); err != nil {
			return err
		}
	case chance < 50:
		wait(ctx, t.soon()) // and does not wait for its end
	}
	if err := t.look(ctx); err != nil || t.dice.IntN(5) == 0 {
		return err
	}
	_, err := t.rest(ctx, patience)
	return err
}

// soon is a moment in the middle of what a message asks for.
func (t *talk) soon() time.Duration {
	return time.Duration(t.dice.Int64N(int64(600 * time.Millisecond)))
}

// say sends the next message and notes that it was taken.
func (t *talk) say(ctx context.Context) error {
	t.said++
	text := fmt.Sprintf("%s %s-%d", t.Words[t.dice.IntN(len(t.Words))], t.name, t.said)
	err := t.Engine.Send(ctx, t.id, perdure.Text(text))
	if err == nil {
		t.Witness.Said(t.id, text)
	}
	return t.allowed(err)
}

// cancel asks for the end of one task.
func (t *talk) cancel(ctx context.Context) error {
	tasks, err := t.tasks(ctx)
	for _, task := range tasks {
		if task.State.Live() && err == nil {
			receipt, err := t.Engine.CancelTask(ctx, task.ID, byChaos, "changed my mind")
			if err == nil && !receipt.RequestedAt.IsZero() {
				t.Witness.Canceled(t.id, task.ID)
			}
			return t.allowed(err)
		}
	}
	return err
}

// detach lets a call that runs leave its turn.
func (t *talk) detach(ctx context.Context) error {
	calls, err := t.Engine.Calls(ctx, t.id)
	t.Witness.Calls(calls)
	for _, call := range calls {
		if call.State == perdure.CallRunning && call.Task == "" && err == nil {
			_, err = t.Engine.DetachCall(ctx, call.Key, byChaos)
			break
		}
	}
	if errors.Is(err, perdure.NotFound) { // it has ended meanwhile
		return nil
	}
	return t.allowed(err)
}

func (t *talk) tasks(ctx context.Context) ([]perdure.Task, error) {
	tasks, err := t.Engine.Tasks(ctx, t.id)
	if err == nil {
		t.Witness.Tasks(tasks)
	}
	return tasks, t.allowed(err)
}

// look reads a part of what there is, for the witness.
func (t *talk) look(ctx context.Context) error {
	switch t.dice.IntN(4) {
	case 0:
		calls, err := t.Engine.Calls(ctx, t.id)
		if err == nil {
			t.Witness.Calls(calls)
		}
		return t.allowed(err)
	case 1:
		tasks, err := t.tasks(ctx)
		if len(tasks) == 0 || err != nil {
			return err
		}
		task := tasks[t.dice.IntN(len(tasks))]
		log, err := t.Engine.TaskLog(ctx, task.ID, 0, peekBytes)
		if err == nil {
			t.Witness.Log(task.ID, bytesOf(log))
		}
		return t.allowed(err)
	default:
		events, err := t.Engine.Events(ctx, t.id, int64(t.dice.IntN(100)), 100)
		if errors.Is(err, perdure.Invalid) {
			return nil // the journal is shorter
		}
		if err == nil {
			t.Witness.Events(t.id, events)
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

// rest answers what is asked until the session is at rest, or the time is over: then it has not rested.
func (t *talk) rest(ctx context.Context, limit time.Duration) (rested bool, err error) {
	for until := time.Now().Add(limit); time.Now().Before(until); {
		s, err := t.Engine.Session(ctx, t.id)
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
			if rested, err := t.atRest(ctx); rested || err != nil {
				return rested, err
			}
		}
		if !wait(ctx, glance) {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// atRest lets the session prove that it is at rest: nothing is queued, and nothing is on its way home. What was queued may
// ask something, so nobody waits for long.
func (t *talk) atRest(ctx context.Context) (bool, error) {
	short, cancel := context.WithTimeout(ctx, calm)
	defer cancel()
	if err := t.Engine.WaitIdle(short, t.id); err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return false, t.allowed(err)
	}
	_, err := t.tasks(ctx)
	return err == nil, err
}

// answer gives verdicts on what waits for one, and answers to questions.
func (t *talk) answer(ctx context.Context) error {
	open, err := t.Engine.Approvals(ctx, engine.ApprovalFilter{Session: t.id, State: perdure.ApprovalOpen})
	if err != nil {
		return t.allowed(err)
	}
	for _, approval := range open {
		verdict := perdure.Verdict{Approve: t.dice.IntN(5) > 0, By: byChaos, ArgsHash: approval.ArgsHash}
		if _, err := t.Engine.DecideApproval(ctx, approval.ID, verdict); t.allowed(err) != nil {
			return err
		}
	}
	tasks, err := t.tasks(ctx)
	for _, task := range tasks {
		if !task.Waits() || task.InputRequest == nil || task.InputRequest.Kind == "approval" || err != nil {
			continue
		}
		m := perdure.TaskMessage{Text: "yes", InReplyTo: task.InputRequest.ID, By: byChaos}
		if _, err := t.Engine.SendTask(ctx, task.ID, m); t.allowed(err) != nil {
			return err
		}
	}
	return err
}

// allowed passes the errors on that no server should give here. What came too late, finds no place, or found nobody for
// a long time is as it should be. What is not there any more was acknowledged before: the witness is told.
func (t *talk) allowed(err error) error {
	switch {
	case err == nil, errors.Is(err, perdure.Conflict), errors.Is(err, perdure.Limit), errors.Is(err, perdure.Unavailable), errors.Is(err, perdure.Storage):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, perdure.NotFound):
		t.Witness.Gone(t.id, err.Error())
		return nil
	}
	return err
}

// wait pauses, and reports whether ctx lives on.
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
