package modelwire

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/model"
)

const (
	// defaultFirst is how long the first content may take while a server shows signs of life. The
	// clients of the providers wait as long.
	defaultFirst = 10 * time.Minute
	// aliveEvery is how often a stream that waits reports itself. It is less than any useful stall
	// timeout.
	aliveEvery = 20 * time.Second
)

// Wait is how a stream takes part in the wait for its first content.
type Wait struct {
	began, silent atomic.Bool
	timer         *time.Timer
}

// Began records that content has arrived: text, thinking or a part of a call.
func (w *Wait) Began() {
	if !w.began.Swap(true) {
		w.timer.Stop()
	}
}

// AllowSilence records that the server sends nothing while it works on the answer.
func (w *Wait) AllowSilence() { w.silent.Store(true) }

// Stream makes a stream that ends soon after its context.
type Stream func(ctx context.Context, wait *Wait) iter.Seq2[model.Delta, error]

// FirstContent bounds the time to the first content of a stream, which otherwise a server could
// extend without end by keep-alives. Past the limit the stream ends with an error of code Stalled.
//
// limit 0 means 10 minutes. With a limit of its own, or if the stream allows silence, it reports
// an empty delta every 20 seconds until then, so that a server that is silent for so long is not
// taken for a stalled one.
func FirstContent(ctx context.Context, limit time.Duration, stream Stream) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		limited, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		most := cmp.Or(limit, defaultFirst)
		wait := &Wait{timer: time.AfterFunc(most, func() {
			cancel(&model.Error{Code: model.Stalled, Text: fmt.Sprintf(
				"no content for %s; the model option first_token_timeout allows more", most)})
		})}
		defer wait.timer.Stop()
		wait.silent.Store(limit > 0)
		reportAlive(stream(limited, wait), wait, cancel)(yield)
	}
}

// step is one step of a stream.
type step struct {
	d      model.Delta
	err    error
	ok     bool // false: the stream has ended
	broken any  // of a panic
}

// reportAlive yields an empty delta whenever the first content of a stream that allows silence
// takes another aliveEvery. cancel ends the stream.
func reportAlive(deltas iter.Seq2[model.Delta, error], wait *Wait,
	cancel context.CancelCauseFunc) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		next, stop := iter.Pull2(deltas)
		defer stop() // no step is running then
		tick := time.NewTicker(aliveEvery)
		defer tick.Stop()
		for !wait.began.Load() {
			steps := make(chan step, 1) // capacity 1: the step never waits for its reader
			go func() {
				var s step
				defer func() {
					s.broken = recover()
					steps <- s
				}()
				s.d, s.err, s.ok = next()
			}()
			s, ok := wait.step(steps, tick.C, yield)
			if !ok {
				cancel(nil)
				<-steps
				return
			}
			if s.broken != nil {
				panic(s.broken)
			}
			if !s.ok || !yield(s.d, s.err) {
				return
			}
		}
		for {
			d, err, ok := next()
			if !ok || !yield(d, err) {
				return
			}
		}
	}
}

// step waits for a step, and reports false if the reader of the stream has left.
func (w *Wait) step(steps <-chan step, tick <-chan time.Time, yield func(model.Delta, error) bool) (step, bool) {
	for {
		select {
		case s := <-steps:
			return s, true
		case <-tick:
			if w.silent.Load() && !yield(model.Delta{}, nil) {
				return step{}, false
			}
		}
	}
}
