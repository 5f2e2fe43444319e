package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// The limits of polling (M8).
const (
	pollBurst      = 20    // polls of one task without a delay
	maxPolledTasks = 4_096 // maximum number of tasks whose polling is tracked
	pollMemory     = time.Minute
)

// pollLimiter tracks how often tasks are polled. The response to a task that is polled faster than
// its poll interval is delayed. No poll is refused, and the end of the task is reported at once.
// The zero value is ready to use. Safe for concurrent use.
type pollLimiter struct {
	mu    sync.Mutex
	tasks map[perdure.CallKey]pollAllowance // guarded by mu
}

// pollAllowance is the remaining burst of a task.
type pollAllowance struct {
	left float64
	at   time.Time // when left was computed
}

// delayFor counts a poll and returns how long to delay its response. interval is the poll interval
// given to clients; polls at twice that rate are not delayed.
func (p *pollLimiter) delayFor(key perdure.CallKey, now time.Time, interval time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks == nil || len(p.tasks) >= maxPolledTasks {
		p.forget(now)
	}
	known, ok := p.tasks[key]
	if !ok {
		known = pollAllowance{left: pollBurst, at: now}
	}
	each := interval / 2
	known.left = min(pollBurst, known.left+float64(now.Sub(known.at))/float64(each)) - 1
	known.at = now
	known.left = max(known.left, -1) // concurrent polls are delayed no longer than a single one
	p.tasks[key] = known
	return max(0, time.Duration(-known.left*float64(each)))
}

// forget removes tasks that were not polled for a while, or all if that is not enough. The caller
// holds mu.
func (p *pollLimiter) forget(now time.Time) {
	kept := map[perdure.CallKey]pollAllowance{}
	for key, known := range p.tasks {
		if now.Sub(known.at) < pollMemory {
			kept[key] = known
		}
	}
	if len(kept) >= maxPolledTasks {
		clear(kept)
	}
	p.tasks = kept
}

// delayPoll delays the response to a poll that comes too early, until its time or until the task
// changes.
func (s *Server) delayPoll(ctx context.Context, made trackedCall) (trackedCall, error) {
	task := *made.Task
	if task.State.Terminal() {
		return made, nil
	}
	interval := time.Duration(pollInterval(time.Since(task.CreatedAt))) * time.Millisecond
	held := s.polls.delayFor(made.key, time.Now(), interval)
	if held <= 0 {
		return made, nil
	}
	waiting, cancel := context.WithTimeout(ctx, held)
	defer cancel()
	if task.AwaitsInput() {
		<-waiting.Done()
	} else if _, err := s.cfg.Engine.Tasks().Wait(waiting, task.ID); err != nil && waiting.Err() == nil {
		return made, err
	}
	if err := ctx.Err(); err != nil {
		return made, err
	}
	return s.find(ctx, made.key)
}
