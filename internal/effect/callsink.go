package effect

import (
	"bytes"
	"fmt"
	"io"
	"os"
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
	if err := l.output.replay(func(stream string, p []byte) { task.keep(stream, p) }); err != nil {
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

// spoolMemory is how much output a spool keeps in memory; what is more goes to a file.
const spoolMemory = 256 << 10

// spool keeps the output of a foreground call, which goes to the task's log if the call leaves the turn (BG13). It is
// not safe for concurrent use. The zero value is empty.
type spool struct {
	runs   []spoolRun
	memory []byte
	file   *os.File // has no name any more; nil: all is in memory
	failed error    // something was lost; nothing is kept after it
}

// spoolRun is output of one stream without a break.
type spoolRun struct {
	stream string
	n      int64
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
	} else if _, err := s.file.Write(p); err != nil {
		s.failed = fmt.Errorf("keep output: %w", err)
		return
	}
	if last := len(s.runs) - 1; last >= 0 && s.runs[last].stream == stream {
		s.runs[last].n += int64(len(p))
		return
	}
	s.runs = append(s.runs, spoolRun{stream: stream, n: int64(len(p))})
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
	if _, err := file.Write(s.memory); err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	s.memory = nil
	return nil
}

// replay tells everything in order, in pieces, and returns what went wrong while it was kept or read.
func (s *spool) replay(tell func(stream string, p []byte)) error {
	var from io.Reader = bytes.NewReader(s.memory)
	if s.file != nil {
		from = io.NewSectionReader(s.file, 0, 1<<62)
	}
	piece := make([]byte, 64<<10)
	for _, run := range s.runs {
		for left := run.n; left > 0; {
			n, err := io.ReadFull(from, piece[:min(left, int64(len(piece)))])
			if err != nil {
				return fmt.Errorf("read kept output: %w", err)
			}
			tell(run.stream, piece[:n])
			left -= int64(n)
		}
	}
	return s.failed
}

// drop forgets everything.
func (s *spool) drop() {
	if s.file != nil {
		_ = s.file.Close() // it has no name: nobody misses it
	}
	*s = spool{}
}
