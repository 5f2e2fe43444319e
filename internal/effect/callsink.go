package effect

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// callSink is the sink of a foreground call: what it reports goes to live watchers and is not stored (EV6). When the call
// leaves the turn, all its output goes to the task's log, from its start (BG13), and so does what it reports from then on.
// Safe for concurrent use.
type callSink struct {
	e    *Effects
	work string // its work in the runner
	call tool.Call
	keep bool // the call may leave the turn

	mu     sync.Mutex
	output spool              // guarded by mu
	last   []func(tool.Sink)  // guarded by mu; the latest status and progress, to be told to the task
	named  []perdure.Artifact // guarded by mu
	task   *taskSink          // guarded by mu; nil in the foreground
}

// The places of the latest reports in callSink.last.
const (
	lastStatus = iota
	lastProgress
	lastReports
)

func (l *callSink) publish(kind string, data any) perdure.Cause {
	l.e.cfg.Runner.Touch(l.work)
	l.e.cfg.Sign(l.call.Session)
	l.e.cfg.Store.Publish(store.Frame{Session: l.call.Session, Type: kind, Data: data})
	return ""
}

// report shows a report, or hands it to the task. The latest one of its kind is kept for that.
func (l *callSink) report(kind int, show func() perdure.Cause, tell func(tool.Sink) perdure.Cause) perdure.Cause {
	l.mu.Lock()
	task := l.task
	if task == nil && l.keep {
		if l.last == nil {
			l.last = make([]func(tool.Sink), lastReports)
		}
		l.last[kind] = func(s tool.Sink) { tell(s) }
	}
	l.mu.Unlock()
	if task != nil {
		return tell(task)
	}
	return show()
}

// Status shows a line.
func (l *callSink) Status(text string) perdure.Cause {
	return l.report(lastStatus, func() perdure.Cause {
		return l.publish("tool.progress", ToolProgress{CallID: l.call.ID, Name: l.call.Tool, Message: text})
	}, func(s tool.Sink) perdure.Cause { return s.Status(text) })
}

// Progress shows how far the call is.
func (l *callSink) Progress(current, total float64, label string) perdure.Cause {
	return l.report(lastProgress, func() perdure.Cause {
		return l.publish("tool.progress", ToolProgress{CallID: l.call.ID, Name: l.call.Tool, Message: label, Current: current, Total: total})
	}, func(s tool.Sink) perdure.Cause { return s.Progress(current, total, label) })
}

// Output shows a piece of output, and keeps it while the call may leave the turn.
func (l *callSink) Output(stream string, delta []byte) perdure.Cause {
	l.mu.Lock()
	task := l.task
	if task == nil {
		if l.keep {
			l.output.write(stream, delta)
		}
		l.mu.Unlock()
		return l.publish("tool.output.delta", ToolOutput{CallID: l.call.ID, Name: l.call.Tool, Stream: stream, Delta: string(delta)})
	}
	l.mu.Unlock()
	return task.Output(stream, delta)
}

// Skip shows that output is missing, and notes it for the task's log.
func (l *callSink) Skip(n int64) perdure.Cause {
	l.mu.Lock()
	task := l.task
	if task == nil {
		if l.keep {
			l.output.skip(n)
		}
		l.mu.Unlock()
		return l.publish("tool.output.delta", ToolOutput{CallID: l.call.ID, Name: l.call.Tool, Stream: "system", Delta: leftOut(n)})
	}
	l.mu.Unlock()
	return task.Skip(n)
}

// Artifact keeps a name for the task; a foreground call's artifacts are in its result.
func (l *callSink) Artifact(a perdure.Artifact) perdure.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.task != nil {
		return l.task.Artifact(a)
	}
	if l.keep {
		l.named = append(l.named, a)
	}
	return ""
}

// Heartbeat is a sign of life.
func (l *callSink) Heartbeat() perdure.Cause {
	l.e.cfg.Runner.Touch(l.work)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.task != nil {
		return l.task.Heartbeat()
	}
	return ""
}

// become makes l the sink of a task: first what came before is told to it, and who reports meanwhile waits.
func (l *callSink) become(task *taskSink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.output.replay(func(stream string, p []byte) { task.keep(stream, p) }, func(n int64) { task.miss(n) }); err != nil {
		l.e.cfg.Log.Error("output from before a call left its turn is lost", "call", l.call.ID, "session", l.call.Session, "error", err)
		task.keep("system", []byte("some of the output before this is lost\n"))
	}
	for _, tell := range l.last {
		if tell != nil {
			tell(task)
		}
	}
	for _, a := range l.named {
		task.Artifact(a)
	}
	l.output.drop()
	l.last, l.named, l.task = nil, nil, task
}

// close ends the sink of a call that has returned: a task's output is written.
func (l *callSink) close() {
	l.mu.Lock()
	task := l.task
	l.output.drop()
	l.keep = false
	l.mu.Unlock()
	if task != nil {
		task.close()
	}
}

// spoolMemory is how much output a spool keeps in memory; what is more goes to a file, and of that no more is kept than of a log.
const spoolMemory = 256 << 10

// spool keeps the output of a foreground call, which goes to the task's log if the call leaves the turn (BG13). It is
// not safe for concurrent use. The zero value is empty.
type spool struct {
	runs   []spoolRun
	end    int64 // of what is kept, missing bytes not counted
	memory []byte
	file   *os.File // has no name any more; nil: all is in memory
	failed error    // something was lost; nothing is kept after it
}

// spoolRun is output of one stream without a break.
type spoolRun struct {
	stream string
	n      int64
	at     int64 // where it stands in the file
	skip   bool  // it stands nowhere: it is missing
}

// write keeps a piece of output.
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

// writeFile adds to the file. What comes behind the beginning of a long output goes round in a ring.
func (s *spool) writeFile(p []byte) error {
	for at := s.end; len(p) > 0; {
		place, room := spoolPlace(at)
		n := min(int64(len(p)), room)
		if _, err := s.file.WriteAt(p[:n], place); err != nil {
			return fmt.Errorf("keep output: %w", err)
		}
		p, at = p[n:], at+n
	}
	return nil
}

// spoolPlace is where a byte of the output stands in the file, and how many stand behind one another from there.
func spoolPlace(at int64) (place, room int64) {
	if at < store.LogHeadBytes {
		return at, store.LogHeadBytes - at
	}
	in := (at - store.LogHeadBytes) % store.LogTailBytes
	return store.LogHeadBytes + in, store.LogTailBytes - in
}

// rotate makes missing what the ring has no place for any more.
func (s *spool) rotate() {
	gone := s.end - store.LogTailBytes
	for i := 0; i < len(s.runs) && gone > store.LogHeadBytes; i++ {
		r := s.runs[i]
		from, to := max(r.at, store.LogHeadBytes), min(r.at+r.n, gone)
		if r.at >= gone {
			return
		}
		if r.skip || to <= from {
			continue
		}
		parts := []spoolRun{{stream: r.stream, n: from - r.at, at: r.at}, {n: to - from, at: from, skip: true}, {stream: r.stream, n: r.at + r.n - to, at: to}}
		parts = slices.DeleteFunc(parts, func(r spoolRun) bool { return r.n == 0 })
		s.runs = slices.Replace(s.runs, i, i+1, parts...)
		if i > 0 && s.runs[i].skip && s.runs[i-1].skip {
			s.runs[i-1].n += s.runs[i].n
			s.runs = slices.Delete(s.runs, i, i+1)
			i--
		}
	}
}

// skip notes that output is missing.
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

// spill moves what is kept to a file.
func (s *spool) spill() error {
	file, err := os.CreateTemp("", "perdure-output-")
	if err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	s.file = file
	if err := os.Remove(file.Name()); err != nil { // it goes with its descriptor, also after a crash
		return fmt.Errorf("keep output: %w", err)
	}
	if _, err := file.Write(s.memory); err != nil { // which is shorter than a beginning
		return fmt.Errorf("keep output: %w", err)
	}
	s.memory = nil
	return nil
}

// replay tells everything in order, in pieces, and returns what went wrong while it was kept or read.
func (s *spool) replay(tell func(stream string, p []byte), missing func(n int64)) error {
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
			tell(run.stream, piece[:n])
			at, left = at+int64(n), left-int64(n)
		}
	}
	return s.failed
}

// read reads kept bytes from a place on, at most as many as stand behind one another.
func (s *spool) read(p []byte, at int64) (int, error) {
	if s.file == nil {
		return copy(p, s.memory[at:]), nil
	}
	place, room := spoolPlace(at)
	p = p[:min(int64(len(p)), room)]
	_, err := s.file.ReadAt(p, place)
	return len(p), err
}

// drop forgets everything.
func (s *spool) drop() {
	if s.file != nil {
		_ = s.file.Close() // it has no name: nobody misses it
	}
	*s = spool{}
}
