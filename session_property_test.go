package perdure_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// TestSession plays random histories with a simulator: a person, an operator and tasks write
// concurrently with a driver that crashes. The simulator checks the laws at every step. A failed
// run prints its seed and how to replay it.
func TestSession(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(t)
		for range 2 {
			t.Repeat(p.moves())
		}
		p.comeToRest(t)
		for range 3 {
			p.sameFold(p.anySeq(t))
		}
	})
}

// play is a simulator with random choices of what happens.
type play struct {
	*simulator
	agent  perdure.Agent
	spoken int
	named  int
}

func newPlay(t *rapid.T) *play {
	agent := perdure.Agent{
		MaxIterations:    rapid.IntRange(1, 4).Draw(t, "max iterations"),
		MaxContinuations: rapid.IntRange(1, 3).Draw(t, "max continuations"),
		MaxParallelCalls: rapid.IntRange(0, 3).Draw(t, "max parallel calls"),
		SerialCalls:      rapid.Bool().Draw(t, "serial calls"),
	}
	p := &play{simulator: newSimulator(t, agent), agent: agent}
	p.sample = 10
	p.moment.NoProgress = rapid.SampledFrom([]int{0, 3}).Draw(t, "no progress")
	p.moment.ModelAttempts = rapid.IntRange(0, 3).Draw(t, "model attempts")
	return p
}

// moves are what can happen next. One that cannot, now, is skipped.
func (p *play) moves() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"model answers": p.modelAnswers, "model answers again": p.modelAnswers,
		"call ends": p.callEnds, "call ends again": p.callEnds,
		"message": p.message, "interrupt": p.interrupt, "detach": p.detach, "resolve call": p.resolveCall, "rename": p.rename,
		"task begins": p.taskBegins, "task moves": p.taskMoves, "task moves on": p.taskMoves,
		"driver wakes": func(*rapid.T) { p.wake() },
		"pause":        p.pause, "go on": p.goOn,
		"crash": func(t *rapid.T) { p.crash(p.anySeq(t)) },
		"time passes": func(t *rapid.T) {
			p.now = p.now.Add(time.Duration(rapid.IntRange(1, 100_000).Draw(t, "ms")) * time.Millisecond)
		},
	}
}

func (p *play) anySeq(t *rapid.T) int { return rapid.IntRange(1, len(p.journal)).Draw(t, "seq") }

// perhapsWake lets the driver notice, or leaves it to find out with its next commit.
func (p *play) perhapsWake(t *rapid.T) {
	if rapid.Bool().Draw(t, "driver notices") {
		p.wake()
	}
}

func (p *play) message(t *rapid.T) {
	modes := []perdure.Mode{"", perdure.ModeSteer, perdure.ModeQueue, perdure.ModeInterrupt}
	if p.laws.turn == nil {
		modes = append(modes, perdure.ModeReject) // otherwise refused by the engine and not journaled (DL10)
	}
	p.spoken++
	p.receive(fmt.Sprintf("message %d", p.spoken), rapid.SampledFrom(modes).Draw(t, "mode"))
	p.perhapsWake(t)
}

func (p *play) interrupt(t *rapid.T) {
	p.intend(perdure.InterruptRequested{By: "user", Reason: "enough"})
	p.perhapsWake(t)
}

// detach requests to detach a call, or refuses it. The call may have ended by now.
func (p *play) detach(t *rapid.T) {
	runs := p.runs()
	if len(runs) == 0 {
		t.Skip("no call is running")
	}
	id := rapid.SampledFrom(runs).Draw(t, "run").Call.ID
	if rapid.Bool().Draw(t, "refused") {
		p.intend(perdure.ToolDetachRefused{CallID: id, Reason: "no slot"})
	} else {
		p.intend(perdure.ToolDetachRequested{CallID: id})
	}
	p.perhapsWake(t)
}

func (p *play) pause(t *rapid.T) {
	p.intend(perdure.SessionPauses{By: "user", Reason: "let me look"})
	p.perhapsWake(t)
}

func (p *play) goOn(t *rapid.T) {
	p.intend(perdure.SessionResumes{By: "user"})
	p.perhapsWake(t)
}

// rename stands for all facts that change nothing of a turn, those of a newer version too (EV10).
func (p *play) rename(t *rapid.T) {
	if rapid.Bool().Draw(t, "of a newer version") {
		p.intend(perdure.UnknownFact{Kind: "session.painted", Data: []byte(`{"color":"teal"}`)})
		return
	}
	value := rapid.SampledFrom([]*string{nil, new(string)}).Draw(t, "label")
	p.intend(perdure.SessionUpdated{Title: "renamed", Labels: perdure.LabelChanges{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"): value}})
}

func (p *play) resolveCall(t *rapid.T) {
	unknown := p.fold(0).UnknownCalls
	if len(unknown) == 0 {
		t.Skip("no call is unknown")
	}
	id := rapid.SampledFrom(sortedKeys(unknown)).Draw(t, "call")
	answer := rapid.SampledFrom([]perdure.ResolveAnswer{perdure.ResolveHappened, perdure.ResolveDidNotHappen, perdure.ResolveRunAgain}).Draw(t, "answer")
	notice := perdure.Message{ID: newID[perdure.MessageID](p.simulator), Role: perdure.RoleNotification, At: p.now,
		Parts: []perdure.Part{{Type: perdure.PartText, Text: string(id) + ": " + answer.Outcome()}}}
	p.intend(perdure.ToolResolved{CallID: id, Answer: answer, Outcome: answer.Outcome(), By: "operator", Message: notice})
	p.perhapsWake(t)
}

// modelAnswers chooses the outcome of the running model call. A call that is to stop may still
// answer first.
func (p *play) modelAnswers(t *rapid.T) {
	c, ok := p.model()
	if !ok {
		t.Skip("no model call is running")
	}
	outcomes := []string{"text", "calls", "calls", "text", "calls", "refusal", "refusal with calls", "empty", "retryable", "fatal", "cut off", "cut off for good"}
	if c.Stop {
		outcomes = append(outcomes, "stopped", "stopped", "stopped at once", "stopped at once")
	}
	switch outcome := rapid.SampledFrom(outcomes).Draw(t, "answer"); outcome {
	case "text":
		p.settle(p.answer("an answer")...)
	case "calls":
		p.settle(p.answer(rapid.SampledFrom([]string{"", "some calls"}).Draw(t, "text"), p.calls(t)...)...)
	case "refusal", "refusal with calls":
		var calls []asked
		if outcome != "refusal" {
			calls = p.calls(t)
		}
		facts := p.answer("I would rather not", calls...)
		reason := facts[2].(perdure.ReasonCompleted)
		reason.Refusal = true
		facts[2] = reason
		p.settle(facts...)
	case "empty":
		p.settle(p.failure(perdure.CodeEmptyAnswer, true)...)
	case "cut off", "cut off for good":
		p.settle(p.cutOff("half an ans", outcome == "cut off")...)
	case "retryable":
		p.settle(p.failure("provider_unavailable", true)...)
	case "fatal":
		p.settle(p.failure("provider_misconfigured", false)...)
	case "stopped":
		p.settle(p.stopped("half an ans")...)
	default:
		p.settle(p.stopped("")...)
	}
}

// calls are up to five calls with what their tools say of them.
func (p *play) calls(t *rapid.T) []asked {
	var calls []asked
	for range rapid.IntRange(1, 5).Draw(t, "calls") {
		p.named++
		c := asked{Args: fmt.Sprintf(`{"n":%d}`, p.named)}
		c.ID, c.Name, c.Fingerprint = perdure.CallID(fmt.Sprintf("call-%d", p.named)), "work", "sha256:00"
		c.Class = rapid.SampledFrom([]perdure.EffectClass{perdure.Pure, perdure.Idempotent, perdure.AtMostOnce}).Draw(t, "class")
		c.Concurrency = rapid.SampledFrom([]string{"", "", "files", "todos"}).Draw(t, "concurrency class")
		switch rapid.IntRange(0, 9).Draw(t, "fate") {
		case 0:
			refusal := perdure.Refused(c.ID, perdure.ErrorDenied, "denied")
			c.Refusal = &refusal
		case 1:
			p.violates[c.ID] = true
		}
		calls = append(calls, c)
	}
	return calls
}

// callEnds chooses the outcome of a running call, or of several that end in one commit.
func (p *play) callEnds(t *rapid.T) {
	runs := p.runs()
	if len(runs) == 0 {
		t.Skip("no call is running")
	}
	var outcome []perdure.Fact
	for _, run := range rapid.Permutation(runs).Draw(t, "order")[:rapid.IntRange(1, len(runs)).Draw(t, "calls that end")] {
		outcome = append(outcome, p.endOf(t, run)...)
	}
	p.settle(outcome...)
}

func (p *play) endOf(t *rapid.T, run perdure.RunCall) []perdure.Fact {
	c := run.Call
	outcomes := []string{"success", "success", "tool error", "unknown", "read", "detached"}
	if run.Stop {
		outcomes = append(outcomes, "interrupted", "interrupted", "interrupted")
	}
	switch rapid.SampledFrom(outcomes).Draw(t, "result") {
	case "success":
		return []perdure.Fact{done(c, `{"ok":true}`)}
	case "tool error":
		return []perdure.Fact{completed(c, perdure.Failed(c.ID, perdure.ErrorTool, "boom"))}
	case "unknown":
		return []perdure.Fact{
			completed(c, perdure.Failed(c.ID, perdure.ErrorUnknown, perdure.TextUnknown)),
			perdure.ToolUnknown{CallID: c.ID, Name: c.Name, Since: c.StartedAt, IdempotencyKey: "key"},
		}
	case "read":
		fact := done(c, `{"status":"completed"}`)
		fact.Result.ReadTasks = p.someEnded(t)
		return []perdure.Fact{fact}
	case "detached":
		task := p.newTask(perdure.TaskRunning)
		task.Origin, task.Call, task.DetachedAt = perdure.OriginDetached, c.ID, p.now
		return []perdure.Fact{done(c, `{"type":"background"}`), perdure.TaskCreated{Task: task}}
	}
	return []perdure.Fact{completed(c, perdure.Failed(c.ID, perdure.ErrorInterrupted, perdure.TextInterrupted))}
}

// someEnded returns tasks whose end the model learns from a call.
func (p *play) someEnded(t *rapid.T) []perdure.TaskID {
	var ended []perdure.TaskID
	for _, id := range sortedKeys(p.rows) {
		if p.rows[id].State.Terminal() && rapid.Bool().Draw(t, "read") {
			ended = append(ended, id)
		}
	}
	return ended
}

func (p *play) taskBegins(t *rapid.T) {
	state := rapid.SampledFrom([]perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}).Draw(t, "state")
	delivery := rapid.SampledFrom([]perdure.Delivery{perdure.ToLoop, perdure.ToLoop, perdure.Manual}).Draw(t, "delivery")
	wake := rapid.SampledFrom([]perdure.Wake{perdure.WakeNone, perdure.WakeNotify, perdure.WakeContinue, perdure.WakeContinue}).Draw(t, "wake")
	p.task(state, delivery, wake)
	p.perhapsWake(t)
}

// taskMoves writes to a task, as its runner, as a person who cancels, or as an operator who
// resolves.
func (p *play) taskMoves(t *rapid.T) {
	if len(p.rows) == 0 {
		t.Skip("no task")
	}
	task := p.rows[rapid.SampledFrom(sortedKeys(p.rows)).Draw(t, "task")]
	u := perdure.TaskUpdate{Attempt: task.Attempt}
	switch {
	case task.State == perdure.TaskUnknown:
		switch rapid.SampledFrom([]string{"happened", "did not happen", "run again", "links"}).Draw(t, "resolve") {
		case "happened":
			u.Resolve, u.State = true, perdure.TaskSucceeded
		case "did not happen":
			u.Resolve, u.State = true, perdure.TaskFailed
		case "run again":
			u.Rerun, u.IncrementAttempt, u.State, u.Worker = true, true, perdure.TaskQueued, newID[perdure.WorkerID](p.simulator)
		default:
			u.Links.RemoteTask = "remote"
		}
	case rapid.IntRange(0, 5).Draw(t, "write") == 0:
		u.Links.Resources = []string{rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "resource")}
		u.Cancel = &perdure.CancelRequest{At: p.now, By: "user"}
		u.Progress = &perdure.Progress{Label: "half way"}
	default:
		states := []perdure.TaskState{
			perdure.TaskRunning, perdure.TaskQueued, perdure.TaskAwaitingInput,
			perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled, perdure.TaskUnknown,
		}
		u.State, u.Summary = rapid.SampledFrom(states).Draw(t, "state"), "a summary"
	}
	p.update(task.ID, u)
	p.perhapsWake(t)
}

// comeToRest lets nothing new in. The session then comes to rest within a number of outcomes that
// its limits and what waits bound.
func (p *play) comeToRest(t *rapid.T) {
	p.intend(perdure.SessionResumes{By: "user"})
	p.wake()
	turns := len(p.session.Queue) + p.agent.MaxContinuations + 2
	attempts := orDefault(p.moment.ModelAttempts, perdure.DefaultModelAttempts)
	bound := turns * p.agent.MaxIterations * (attempts + 5)
	for range bound {
		if p.rested {
			return
		}
		if _, ok := p.model(); ok {
			p.modelAnswers(t)
		} else {
			p.callEnds(t)
		}
	}
	if !p.rested {
		t.Fatalf("no rest after %d outcomes: %+v", bound, p.due)
	}
}
