package effect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const (
	sinkFlush    = 50 * time.Millisecond  // output waits this long for more of it
	sinkProgress = 250 * time.Millisecond // progress overwrites the row at most this often (TK10)
	statusChars  = 512
	tailChars    = 2_048   // of output that stand on the task (BG12)
	sinkMax      = 1 << 20 // bytes of output that wait; a writer that is faster waits for the store
)

// taskSink is the sink of a task's attempt. Output is written as it comes, in small batches; progress and
// status overwrite the row, the latest wins. Every write is fenced by the attempt; one that is answered
// Lost ends the work (TK6). Safe for concurrent use.
//
// Work that reports nothing costs nothing: a timer runs only while something waits to be written, and there is no goroutine.
type taskSink struct {
	e      *Effects
	task   *perdure.Task // as the attempt began; not changed
	logged int64         // length of the log when the attempt began
	end    int64         // only touched in a flush: length of the log as of the last write that was answered

	mu     sync.Mutex
	room   sync.Cond           // signalled when a flush has ended
	timer  *time.Timer         // guarded by mu; nil until the first report
	due    time.Time           // guarded by mu; when the timer fires; zero: it does not
	busy   bool                // guarded by mu; a flush is under way, and sets the timer when it ends
	closed bool                // guarded by mu; nothing is taken any more
	failed bool                // guarded by mu; the last flush could not write
	output []segment           // guarded by mu
	skip   int64               // guarded by mu; output that is missing before what comes next
	size   int                 // guarded by mu; bytes in output
	tail   string              // guarded by mu; the end of the output, as people read it
	update *perdure.TaskUpdate // guarded by mu; what waits for the row; nil: nothing
	rowAt  time.Time           // guarded by mu; when the row was written last
	cause  perdure.Cause       // guarded by mu; why the work should end
	named  []perdure.Artifact  // guarded by mu; all that the attempt named: a write replaces the list
}

// segment is a piece of output of one stream.
type segment struct {
	skip   int64 // bytes that are missing before it
	stream string
	bytes  []byte
}

// newTaskSink makes a sink for an attempt whose log has logged bytes. close ends it.
func newTaskSink(e *Effects, t perdure.Task, logged int64) *taskSink {
	s := &taskSink{}
	s.init(e, &t, logged)
	return s
}

// init makes s a sink as newTaskSink does. It is called once, before anything else.
func (s *taskSink) init(e *Effects, t *perdure.Task, logged int64) {
	s.e, s.task, s.logged, s.end, s.room.L = e, t, logged, logged, &s.mu
}

// arm sets the timer for what waits: output within sinkFlush, the row when sinkProgress has passed since it was written,
// and what is too much at once. It is called with mu held.
func (s *taskSink) arm() {
	if s.busy || s.closed || len(s.output) == 0 && s.update == nil {
		return
	}
	now := time.Now()
	due := now.Add(sinkFlush)
	if s.size > sinkMax && !s.failed {
		due = now
	}
	if next := s.rowAt.Add(sinkProgress); len(s.output) == 0 && next.After(due) {
		due = next
	}
	if !s.due.IsZero() && !due.Before(s.due) {
		return // it fires soon enough
	}
	s.due = due
	if s.timer == nil {
		s.timer = time.AfterFunc(due.Sub(now), s.fire)
		return
	}
	s.timer.Reset(due.Sub(now))
}

// fire flushes, in the timer's goroutine.
func (s *taskSink) fire() {
	if !s.begin() {
		return // close writes the rest, or the flush under way sets the timer again
	}
	s.flush(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.arm()
	s.room.Broadcast()
}

// begin claims the one flush at a time.
func (s *taskSink) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.closed {
		return false
	}
	s.busy, s.due = true, time.Time{}
	return true
}

// close writes the rest and returns when it is written. A store that cannot be reached is asked again while the runtime
// lives. What a tool reports after its end is thrown away.
func (s *taskSink) close() {
	s.mu.Lock()
	s.closed = true
	s.room.Broadcast() // to a tool that reports and has returned all the same
	if s.timer != nil {
		s.timer.Stop()
	}
	for s.busy {
		s.room.Wait()
	}
	s.mu.Unlock()
	for attempt := 1; !s.flush(true); attempt++ {
		select {
		case <-time.After(perdure.RetryDelay(attempt, 0, string(s.task.ID)) / 10):
		case <-s.e.cfg.Runner.Done():
			return
		}
	}
}

// silent reports whether the work has returned and nothing stands in the task's log, neither from this attempt nor from an earlier one.
func (s *taskSink) silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && !s.failed && s.logged == 0 && s.end == 0 && len(s.output) == 0
}

// flush writes the output that waits, and with last or when it is time the row's live fields, in one commit.
// It reports whether nothing is left to write; what was not written is kept.
func (s *taskSink) flush(last bool) bool {
	s.mu.Lock()
	w := waiting{output: s.output, size: s.size, tail: s.tail}
	if s.update != nil && (last || time.Since(s.rowAt) >= sinkProgress) {
		w.update, s.update = s.update, nil
	}
	s.output, s.size = nil, 0
	lost := s.cause == perdure.CauseSuperseded
	s.mu.Unlock()
	if lost || len(w.output) == 0 && w.update == nil {
		return true
	}
	err := s.write(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.room.Broadcast()
	if w.update != nil {
		s.rowAt = time.Now()
	}
	s.failed = err != nil && !s.superseded(err)
	if !s.failed {
		return true
	}
	s.output, s.size = append(w.output, s.output...), s.size+w.size
	s.update = latest(w.update, s.update)
	return false
}

// latest is what two updates come to of which the second was noted later. Either may be nil.
func latest(first, second *perdure.TaskUpdate) *perdure.TaskUpdate {
	if first == nil || second == nil {
		return cmp.Or(first, second)
	}
	u := *second
	u.Detail = cmp.Or(second.Detail, first.Detail)
	u.Progress = cmp.Or(second.Progress, first.Progress)
	if u.Artifacts == nil {
		u.Artifacts = first.Artifacts
	}
	return &u
}

// waiting is what one flush writes.
type waiting struct {
	output []segment
	tail   string
	size   int
	update *perdure.TaskUpdate // nil: nothing
}

// write commits output and live fields. Output whose commit was answered with an error, and is in the log all
// the same, is not written again: nobody else writes under this attempt.
func (s *taskSink) write(w waiting) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	canceled := false
	var end int64
	err := s.e.work.InTx(ctx, func(tx store.Tx) error {
		var update perdure.TaskUpdate
		if w.update != nil {
			update = *w.update
		}
		var err error
		if end, err = tx.AppendLog(s.task.ID, s.task.Attempt, "", nil); err != nil {
			return err
		}
		for _, piece := range beyond(w.output, end-s.end) {
			if err := tx.SkipLog(s.task.ID, s.task.Attempt, piece.skip); err != nil {
				return err
			}
			if _, err := tx.AppendLog(s.task.ID, s.task.Attempt, piece.stream, piece.bytes); err != nil {
				return err
			}
			end += piece.skip + int64(len(piece.bytes))
		}
		update.Attempt, update.LogBytes, update.Tail = s.task.Attempt, end, w.tail
		change, err := s.e.updateTask(tx, *s.task, update)
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
		s.e.cancelWork(s.task.ID, perdure.CauseCanceled)
	}
	return nil
}

// beyond drops the first n bytes of output: they are in the log already. A piece that has grown since then is cut.
func beyond(output []segment, n int64) []segment {
	for len(output) > 0 && n >= output[0].skip+int64(len(output[0].bytes)) {
		n -= output[0].skip + int64(len(output[0].bytes))
		output = output[1:]
	}
	if n <= 0 || len(output) == 0 {
		return output
	}
	first := output[0]
	skipped := min(n, first.skip)
	first.skip, first.bytes = first.skip-skipped, first.bytes[n-skipped:]
	return append([]segment{first}, output[1:]...)
}

// superseded reports whether a failure is final, because another attempt has the task: then the work ends.
// It is called with mu held.
func (s *taskSink) superseded(err error) bool {
	if errors.Is(err, perdure.Lost) {
		s.cause = perdure.CauseSuperseded
		s.e.cancelWork(s.task.ID, perdure.CauseSuperseded)
		return true
	}
	s.e.cfg.Log.Warn("a task's output is written again", "task", s.task.ID, "error", err)
	return false
}

// note keeps live fields for the next flush.
func (s *taskSink) note(change func(*perdure.TaskUpdate)) perdure.Cause {
	s.e.touch(s.task.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.cause
	}
	if s.update == nil {
		s.update = &perdure.TaskUpdate{}
	}
	change(s.update)
	s.arm()
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
	return s.keep(stream, delta)
}

// keep is Output without the live frame.
func (s *taskSink) keep(stream string, delta []byte) perdure.Cause {
	s.e.touch(s.task.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size > sinkMax && s.cause == "" && !s.closed {
		s.room.Wait()
	}
	if s.closed {
		return s.cause
	}
	if last := len(s.output) - 1; last >= 0 && s.skip == 0 && s.output[last].stream == stream && len(s.output[last].bytes)+len(delta) <= store.MaxLogChunkBytes {
		s.output[last].bytes = append(s.output[last].bytes, delta...) // a row of the log for each short line would cost more than the line
	} else {
		s.output = append(s.output, segment{skip: s.skip, stream: stream, bytes: append([]byte(nil), delta...)})
	}
	s.skip = 0
	s.size += len(delta)
	s.tail = tailOf(s.tail, stream, delta)
	s.arm()
	return s.cause
}

// Skip makes the log longer by what is missing, as soon as something comes behind it.
func (s *taskSink) Skip(n int64) perdure.Cause {
	s.e.cfg.Store.Publish(store.Frame{Session: s.task.Session, Type: "tool.output.delta", Data: ToolOutput{
		TaskID: s.task.ID, Name: s.task.Tool, Stream: "system", Delta: leftOut(n),
	}})
	return s.miss(n)
}

// miss is Skip without the live frame.
func (s *taskSink) miss(n int64) perdure.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skip += max(n, 0)
	return s.cause
}

// leftOut is what watchers are told of output that is missing.
func leftOut(n int64) string { return fmt.Sprintf("\n[... %d bytes left out ...]\n", n) }

// tailOf is the end of some output after one more piece of it.
func tailOf(tail, stream string, delta []byte) string {
	if most := tailChars * utf8.UTFMax; len(delta) > most {
		delta = delta[len(delta)-most:]
	}
	text := []rune(tail + "[" + stream + "] " + strings.ToValidUTF8(string(delta), "\uFFFD"))
	return string(text[max(len(text)-tailChars, 0):])
}

// Artifact records a result file with the next flush.
func (s *taskSink) Artifact(a perdure.Artifact) perdure.Cause {
	return s.note(func(u *perdure.TaskUpdate) {
		s.named = append(s.named, a)
		u.Artifacts = slices.Clone(s.named)
	})
}

// Heartbeat is for the stall clock, which no tool has by default.
func (s *taskSink) Heartbeat() perdure.Cause {
	s.e.touch(s.task.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}
