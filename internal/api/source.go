package api

import (
	"context"
	"sync"
)

// source is what many follow who share one goroutine: it runs while somebody follows.
type source struct {
	stop context.CancelFunc
	gone chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex
	wakes map[chan struct{}]bool // guarded by mu: of those who follow
	ended bool                   // guarded by mu: nothing more comes of it
}

func (s *source) origin() *source { return s }

// over reports whether nothing more comes.
func (s *source) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// tell wakes all who follow. The lock is held.
func (s *source) tell() {
	for wake := range s.wakes {
		select {
		case wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// shared is what embeds a source.
type shared interface{ origin() *source }

// sources are those that are followed, each of them once, however many follow it (EV9). Safe for concurrent use.
type sources[K comparable, S shared] struct {
	mu   sync.Mutex
	open map[K]S // guarded by mu
}

// join follows the source of a key, and tells wake of news, which has a capacity of 1. Where there is none that runs, begin makes
// it, and run is its goroutine. Who joins leaves.
func (all *sources[K, S]) join(ctx context.Context, key K, wake chan struct{}, begin func() (s S, run func(context.Context))) S {
	all.mu.Lock()
	defer all.mu.Unlock()
	s, known := all.open[key]
	if !known || s.origin().over() {
		var run func(context.Context)
		s, run = begin()
		following, stop := context.WithCancel(context.WithoutCancel(ctx)) // it stays when who came first leaves
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

// leave ends what join began. The last one who leaves waits until the goroutine has ended.
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
