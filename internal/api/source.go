package api

import (
	"context"
	"sync"
)

// source is what several followers share. Its goroutine runs while there is a follower.
type source struct {
	stop context.CancelFunc
	gone chan struct{} // closed when the goroutine has returned

	mu    sync.Mutex
	wakes map[chan struct{}]bool // guarded by mu; of the followers
	ended bool                   // guarded by mu; nothing more will come
}

func (s *source) origin() *source { return s }

// isOver reports whether the source has ended.
func (s *source) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// wakeAll wakes all followers. The caller holds the mutex.
func (s *source) wakeAll() {
	for wake := range s.wakes {
		select {
		case wake <- struct{}{}:
		default: // a wake-up is already pending
		}
	}
}

// hasSource is implemented by types that embed a source.
type hasSource interface{ origin() *source }

// sources holds the running sources, one for each key, however many follow it (EV9). Safe for
// concurrent use.
type sources[K comparable, S hasSource] struct {
	mu   sync.Mutex
	open map[K]S // guarded by mu
}

// join adds a follower to the source of a key. wake receives a signal when there is something new;
// it must have a capacity of 1. If no source is running, begin creates one, and run is its
// goroutine. Every follower must call leave.
func (all *sources[K, S]) join(ctx context.Context, key K, wake chan struct{}, begin func() (s S, run func(context.Context))) S {
	all.mu.Lock()
	defer all.mu.Unlock()
	s, known := all.open[key]
	if !known || s.origin().isOver() {
		var run func(context.Context)
		s, run = begin()
		// The source outlives its first follower.
		following, stop := context.WithCancel(context.WithoutCancel(ctx))
		one := s.origin()
		one.stop, one.gone, one.wakes = stop, make(chan struct{}), map[chan struct{}]bool{}
		if all.open == nil {
			all.open = map[K]S{}
		}
		all.open[key] = s
		go func() {
			defer close(one.gone)
			run(following)
		}()
	}
	one := s.origin()
	one.mu.Lock()
	defer one.mu.Unlock()
	one.wakes[wake] = true
	return s
}

// leave undoes join. The last follower waits until the goroutine has returned.
func (all *sources[K, S]) leave(key K, s S, wake chan struct{}) {
	one := s.origin()
	all.mu.Lock()
	one.mu.Lock()
	delete(one.wakes, wake)
	last := len(one.wakes) == 0
	one.mu.Unlock()
	if held, known := all.open[key]; last && known && held.origin() == one {
		delete(all.open, key)
	}
	all.mu.Unlock()
	if last {
		one.stop()
		<-one.gone
	}
}
