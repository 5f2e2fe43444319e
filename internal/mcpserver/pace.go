package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// The bounds of polling (M8).
const (
	paceBurst = 20    // polls of one task that nobody holds up
	paceTasks = 4_096 // tasks whose polling is remembered at once
	paceFor   = time.Minute
)

// paces remembers how often tasks are polled. A task that is polled faster than it was asked for is answered later: nothing is
// refused, and the end of the task is told at once. The zero value remembers nothing. It is safe for concurrent use.
type paces struct {
	mu    sync.Mutex
	tasks map[perdure.CallKey]pace // guarded by mu
}

// pace is what is left of a task's burst.
type pace struct {
	left float64
	at   time.Time // when left was counted
}

// take notes a poll and says how long its answer is held. The interval is the one that the task's clients were given: two polls of
// each are free.
func (p *paces) take(key perdure.CallKey, now time.Time, interval time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks == nil || len(p.tasks) >= paceTasks {
		p.forget(now)
	}
	known, ok := p.tasks[key]
	if !ok {
		known = pace{left: paceBurst, at: now}
	}
	each := interval / 2
	known.left = min(paceBurst, known.left+float64(now.Sub(known.at))/float64(each)) - 1
	known.at = now
	known.left = max(known.left, -1) // many at once are held as long as one is
	p.tasks[key] = known
	return max(0, time.Duration(-known.left*float64(each)))
}

// forget drops what nobody has polled for a while, or all where that is not enough; whoever calls holds mu.
func (p *paces) forget(now time.Time) {
	kept := map[perdure.CallKey]pace{}
	for key, known := range p.tasks {
		if now.Sub(known.at) < paceFor {
			kept[key] = known
		}
	}
	if len(kept) >= paceTasks {
		clear(kept)
	}
	p.tasks = kept
}

// paced holds the answer to a poll that comes too fast, until its time has come or the task has moved.
func (s *Server) paced(ctx context.Context, made ofCall) (ofCall, error) {
	task := *made.Task
	if task.State.Terminal() {
		return made, nil
	}
	interval := time.Duration(pollInterval(time.Since(task.CreatedAt))) * time.Millisecond
	held := s.paces.take(made.key, time.Now(), interval)
	if held <= 0 {
		return made, nil
	}
	waiting, cancel := context.WithTimeout(ctx, held)
	defer cancel()
	if task.Waits() {
		<-waiting.Done()
	} else if _, err := s.cfg.Engine.WaitTask(waiting, task.ID); err != nil && waiting.Err() == nil {
		return made, err
	}
	if err := ctx.Err(); err != nil {
		return made, err
	}
	return s.find(ctx, made.key)
}
