package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// together is how many runs are placed at once.
const together = 64

// measure measures every figure, one after another. The latencies of Temporal alone and of ours
// alternate.
func (l *lab) measure(ctx context.Context) (figures, error) {
	f := figures{Version: 1}
	for _, step := range []struct {
		name string
		do   func(context.Context, *figures) error
	}{
		{"latencies", l.latencies}, {"throughput", l.throughput}, {"cancels", l.cancels}, {"kills", l.kills},
		{"turns", l.turns}, {"outage", l.outage},
	} {
		began := time.Now()
		if err := step.do(ctx, &f); err != nil {
			return f, fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(l.progress, "%s: %.0f s\n", step.name, time.Since(began).Seconds())
	}
	return f, nil
}

// latencies measures Temporal alone, a message, and a spawn.
func (l *lab) latencies(ctx context.Context, f *figures) error {
	var alone, commit, message, spawn []time.Duration
	for i := range l.options.n + warm {
		one, err := l.alone(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		err = l.engine.store.InTx(ctx, func(tx store.Tx) error {
			_, err := tx.Files().Put("session_bench", store.File{Path: "/x", Content: []byte(strconv.Itoa(i)), Encoding: store.EncodingText})
			return err
		})
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		committed := time.Since(began)
		said, id, err := l.message(ctx)
		if err != nil {
			return err
		}
		ran, err := l.spawn(ctx, id)
		if err != nil {
			return err
		}
		if i == 0 {
			about, err := l.engine.client.DescribeWorkflowExecution(ctx, prefix+"/session/"+string(id), "")
			if err != nil {
				return fmt.Errorf("read a history: %w", err)
			}
			f.Events, f.Bytes = about.GetWorkflowExecutionInfo().GetHistoryLength(), about.GetWorkflowExecutionInfo().GetHistorySizeBytes()
		}
		if i >= warm {
			alone, commit, message, spawn = append(alone, one), append(commit, committed), append(message, said), append(spawn, ran)
		}
	}
	f.Alone, f.Commit, f.Message, f.Spawn = spreadOf(alone), spreadOf(commit), spreadOf(message), spreadOf(spawn)
	return nil
}

// warm is the number of measurements that do not count.
const warm = 3

// alone returns the time from the start of a workflow to its activity in another process.
func (l *lab) alone(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	w, err := l.engine.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: aloneQueue}, aloneWorkflow)
	var at int64
	if err == nil {
		err = w.Get(ctx, &at)
	}
	if err != nil {
		return 0, fmt.Errorf("run a workflow: %w", err)
	}
	return time.Unix(0, at).Sub(began), nil
}

// message returns the time from a message to a new session until its turn has started.
func (l *lab) message(ctx context.Context) (time.Duration, perdure.SessionID, error) {
	s, err := l.engine.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		return 0, "", fmt.Errorf("create a session: %w", err)
	}
	began := time.Now()
	if _, err := l.engine.Send(ctx, s.ID, perdure.Text("go")); err != nil {
		return 0, "", fmt.Errorf("send a message: %w", err)
	}
	if err := l.engine.Sessions().WaitIdle(ctx, s.ID); err != nil {
		return 0, "", fmt.Errorf("wait for a session: %w", err)
	}
	events, err := l.engine.Events(ctx, s.ID, 0, 100)
	if err != nil {
		return 0, "", fmt.Errorf("read a journal: %w", err)
	}
	for _, event := range events {
		if _, started := event.Fact.(perdure.TurnStarted); started {
			return event.At.Sub(began), s.ID, nil
		}
	}
	return 0, "", errors.New("a message started no turn")
}

// spawn returns the time from a call until its run runs.
func (l *lab) spawn(ctx context.Context, id perdure.SessionID) (time.Duration, error) {
	began := time.Now()
	task, err := l.call(ctx, id, "note")
	if err == nil {
		task, err = l.engine.Tasks().Wait(ctx, task.ID)
	}
	if err != nil {
		return 0, err
	}
	if task.State != perdure.TaskSucceeded {
		return 0, fmt.Errorf("task %s is %s", task.ID, task.State)
	}
	return task.StartedAt.Sub(began), nil
}

// call starts a call of a tool, and returns its task.
func (l *lab) call(ctx context.Context, id perdure.SessionID, name string) (perdure.Task, error) {
	made, err := l.engine.HostCalls().Start(ctx, engine.HostCallRequest{Session: id, Tool: name})
	if err != nil {
		return perdure.Task{}, fmt.Errorf("call %s: %w", name, err)
	}
	if made.Task == nil {
		return perdure.Task{}, fmt.Errorf("call %s was refused: %+v", name, made.Result)
	}
	return *made.Task, nil
}

// throughput measures how many runs are placed in a second, and how many activities Temporal alone
// runs.
func (l *lab) throughput(ctx context.Context, f *figures) error {
	sessions, err := l.sessions(ctx, together)
	if err != nil {
		return err
	}
	rate := func(one func(place, i int) error) (float64, error) {
		began := time.Now()
		err := atOnce(l.options.runs, one)
		return float64(l.options.runs) / time.Since(began).Seconds(), err
	}
	if f.AloneRate, err = rate(func(int, int) error { _, err := l.alone(ctx); return err }); err != nil {
		return err
	}
	f.RunRate, err = rate(func(place, _ int) error { _, err := l.spawn(ctx, sessions[place]); return err })
	return err
}

// atOnce does something n times, at 64 places at once.
func atOnce(n int, one func(place, i int) error) error {
	left := make(chan int, n)
	for i := range n {
		left <- i
	}
	close(left)
	errs := make([]error, together)
	var all sync.WaitGroup
	for place := range together {
		all.Go(func() {
			for i := range left {
				if errs[place] == nil {
					errs[place] = one(place, i)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// cancels measures the time from a cancel to the end of the context of the run.
func (l *lab) cancels(ctx context.Context, f *figures) error {
	var took []time.Duration
	for i := range l.options.n/2 + warm {
		task, err := l.held(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if _, err := l.engine.Tasks().Cancel(ctx, task.ID, "bench", ""); err != nil {
			return fmt.Errorf("cancel: %w", err)
		}
		select {
		case line := <-l.lines:
			at, err := strconv.ParseInt(strings.TrimPrefix(line, "canceled "), 10, 64)
			if err != nil {
				return fmt.Errorf("a worker says %q", line)
			}
			if i >= warm {
				took = append(took, time.Unix(0, at).Sub(began))
			}
		case <-time.After(startTime):
			return errors.New("a cancel did not arrive")
		}
		if _, err := l.engine.Tasks().Wait(ctx, task.ID); err != nil {
			return fmt.Errorf("wait for a task: %w", err)
		}
	}
	f.Cancel = spreadOf(took)
	return nil
}

// held starts a run that lasts, in a session of its own, and waits until it runs.
func (l *lab) held(ctx context.Context) (perdure.Task, error) {
	s, err := l.engine.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		return perdure.Task{}, fmt.Errorf("create a session: %w", err)
	}
	task, err := l.call(ctx, s.ID, "hold")
	if err != nil {
		return task, err
	}
	return l.until(ctx, task.ID, func(t perdure.Task) bool { return t.State == perdure.TaskRunning })
}

// until waits until a task has a property.
func (l *lab) until(ctx context.Context, id perdure.TaskID, has func(perdure.Task) bool) (perdure.Task, error) {
	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		task, err := l.engine.Tasks().Get(ctx, id)
		if err != nil || has(task) {
			return task, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return task, fmt.Errorf("task %s is still %s, attempt %d", id, task.State, task.Attempt)
		}
	}
}

// acquaintance is how long the processes take to see each other connected: two heartbeats.
const acquaintance = 5 * time.Second

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// kills measures how long it takes until a run of a killed process runs in another one.
func (l *lab) kills(ctx context.Context, f *figures) error {
	var took []time.Duration
	pause(ctx, acquaintance)
	for range l.options.kills {
		task, err := l.held(ctx)
		if err != nil {
			return err
		}
		at, err := l.workerAt(ctx, store.Work{Session: task.Session, Task: task.ID})
		if err != nil {
			return fmt.Errorf("find the worker: %w", err)
		}
		if at == nil {
			return fmt.Errorf("task %s runs at none of the workers", task.ID)
		}
		began := time.Now()
		at.kill()
		if _, err := l.until(ctx, task.ID, func(t perdure.Task) bool { return t.Attempt > task.Attempt && t.State == perdure.TaskRunning }); err != nil {
			return err
		}
		took = append(took, time.Since(began))
		if _, err := l.engine.Tasks().Cancel(ctx, task.ID, "bench", ""); err != nil {
			return fmt.Errorf("cancel: %w", err)
		}
		for i, w := range l.workers {
			if w == at {
				l.workers = append(l.workers[:i], l.workers[i+1:]...)
				break
			}
		}
		if err := l.addWorker(ctx); err != nil {
			return err
		}
		pause(ctx, acquaintance)
		for len(l.lines) > 0 {
			<-l.lines
		}
	}
	f.Moved = spreadOf(took)
	return nil
}
