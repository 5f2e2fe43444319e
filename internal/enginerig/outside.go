package enginerig

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// entering limits the wait for a tool to be entered.
const entering = 30 * time.Second

// Outside is the outside world that tools reach. It is safe for concurrent use.
type Outside struct {
	mu       sync.Mutex
	effects  map[string][]string      // guarded by mu; keys by tool
	entered  map[string]int           // guarded by mu
	released map[string]chan struct{} // guarded by mu
	news     chan struct{}            // guarded by mu; closed and replaced whenever a tool is entered
}

// NewOutside creates a world without effects.
func NewOutside() *Outside {
	return &Outside{
		effects: map[string][]string{}, entered: map[string]int{}, released: map[string]chan struct{}{},
		news: make(chan struct{}),
	}
}

// Effects returns the keys of a tool's effects.
func (o *Outside) Effects(name string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.effects[name])
}

// Effect records one effect.
func (o *Outside) Effect(name, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.effects[name] = append(o.effects[name], key)
}

// Entered waits until a tool has been entered n times.
func (o *Outside) Entered(t *testing.T, name string, n int) {
	t.Helper()
	limit := time.After(entering)
	for {
		o.mu.Lock()
		got, news := o.entered[name], o.news
		o.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-news:
		case <-limit:
			t.Fatalf("%s was entered %d times, want %d", name, got, n)
		}
	}
}

// Release lets a tool end.
func (o *Outside) Release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open(name)
}

// ReleaseAll lets every entered tool end.
func (o *Outside) ReleaseAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.entered {
		o.open(name)
	}
}

// open is called with mu held.
func (o *Outside) open(name string) {
	select {
	case <-o.gate(name):
	default:
		close(o.gate(name))
	}
}

// gate is called with mu held.
func (o *Outside) gate(name string) chan struct{} {
	if o.released[name] == nil {
		o.released[name] = make(chan struct{})
	}
	return o.released[name]
}

// Hold waits until the tool is released or ctx ends.
func (o *Outside) Hold(ctx context.Context, name string) error {
	gate := o.enter(name)
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter records that a tool runs, and returns the channel that is closed when the tool may end.
func (o *Outside) enter(name string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entered[name]++
	close(o.news)
	o.news = make(chan struct{})
	return o.gate(name)
}
