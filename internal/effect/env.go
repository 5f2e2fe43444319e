package effect

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// env is what a foreground call of a session may reach. Every port takes the session from here (EN3).
func (e *Effects) env(s *perdure.Session, call tool.Call, sink tool.Sink) tool.Env {
	return e.envOf(&taskPort{e: e, owner: ownerOf(s), at: callTime(s, call.ID), turn: call.Turn, call: call.ID}, call, sink)
}

// envOf is what work may reach whose tasks are those of a port.
func (e *Effects) envOf(p *taskPort, call tool.Call, sink tool.Sink) tool.Env {
	agent := &p.owner.agent
	files, _ := e.cfg.Files(p.owner.session)
	return tool.Env{
		Call: call, Sink: sink, Registry: e.cfg.Tools, Files: files, Tasks: p, Mail: p, Egress: e.cfg.Egress,
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

// owner is what work needs to know of its session. A fold says more, and every run that waits would keep one in memory.
// It is never changed.
type owner struct {
	session perdure.SessionID
	agent   perdure.Agent
	created time.Time
}

// ownerOf takes the owner out of a fold.
func ownerOf(s *perdure.Session) *owner {
	return &owner{session: s.ID, agent: s.Agent, created: s.CreatedAt}
}

// readOwner reads the owner from the first event of the journal, however long that is: no other event says who the agent
// is. NotFound: no such session. Invalid: its journal begins otherwise.
func readOwner(r store.Reader, id perdure.SessionID) (*owner, error) {
	first, err := r.Events(id, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("read the agent of %s: %w", id, err)
	}
	if len(first) == 0 {
		return nil, fmt.Errorf("session %s: %w", id, perdure.NotFound)
	}
	told, ok := first[0].Fact.(perdure.SessionCreated)
	if !ok {
		return nil, fmt.Errorf("session %s: %w journal: it begins with %s", id, perdure.Invalid, first[0].Type())
	}
	return &owner{session: id, agent: told.Agent, created: first[0].At.UTC().Truncate(time.Microsecond)}, nil
}
