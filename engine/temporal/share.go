package temporal

import (
	"context"
	"sync"
)

// shares are the sessions and tasks that this process works on. After an outage of Temporal, the
// next activity of the same work can arrive in the process that still does it. Then both share the
// context of the work: it ends when the last of them leaves it.
type shares struct {
	mu  sync.Mutex
	all map[string]*shared // guarded by mu; by the id of a session or task
}

// shared is the context of one work, and how many activities take part in it.
type shared struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	n      int // guarded by shares.mu
}

// share is one activity's part in the context of its work.
type share struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once
	out    func()
}

// join takes part in the work of id. The context of the work does not end with ctx, which is that
// of an activity.
func (s *shares) join(ctx context.Context, id string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[id]
	if w == nil || w.ctx.Err() != nil {
		w = &shared{}
		w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		if s.all == nil {
			s.all = map[string]*shared{}
		}
		s.all[id] = w
	}
	w.n++
	one := &share{ctx: w.ctx}
	one.cancel = func(cause error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.n--; w.n > 0 {
			return
		}
		w.cancel(cause)
		if s.all[id] == w {
			delete(s.all, id)
		}
	}
	return one
}

// leave ends an activity's part. The work of the last one ends with cause.
func (s *share) leave(cause error) {
	s.once.Do(func() { s.cancel(cause) })
}
