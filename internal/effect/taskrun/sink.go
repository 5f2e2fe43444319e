package taskrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// ToolOutput is the frame that carries a piece of output. Offset and Bytes are its place in the
// output of all streams, which for a task is its log; for missing output they are those of the gap.
// A character that a piece cuts in two is in the Delta of the next one.
type ToolOutput struct {
	CallID perdure.CallID `json:"call_id,omitempty"`
	TaskID perdure.TaskID `json:"task_id,omitempty"`
	Name   string         `json:"name"`
	Stream string         `json:"stream"`
	Offset int64          `json:"offset"`
	Bytes  int64          `json:"bytes"`
	Delta  string         `json:"delta"`
}

// LiveFrame is the type of a frame that holds a TaskLive.
const LiveFrame = "task.live"

// TaskLive is the frame that shows how far a task is, after the values were written to its row.
type TaskLive struct {
	TaskID   perdure.TaskID    `json:"task_id"`
	CallID   perdure.CallID    `json:"call_id,omitempty"`
	Name     string            `json:"name"`
	Attempt  int               `json:"attempt"`
	Detail   string            `json:"state_detail,omitempty"`
	Progress *perdure.Progress `json:"progress,omitempty"`
	LogBytes int64             `json:"log_bytes"`
}

// ProgressOf returns progress as a tool reports it with numbers. A total of 0 is unknown.
func ProgressOf(current, total float64, label string) perdure.Progress {
	p := perdure.Progress{Current: &current, Label: label}
	if total != 0 {
		p.Total = &total
	}
	return p
}

const (
	sinkFlush    = 50 * time.Millisecond  // output is collected this long before it is written
	sinkProgress = 250 * time.Millisecond // progress updates the row at most this often
	statusChars  = 512
	tailChars    = 2_048   // length of the tail of output in the task's row
	sinkMax      = 1 << 20 // bytes of unwritten output; beyond this, Output blocks
)

// Sink is the sink of a task's attempt. Output is written to the log soon, in small batches.
// Progress and status overwrite the task's row; the latest value wins. Every write is fenced by the
// attempt, and a write that gets Lost ends the work. Safe for concurrent use.
//
// Silent work costs nothing: there is no goroutine, and a timer runs only while something is
// unwritten.
type Sink struct {
	tasks  *Tasks
	task   *perdure.Task // as of the start of the attempt; not changed
	logged int64         // length of the log when the attempt started
	end    int64         // only touched in a flush: length of the log after the last confirmed write

	mu      sync.Mutex
	flushed sync.Cond           // signalled when a flush has ended
	timer   *time.Timer         // guarded by mu; nil until the first report
	due     time.Time           // guarded by mu; when the timer fires; zero: it is not set
	busy    bool                // guarded by mu; a flush runs, and sets the timer when it ends
	closed  bool                // guarded by mu; nothing is accepted any more
	failed  bool                // guarded by mu; the last flush could not write
	output  []segment           // guarded by mu
	skip    int64               // guarded by mu; size of the gap before the next output
	offset  int64               // guarded by mu; bytes of output so far, gaps and earlier attempts included
	size    int                 // guarded by mu; bytes in output
	tail    lineLog             // guarded by mu; the end of the output, for people
	frames  Characters          // guarded by mu; of the output that is published
	update  *perdure.TaskUpdate // guarded by mu; unwritten changes of the row; nil: none
	rowAt   time.Time           // guarded by mu; when the row was last written
	cause   perdure.Cause       // guarded by mu; why the work should end
	named   []perdure.Artifact  // guarded by mu; all artifacts of the attempt: a write replaces the list
}

// init initialises a sink as NewSink does. It is called once, before any other method.
func (s *Sink) init(tasks *Tasks, t *perdure.Task, logged int64) {
	s.tasks, s.task, s.logged, s.end, s.flushed.L = tasks, t, logged, logged, &s.mu
	s.offset = logged
	s.tail.keepChars = tailChars
}

// arm sets the timer for unwritten data: output after sinkFlush, the row once sinkProgress has
// passed since its last write, and too much output at once. The caller holds mu.
func (s *Sink) arm() {
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
func (s *Sink) fire() {
	if !s.claimFlush() {
		return // close writes the rest, or the running flush sets the timer again
	}
	s.flush(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.arm()
	s.flushed.Broadcast()
}

// claimFlush claims the right to flush; one flush runs at a time.
func (s *Sink) claimFlush() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || s.closed {
		return false
	}
	s.busy, s.due = true, time.Time{}
	return true
}

// Close writes the rest, and returns when it is written. If the store cannot be reached, it retries
// while the runner runs. Reports that come after close are dropped.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed = true
	s.flushed.Broadcast() // wakes reports that are blocked although the tool has returned
	if s.timer != nil {
		s.timer.Stop()
	}
	for s.busy {
		s.flushed.Wait()
	}
	s.mu.Unlock()
	for attempt := 1; !s.flush(true); attempt++ {
		select {
		case <-time.After(perdure.RetryDelay(attempt, 0, string(s.task.ID)) / 10):
		case <-s.tasks.core.Runner.Done():
			return
		}
	}
}

// noOutput reports whether the work has returned and the task's log is empty, including the output
// of earlier attempts.
func (s *Sink) noOutput() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && !s.failed && s.logged == 0 && s.end == 0 && len(s.output) == 0
}

// flush writes the collected output in one commit, and also the changes of the row if last is set
// or it is time for them. It reports whether nothing is left; what could not be written is kept.
func (s *Sink) flush(last bool) bool {
	s.mu.Lock()
	w := pendingWrite{output: s.output, size: s.size, tail: s.tail.String()}
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
	defer s.flushed.Broadcast()
	if w.update != nil {
		s.rowAt = time.Now()
	}
	s.failed = err != nil && !s.superseded(err)
	if !s.failed {
		return true
	}
	s.output, s.size = append(w.output, s.output...), s.size+w.size
	s.update = mergeUpdates(w.update, s.update)
	return false
}

// write commits output and changes of the row. An earlier write may have been stored although it
// returned an error. Only this attempt writes to the log, so the current length of the log tells
// how much of the output is stored already; that part is not written again.
func (s *Sink) write(w pendingWrite) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	canceled := false
	var end int64
	var now perdure.Task
	err := s.tasks.core.Work.InTx(ctx, func(tx store.Tx) error {
		var update perdure.TaskUpdate
		if w.update != nil {
			update = *w.update
		}
		var err error
		if end, err = tx.Tasks().AppendLog(s.task.ID, s.task.Attempt, "", nil); err != nil {
			return err
		}
		for _, piece := range dropWritten(w.output, end-s.end) {
			if err := tx.Tasks().SkipLog(s.task.ID, s.task.Attempt, piece.skip); err != nil {
				return err
			}
			if _, err := tx.Tasks().AppendLog(s.task.ID, s.task.Attempt, piece.stream, piece.bytes); err != nil {
				return err
			}
			end += piece.skip + int64(len(piece.bytes))
		}
		update.Attempt, update.LogBytes, update.Tail = s.task.Attempt, end, w.tail
		change, err := s.tasks.records.Update(tx, *s.task, update)
		if err == nil && change.Answer == perdure.UpdateLost {
			err = perdure.Lost
		}
		canceled, now = change.CancelRequested, change.Task
		return err
	})
	if err != nil {
		return fmt.Errorf("write output of task %s: %w", s.task.ID, err)
	}
	s.end = end
	if w.update != nil && now.State.Live() {
		s.tasks.core.Store.Publish(store.Frame{Session: s.task.Session, Type: LiveFrame, Data: TaskLive{
			TaskID: now.ID, CallID: now.Call, Name: now.Tool, Attempt: now.Attempt, Detail: now.StateDetail,
			Progress: now.Progress, LogBytes: now.LogBytes,
		}})
	}
	if canceled { // work that writes often needs no separate check for cancels
		s.mu.Lock()
		s.cause = perdure.CauseCanceled
		s.mu.Unlock()
		s.tasks.records.StopWork(now)
	}
	return nil
}

// superseded reports whether a write failed for good because another attempt owns the task, and
// then ends the work. The caller holds mu.
func (s *Sink) superseded(err error) bool {
	if errors.Is(err, perdure.Lost) {
		s.cause = perdure.CauseSuperseded
		s.tasks.records.CancelWork(s.task.ID, perdure.CauseSuperseded)
		return true
	}
	s.tasks.core.Log.Warn("task output write retried", "task", s.task.ID, "error", err)
	return false
}

// updateRow changes fields of the row, which the next flush writes.
func (s *Sink) updateRow(change func(*perdure.TaskUpdate)) perdure.Cause {
	s.tasks.records.Touch(s.task.ID)
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

// Status sets the task's detail.
func (s *Sink) Status(text string) perdure.Cause {
	if runes := []rune(text); len(runes) > statusChars {
		text = string(runes[:statusChars])
	}
	return s.updateRow(func(u *perdure.TaskUpdate) { u.Detail = text })
}

// Progress sets how far the work is.
func (s *Sink) Progress(current, total float64, label string) perdure.Cause {
	return s.ReportProgress(ProgressOf(current, total, label))
}

// ReportProgress sets how far the work is. Progress that is not a number is no progress.
func (s *Sink) ReportProgress(p perdure.Progress) perdure.Cause {
	if !p.Finite() {
		return s.Heartbeat()
	}
	if p.Total != nil && *p.Total <= 0 {
		p.Total = nil
	}
	return s.updateRow(func(u *perdure.TaskUpdate) { u.Progress = &p })
}

// Output publishes output to live watchers and writes it to the log. It blocks while too much
// output is unwritten, so that memory stays bounded.
func (s *Sink) Output(stream string, delta []byte) perdure.Cause {
	if len(delta) == 0 {
		return ""
	}
	s.mu.Lock()
	text, offset := s.frames.Whole(stream, delta), s.offset
	s.offset += int64(len(delta))
	s.mu.Unlock()
	if text != "" {
		s.tasks.core.Store.Publish(store.Frame{Session: s.task.Session, Type: "tool.output.delta", Data: ToolOutput{
			TaskID: s.task.ID, Name: s.task.Tool, Stream: stream, Offset: offset, Bytes: int64(len(delta)), Delta: text,
		}})
	}
	return s.enqueue(stream, delta)
}

// ContinueFrames makes the next frame continue those that a foreground call has published.
func (s *Sink) ContinueFrames(published Characters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = published
}

// AppendOutput is Output without the frame.
func (s *Sink) AppendOutput(stream string, delta []byte) perdure.Cause {
	s.mu.Lock()
	s.offset += int64(len(delta))
	s.mu.Unlock()
	return s.enqueue(stream, delta)
}

func (s *Sink) enqueue(stream string, delta []byte) perdure.Cause {
	s.tasks.records.Touch(s.task.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size > sinkMax && s.cause == "" && !s.closed {
		s.flushed.Wait()
	}
	if s.closed {
		return s.cause
	}
	if last := len(s.output) - 1; last >= 0 && s.skip == 0 && s.output[last].stream == stream &&
		len(s.output[last].bytes)+len(delta) <= store.MaxLogChunkBytes {
		// A row in the log for each short line would cost more than the line.
		s.output[last].bytes = append(s.output[last].bytes, delta...)
	} else {
		s.output = append(s.output, segment{skip: s.skip, stream: stream, bytes: append([]byte(nil), delta...)})
	}
	s.skip = 0
	s.size += len(delta)
	s.tail.write(stream, delta)
	s.arm()
	return s.cause
}

// Skip adds a gap to the log, before the next output.
func (s *Sink) Skip(n int64) perdure.Cause {
	s.mu.Lock()
	offset := s.offset
	s.mu.Unlock()
	s.tasks.core.Store.Publish(store.Frame{Session: s.task.Session, Type: "tool.output.delta", Data: ToolOutput{
		TaskID: s.task.ID, Name: s.task.Tool, Stream: "system", Offset: offset, Bytes: max(n, 0), Delta: OmittedText(n),
	}})
	return s.AddGap(n)
}

// AddGap is Skip without the frame.
func (s *Sink) AddGap(n int64) perdure.Cause {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skip += max(n, 0)
	s.offset += max(n, 0)
	return s.cause
}

// Artifact records an artifact with the next flush.
func (s *Sink) Artifact(a perdure.Artifact) perdure.Cause {
	return s.updateRow(func(u *perdure.TaskUpdate) {
		s.named = append(s.named, a)
		u.Artifacts = slices.Clone(s.named)
	})
}

// Heartbeat resets the stall clock.
func (s *Sink) Heartbeat() perdure.Cause {
	s.tasks.records.Touch(s.task.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// segment is a piece of output of one stream.
type segment struct {
	skip   int64 // size of the gap before it
	stream string
	bytes  []byte
}

// NewSink returns a sink for an attempt whose log has the given length. close ends it.
func (ts *Tasks) NewSink(t perdure.Task, logged int64) *Sink {
	s := &Sink{}
	s.init(ts, &t, logged)
	return s
}

// mergeUpdates merges two updates, of which the second is newer. Either may be nil.
func mergeUpdates(first, second *perdure.TaskUpdate) *perdure.TaskUpdate {
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

// pendingWrite is what one flush writes.
type pendingWrite struct {
	output []segment
	tail   string
	size   int
	update *perdure.TaskUpdate // nil: nothing
}

// dropWritten drops the first n bytes of output, which the log has already. A segment that has
// grown since then is cut.
func dropWritten(output []segment, n int64) []segment {
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

// OmittedText is the text that replaces missing output for live watchers.
func OmittedText(n int64) string { return fmt.Sprintf("\n[... %d bytes left out ...]\n", n) }
