package effect

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// callSink is the sink of a foreground call. Reports go to live watchers and are not stored. If the
// call leaves its turn, all output since its start goes to the task's log, and later reports go to
// the task. Safe for concurrent use.
type callSink struct {
	e         *Effects
	work      string // id of the call's work in the runner
	call      tool.Call
	buffering bool // the call may leave the turn, so reports are buffered

	mu        sync.Mutex
	output    spool              // guarded by mu
	last      []func(tool.Sink)  // guarded by mu; the latest status and progress, for the task
	artifacts []perdure.Artifact // guarded by mu
	task      *taskrun.Sink      // guarded by mu; nil in the foreground
}

// Indexes into callSink.last.
const (
	lastStatus = iota
	lastProgress
	lastReports
)

func (l *callSink) publish(kind string, data any) perdure.Cause {
	l.e.core.Runner.Touch(l.work)
	l.e.core.Activity(l.call.Session)
	l.e.core.Store.Publish(store.Frame{Session: l.call.Session, Type: kind, Data: data})
	return ""
}

// report publishes a report, or forwards it to the task. The latest report of each kind is buffered
// in case the call becomes a task.
func (l *callSink) report(kind int, show func() perdure.Cause, forward func(tool.Sink) perdure.Cause) perdure.Cause {
	l.mu.Lock()
	task := l.task
	if task == nil && l.buffering {
		if l.last == nil {
			l.last = make([]func(tool.Sink), lastReports)
		}
		l.last[kind] = func(s tool.Sink) { forward(s) }
	}
	l.mu.Unlock()
	if task != nil {
		return forward(task)
	}
	return show()
}

// Status publishes a status line.
func (l *callSink) Status(text string) perdure.Cause {
	return l.report(lastStatus, func() perdure.Cause {
		return l.publish("tool.progress", ToolProgress{CallID: l.call.ID, Name: l.call.Tool, Message: text})
	}, func(s tool.Sink) perdure.Cause { return s.Status(text) })
}

// Progress publishes how far the call is.
func (l *callSink) Progress(current, total float64, label string) perdure.Cause {
	return l.report(lastProgress, func() perdure.Cause {
		return l.publish("tool.progress", ToolProgress{CallID: l.call.ID, Name: l.call.Tool, Message: label,
			Current: current, Total: total})
	}, func(s tool.Sink) perdure.Cause { return s.Progress(current, total, label) })
}

// Output publishes a piece of output, and buffers it while the call may leave its turn.
func (l *callSink) Output(stream string, delta []byte) perdure.Cause {
	l.mu.Lock()
	task := l.task
	if task == nil {
		if l.buffering {
			l.output.write(stream, delta)
		}
		l.mu.Unlock()
		return l.publish("tool.output.delta", taskrun.ToolOutput{CallID: l.call.ID, Name: l.call.Tool, Stream: stream,
			Delta: string(delta)})
	}
	l.mu.Unlock()
	return task.Output(stream, delta)
}

// Skip reports that output is missing, and records the gap for the task's log.
func (l *callSink) Skip(n int64) perdure.Cause {
	l.mu.Lock()
	task := l.task
	if task == nil {
		if l.buffering {
			l.output.skip(n)
		}
		l.mu.Unlock()
		return l.publish("tool.output.delta", taskrun.ToolOutput{CallID: l.call.ID, Name: l.call.Tool, Stream: "system",
			Delta: taskrun.OmittedText(n)})
	}
	l.mu.Unlock()
	return task.Skip(n)
}

// Artifact buffers a name for the task. The artifacts of a foreground call are in its result.
func (l *callSink) Artifact(a perdure.Artifact) perdure.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.task != nil {
		return l.task.Artifact(a)
	}
	if l.buffering {
		l.artifacts = append(l.artifacts, a)
	}
	return ""
}

// Heartbeat resets the stall clock.
func (l *callSink) Heartbeat() perdure.Cause {
	l.e.core.Runner.Touch(l.work)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.task != nil {
		return l.task.Heartbeat()
	}
	return ""
}

// attachTask makes l the sink of a task. It first replays what was reported so far; reports made in
// the meantime wait.
func (l *callSink) attachTask(task *taskrun.Sink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.output.replay(func(stream string, p []byte) {
		task.AppendOutput(stream, p)
	}, func(n int64) { task.AddGap(n) }); err != nil {
		l.e.core.Log.Error("output from before the detach lost", "call", l.call.ID, "session", l.call.Session,
			"error", err)
		task.AppendOutput("system", []byte("some of the output before this line is lost\n"))
	}
	for _, forward := range l.last {
		if forward != nil {
			forward(task)
		}
	}
	for _, a := range l.artifacts {
		task.Artifact(a)
	}
	l.output.drop()
	l.last, l.artifacts, l.task = nil, nil, task
}

// close ends the sink of a call that has returned. The output of a task is written first.
func (l *callSink) close() {
	l.mu.Lock()
	task := l.task
	l.output.drop()
	l.buffering = false
	l.mu.Unlock()
	if task != nil {
		task.Close()
	}
}

// spoolMemory is how many bytes of output a spool keeps in memory. More goes to a file, which keeps
// as much as a task's log does.
const spoolMemory = 256 << 10

// spool buffers the output of a foreground call, which goes to the task's log if the call leaves
// its turn. Not safe for concurrent use. The zero value is empty.
type spool struct {
	runs   []spoolRun
	end    int64 // bytes written so far, without gaps
	memory []byte
	file   *os.File // already unlinked; nil: everything is in memory
	failed error    // why output was lost; nothing more is kept
}

// spoolRun is a stretch of output of one stream, or a gap.
type spoolRun struct {
	stream string
	n      int64
	at     int64 // position in the output
	skip   bool  // a gap: the output is missing
}

// write appends a piece of output.
func (s *spool) write(stream string, p []byte) {
	if s.failed != nil || len(p) == 0 {
		return
	}
	if s.file == nil && len(s.memory)+len(p) > spoolMemory {
		if s.failed = s.spill(); s.failed != nil {
			return
		}
	}
	if s.file == nil {
		s.memory = append(s.memory, p...)
	} else if s.failed = s.writeFile(p); s.failed != nil {
		return
	}
	if last := len(s.runs) - 1; last >= 0 && s.runs[last].stream == stream && !s.runs[last].skip {
		s.runs[last].n += int64(len(p))
	} else {
		s.runs = append(s.runs, spoolRun{stream: stream, n: int64(len(p)), at: s.end})
	}
	s.end += int64(len(p))
	s.rotate()
}

// writeFile appends to the file. Output beyond the head goes into a ring buffer.
func (s *spool) writeFile(p []byte) error {
	for at := s.end; len(p) > 0; {
		offset, contiguous := spoolOffset(at)
		n := min(int64(len(p)), contiguous)
		if _, err := s.file.WriteAt(p[:n], offset); err != nil {
			return fmt.Errorf("keep output: %w", err)
		}
		p, at = p[n:], at+n
	}
	return nil
}

// spoolOffset returns the offset of an output byte in the file, and how many bytes are contiguous
// from there.
func spoolOffset(at int64) (offset, contiguous int64) {
	if at < store.LogHeadBytes {
		return at, store.LogHeadBytes - at
	}
	in := (at - store.LogHeadBytes) % store.LogTailBytes
	return store.LogHeadBytes + in, store.LogTailBytes - in
}

// rotate marks output as missing that the ring buffer has overwritten.
func (s *spool) rotate() {
	overwritten := s.end - store.LogTailBytes
	for i := 0; i < len(s.runs) && overwritten > store.LogHeadBytes; i++ {
		r := s.runs[i]
		from, to := max(r.at, store.LogHeadBytes), min(r.at+r.n, overwritten)
		if r.at >= overwritten {
			return
		}
		if r.skip || to <= from {
			continue
		}
		parts := []spoolRun{{stream: r.stream, n: from - r.at, at: r.at}, {n: to - from, at: from, skip: true},
			{stream: r.stream, n: r.at + r.n - to, at: to}}
		parts = slices.DeleteFunc(parts, func(r spoolRun) bool { return r.n == 0 })
		s.runs = slices.Replace(s.runs, i, i+1, parts...)
		if i > 0 && s.runs[i].skip && s.runs[i-1].skip {
			s.runs[i-1].n += s.runs[i].n
			s.runs = slices.Delete(s.runs, i, i+1)
			i--
		}
	}
}

// skip records a gap.
func (s *spool) skip(n int64) {
	if s.failed != nil || n <= 0 {
		return
	}
	if last := len(s.runs) - 1; last >= 0 && s.runs[last].skip {
		s.runs[last].n += n
		return
	}
	s.runs = append(s.runs, spoolRun{n: n, at: s.end, skip: true})
}

// spill moves the buffered output to a file.
func (s *spool) spill() error {
	file, err := os.CreateTemp("", "perdure-output-")
	if err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	s.file = file
	if err := os.Remove(file.Name()); err != nil { // the file is freed with its descriptor, even after a crash
		return fmt.Errorf("keep output: %w", err)
	}
	if _, err := file.Write(s.memory); err != nil { // it is shorter than the head
		return fmt.Errorf("keep output: %w", err)
	}
	s.memory = nil
	return nil
}

// replay forwards everything to the two functions, in order and in pieces. It returns the error
// that occurred while output was written or read.
func (s *spool) replay(forward func(stream string, p []byte), missing func(n int64)) error {
	piece := make([]byte, 64<<10)
	for _, run := range s.runs {
		if run.skip {
			missing(run.n)
			continue
		}
		for at, left := run.at, run.n; left > 0; {
			n, err := s.read(piece[:min(left, int64(len(piece)))], at)
			if err != nil {
				return fmt.Errorf("read kept output: %w", err)
			}
			forward(run.stream, piece[:n])
			at, left = at+int64(n), left-int64(n)
		}
	}
	return s.failed
}

// read reads bytes from a position, at most as many as are contiguous.
func (s *spool) read(p []byte, at int64) (int, error) {
	if s.file == nil {
		return copy(p, s.memory[at:]), nil
	}
	offset, contiguous := spoolOffset(at)
	p = p[:min(int64(len(p)), contiguous)]
	_, err := s.file.ReadAt(p, offset)
	return len(p), err
}

// drop discards everything.
func (s *spool) drop() {
	if s.file != nil {
		_ = s.file.Close() // the file is unlinked already
	}
	*s = spool{}
}
