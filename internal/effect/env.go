package effect

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// env is what a foreground call of a session may reach. Every port takes the session from here (EN3).
func (e *Effects) env(s *perdure.Session, call tool.Call, sink tool.Sink) tool.Env {
	return e.envOf(&taskPort{e: e, owner: ownerOf(s), folded: s, turn: call.Turn, call: call.ID}, call, sink)
}

// envOf is what work may reach whose tasks are those of a port.
func (e *Effects) envOf(p *taskPort, call tool.Call, sink tool.Sink) tool.Env {
	agent := &p.owner.agent
	files, _ := e.cfg.Files(p.owner.session)
	return tool.Env{
		Call: call, Sink: sink, Registry: e.cfg.Tools, Files: files, Tasks: p, Egress: e.cfg.Egress,
		Locale: orElse(agent.Locale, "en"), Timezone: orElse(agent.Timezone, "UTC"), DryRun: agent.DryRun,
		Visible: e.names(*agent), Now: time.Now,
	}
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// ToolProgress is the live frame of a foreground call's progress.
type ToolProgress struct {
	CallID  perdure.CallID `json:"call_id"`
	Name    string         `json:"name"`
	Message string         `json:"message,omitempty"`
	Current float64        `json:"current,omitempty"`
	Total   float64        `json:"total,omitempty"`
}

// ToolOutput is the live frame of a piece of output.
type ToolOutput struct {
	CallID perdure.CallID `json:"call_id,omitempty"`
	TaskID perdure.TaskID `json:"task_id,omitempty"`
	Name   string         `json:"name"`
	Stream string         `json:"stream"`
	Delta  string         `json:"delta"`
}

// liveSink is the sink of a foreground call: what it reports goes to live watchers and is not stored (EV6).
type liveSink struct {
	e    *Effects
	call tool.Call
}

func (l *liveSink) publish(kind string, data any) perdure.Cause {
	l.e.cfg.Store.Publish(store.Frame{Session: l.call.Session, Type: kind, Data: data})
	return ""
}

// Status shows a line.
func (l *liveSink) Status(text string) perdure.Cause {
	return l.publish("tool.progress", ToolProgress{CallID: l.call.ID, Name: l.call.Tool, Message: text})
}

// Progress shows how far the call is.
func (l *liveSink) Progress(current, total float64, label string) perdure.Cause {
	return l.publish("tool.progress", ToolProgress{CallID: l.call.ID, Name: l.call.Tool, Message: label, Current: current, Total: total})
}

// Output shows a piece of output.
func (l *liveSink) Output(stream string, delta []byte) perdure.Cause {
	return l.publish("tool.output.delta", ToolOutput{CallID: l.call.ID, Name: l.call.Tool, Stream: stream, Delta: string(delta)})
}

// Artifact shows nothing: a foreground call's artifacts are in its result.
func (l *liveSink) Artifact(perdure.Artifact) perdure.Cause { return "" }

// Heartbeat shows nothing.
func (l *liveSink) Heartbeat() perdure.Cause { return "" }
