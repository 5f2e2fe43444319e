package foreground

import (
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// ToolProgress is the frame that reports the progress or the status of a foreground call.
type ToolProgress struct {
	CallID  perdure.CallID `json:"call_id"`
	Name    string         `json:"name"`
	Message string         `json:"message,omitempty"`
	Current *float64       `json:"current,omitempty"`
	Total   *float64       `json:"total,omitempty"`
	Unit    string         `json:"unit,omitempty"`
}

// callSink is the sink of a foreground call. Reports go to live watchers and are not stored. If the
// call leaves its turn, all output since its start goes to the task's log, and later reports go to
// the task. Safe for concurrent use.
type callSink struct {
	calls     *Calls
	work      string // id of the call's work in the runner
	call      tool.Call
	buffering bool // the call may leave the turn, so reports are buffered

	mu        sync.Mutex
	output    spool              // guarded by mu
	offset    int64              // guarded by mu; bytes of output so far, gaps included
	frames    taskrun.Characters // guarded by mu; of the output that is published
	last      []func(tool.Sink)  // guarded by mu; the latest status and progress, for the task
	artifacts []perdure.Artifact // guarded by mu
	task      *taskrun.Sink      // guarded by mu; nil in the foreground
}

func (l *callSink) publish(kind string, data any) perdure.Cause {
	l.touch()
	l.calls.core.Store.Publish(store.Frame{Session: l.call.Session, Type: kind, Data: data})
	return ""
}

// touch notes that the call is active.
func (l *callSink) touch() {
	l.calls.core.Runner.Touch(l.work)
	l.calls.core.ReportActivity(l.call.Session)
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
	return l.ReportProgress(taskrun.ProgressOf(current, total, label))
}

// ReportProgress publishes how far the call is. Progress that is not a number is no progress.
func (l *callSink) ReportProgress(p perdure.Progress) perdure.Cause {
	return l.report(lastProgress, func() perdure.Cause {
		if !p.Finite() {
			return l.Heartbeat()
		}
		return l.publish("tool.progress", ToolProgress{CallID: l.call.ID, Name: l.call.Tool, Message: p.Label,
			Current: p.Current, Total: p.Total, Unit: p.Unit})
	}, func(s tool.Sink) perdure.Cause { return tool.ReportProgress(s, p) })
}

// Output publishes a piece of output, and buffers it while the call may leave its turn.
func (l *callSink) Output(stream string, delta []byte) perdure.Cause {
	l.mu.Lock()
	task := l.task
	if task == nil {
		if l.buffering {
			l.output.write(stream, delta)
		}
		text := l.frames.Whole(stream, delta)
		offset := l.offset
		l.offset += int64(len(delta))
		l.mu.Unlock()
		if text == "" {
			l.touch()
			return ""
		}
		return l.publish("tool.output.delta", taskrun.ToolOutput{CallID: l.call.ID, Name: l.call.Tool, Stream: stream,
			Offset: offset, Bytes: int64(len(delta)), Delta: text})
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
		offset := l.offset
		l.offset += max(n, 0)
		l.mu.Unlock()
		return l.publish("tool.output.delta", taskrun.ToolOutput{CallID: l.call.ID, Name: l.call.Tool, Stream: "system",
			Offset: offset, Bytes: max(n, 0), Delta: taskrun.OmittedText(n)})
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
	l.calls.core.Runner.Touch(l.work)
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
		l.calls.core.Log.Error("output from before the detach lost", "call", l.call.ID, "session", l.call.Session,
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
	task.ContinueFrames(l.frames)
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

// Indexes into callSink.last.
const (
	lastStatus = iota
	lastProgress
	lastReports
)
