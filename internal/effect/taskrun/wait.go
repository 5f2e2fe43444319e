package taskrun

import (
	"context"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// WaitTasks calls look after every task event of the sessions until look reports done or ctx ends,
// and returns the last result of look. It calls look at least once, even if ctx has ended already.
// It holds no lock and no slot while it waits.
func (ts *Tasks) WaitTasks(ctx context.Context, sessions []perdure.SessionID,
	look func(context.Context) ([]perdure.Task, bool, error)) ([]perdure.Task, error) {
	tasks, done, err := look(context.WithoutCancel(ctx))
	if done || err != nil || ctx.Err() != nil {
		return tasks, err
	}
	var seqs []int64
	for _, id := range sessions {
		row, err := ts.core.SessionRow(context.WithoutCancel(ctx), id)
		if err != nil {
			return tasks, err
		}
		seqs = append(seqs, row.LastSeq)
	}
	if tasks, done, err = look(context.WithoutCancel(ctx)); done || err != nil {
		return tasks, err
	}
	over := fmt.Errorf("the wait is over")
	var mu sync.Mutex // one watch calls look at a time
	err = ts.watchAll(ctx, sessions, seqs, func() (err error) {
		mu.Lock()
		defer mu.Unlock()
		if !done {
			var now []perdure.Task
			if now, done, err = look(ctx); err == nil {
				tasks = now
			}
		}
		if done {
			return over
		}
		return err
	})
	if done || ctx.Err() != nil {
		if cause := perdure.CauseOf(ctx); cause != "" && !done {
			return tasks, cause
		}
		return tasks, nil
	}
	return tasks, err
}

// watchAll calls look after the task events of the sessions, until one watch ends. It returns when
// all have ended.
func (ts *Tasks) watchAll(ctx context.Context, sessions []perdure.SessionID, seqs []int64, look func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watch := func(i int) error {
		return ts.core.Store.Watch(ctx, sessions[i], seqs[i], func(f store.Frame) error {
			if f.Event == nil || f.Event.Task == "" {
				return nil
			}
			return look()
		})
	}
	if len(sessions) == 1 {
		return watch(0)
	}
	ended := make(chan error, len(sessions)) // one for each watch
	for i := range sessions {
		go func() { ended <- watch(i) }()
	}
	err := <-ended
	stop()
	for range len(sessions) - 1 {
		<-ended
	}
	return err
}
