package effect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const (
	sinkFlush    = 50 * time.Millisecond  // output waits this long for more of it
	sinkProgress = 250 * time.Millisecond // progress overwrites the row at most this often (TK10)
	statusChars  = 512
	sinkMax      = 1 << 20 // bytes of output that wait; a writer that is faster waits for the store
)

// taskSink is the sink of a task's attempt. Output is written as it comes, in small batches; progress and
// status overwrite the row, the latest wins. Every write is fenced by the attempt; one that is answered
// Lost ends the work (TK6). Safe for concurrent use.
type taskSink struct {
	e    *Effects
	task perdure.Task
	quit chan struct{}
	done chan struct{}
	kick chan struct{} // capacity 1: a wish to flush now

	mu     sync.Mutex
	room   *sync.Cond         // signalled when a flush made room
	output []segment          // guarded by mu
	size   int                // guarded by mu; bytes in output
	update perdure.TaskUpdate // guarded by mu; what waits for the row
	dirty  bool               // guarded by mu
	rowAt  time.Time          // guarded by mu; when the row was written last
	cause  perdure.Cause      // guarded by mu; why the work should end
	end    int64              // only touched in loop: length of the log as of the last write that was answered
}

// segment is one piece of output as the tool reported it.
type segment struct {
	stream string
	bytes  []byte
}

// newTaskSink starts a sink for an attempt whose log has logged bytes. close ends it.
func newTaskSink(e *Effects, t perdure.Task, logged int64) *taskSink {
	s := &taskSink{e: e, task: t, quit: make(chan struct{}), done: make(chan struct{}), kick: make(chan struct{}, 1), end: logged}
	s.room = sync.NewCond(&s.mu)
	go s.loop()
	return s
}

// loop writes what waits, until close.
func (s *taskSink) loop() {
	defer close(s.done)
	tick := time.NewTicker(sinkFlush)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			s.last()
			return
		case <-s.kick:
			s.flush(false)
		case <-tick.C:
			s.flush(false)
		}
	}
}

// last writes the rest. A store that cannot be reached is asked again while the runtime lives.
func (s *taskSink) last() {
	for attempt := 1; !s.flush(true); attempt++ {
		select {
		case <-time.After(perdure.RetryDelay(attempt, 0, string(s.task.ID)) / 10):
		case <-s.e.cfg.Dispatcher.Done():
			return
		}
	}
}

// close writes the rest and returns when it is written.
func (s *taskSink) close() {
	close(s.quit)
	<-s.done
}

// flush writes the output that waits, and with last or when it is time the row's live fields, in one commit.
// It reports whether nothing is left to write; what was not written is kept.
func (s *taskSink) flush(last bool) bool {
	s.mu.Lock()
	w := waiting{output: s.output, size: s.size}
	if s.dirty && (last || time.Since(s.rowAt) >= sinkProgress) {
		w.update, w.dirty = s.update, true
		s.update, s.dirty = perdure.TaskUpdate{}, false
	}
	s.output, s.size = nil, 0
	lost := s.cause == perdure.CauseSuperseded
	s.mu.Unlock()
	if lost || len(w.output) == 0 && !w.dirty {
		return true
	}
	err := s.write(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.room.Broadcast()
	if w.dirty {
		s.rowAt = time.Now()
	}
	if err == nil || s.failed(err) {
		return true
	}
	s.output, s.size = append(w.output, s.output...), s.size+w.size
	if w.dirty && !s.dirty {
		s.update, s.dirty = w.update, true
	}
	return false
}

// waiting is what one flush writes.
type waiting struct {
	output []segment
	size   int
	update perdure.TaskUpdate
	dirty  bool
}

// write commits output and live fields. Output whose commit was answered with an error, and is in the log all
// the same, is not written again: nobody else writes under this attempt.
func (s *taskSink) write(w waiting) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	canceled := false
	var end int64
	err := s.e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		update := w.update
		var err error
		if end, err = tx.AppendLog(s.task.ID, s.task.Attempt, "", nil); err != nil {
			return err
		}
		for _, piece := range beyond(w.output, end-s.end) {
			if _, err := tx.AppendLog(s.task.ID, s.task.Attempt, piece.stream, piece.bytes); err != nil {
				return err
			}
			end += int64(len(piece.bytes))
		}
		update.Attempt, update.LogBytes = s.task.Attempt, end
		change, err := s.e.updateTask(tx, s.task, update)
		if err == nil && change.Answer == perdure.UpdateLost {
			err = perdure.Lost
		}
		canceled = change.Canceled
		return err
	})
	if err != nil {
		return fmt.Errorf("write output of task %s: %w", s.task.ID, err)
	}
	s.end = end
	if canceled { // TK7: no poll is needed while work is chatty
		s.mu.Lock()
		s.cause = perdure.CauseCanceled
		s.mu.Unlock()
		s.e.cfg.Dispatcher.Cancel(string(s.task.ID), perdure.CauseCanceled)
	}
	return nil
}

// beyond drops the first n bytes of output: they are in the log already.
func beyond(output []segment, n int64) []segment {
	for len(output) > 0 && n >= int64(len(output[0].bytes)) {
		n -= int64(len(output[0].bytes))
		output = output[1:]
	}
	return output
}

// failed reports whether a failure is final, because another attempt has the task: then the work ends.
// It is called with mu held.
func (s *taskSink) failed(err error) bool {
	if errors.Is(err, perdure.Lost) {
		s.cause = perdure.CauseSuperseded
		s.e.cfg.Dispatcher.Cancel(string(s.task.ID), perdure.CauseSuperseded)
		return true
	}
	s.e.cfg.Log.Warn("a task's output is written again", "task", s.task.ID, "error", err)
	return false
}

// note keeps live fields for the next flush.
func (s *taskSink) note(change func(*perdure.TaskUpdate)) perdure.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.update)
	s.dirty = true
	return s.cause
}

// Status keeps the line for the task's detail.
func (s *taskSink) Status(text string) perdure.Cause {
	if runes := []rune(text); len(runes) > statusChars {
		text = string(runes[:statusChars])
	}
	return s.note(func(u *perdure.TaskUpdate) { u.Detail = text })
}

// Progress keeps how far the work is.
func (s *taskSink) Progress(current, total float64, label string) perdure.Cause {
	p := &perdure.Progress{Current: &current, Label: label}
	if total > 0 {
		p.Total = &total
	}
	return s.note(func(u *perdure.TaskUpdate) { u.Progress = p })
}

// Output writes a piece of output to the log, and shows it to live watchers. It waits while too much of it
// has not been written yet, so that memory stays bounded.
func (s *taskSink) Output(stream string, delta []byte) perdure.Cause {
	if len(delta) == 0 {
		return ""
	}
	s.e.cfg.Store.Publish(store.Frame{Session: s.task.Session, Type: "tool.output.delta", Data: ToolOutput{
		TaskID: s.task.ID, Name: s.task.Tool, Stream: stream, Delta: string(delta),
	}})
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size > sinkMax && s.cause == "" {
		s.push()
		s.room.Wait()
	}
	s.output = append(s.output, segment{stream: stream, bytes: append([]byte(nil), delta...)})
	s.size += len(delta)
	return s.cause
}

// push asks for a flush at once.
func (s *taskSink) push() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Artifact records a result file with the next flush.
func (s *taskSink) Artifact(a perdure.Artifact) perdure.Cause {
	return s.note(func(u *perdure.TaskUpdate) { u.Artifacts = append(u.Artifacts, a) })
}

// Heartbeat is for the stall clock, which no tool has by default.
func (s *taskSink) Heartbeat() perdure.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}
