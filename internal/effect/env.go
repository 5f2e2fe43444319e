package effect

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
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
	var ports tool.Ports
	if e.cfg.Ports != nil {
		ports = e.cfg.Ports(p.owner.session, call)
	}
	return tool.Env{
		Call: call, Sink: sink, Registry: e.cfg.Tools, Files: files, Tasks: p, Mail: p, Agents: p, Egress: e.cfg.Egress, Ports: ports,
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
	lineage *perdure.Lineage // of a subagent
}

// root is the root of the session's tree.
func (o *owner) root() perdure.SessionID {
	if o.lineage == nil {
		return o.session
	}
	return o.lineage.Root
}

// depth is how far the session is from its root.
func (o *owner) depth() int {
	if o.lineage == nil {
		return 0
	}
	return o.lineage.Depth
}

// ownerOf takes the owner out of a fold.
func ownerOf(s *perdure.Session) *owner {
	return &owner{session: s.ID, agent: s.Agent, created: s.CreatedAt, lineage: s.Lineage}
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
	return &owner{session: id, agent: told.Agent, created: first[0].At.UTC().Truncate(time.Microsecond), lineage: told.Lineage}, nil
}

// The capabilities that activate themselves.
const (
	backgroundCapability = "background_execution" // starts, watches and cancels background runs (TL33)
	loadingCapability    = tool.LoadingCapability // tells the schemas that a model was not told (TL37)
)

// visible returns the tools that an agent may see, in the order of registration. The model's definitions
// and what may be executed come from this one pass (TL32). The background set is among them when some other
// tool can run in the background and the agent does not keep it out (TL33); load_tool, when there is
// something to load (TL37).
func (e *Effects) visible(agent perdure.Agent) []tool.Tool {
	var tools, loaders []tool.Tool
	useful := false
	for _, name := range e.cfg.Tools.Names() {
		t, ok := e.cfg.Tools.Get(name)
		switch {
		case !ok:
		case t.Spec().Hints.CapabilityID == loadingCapability:
			loaders = append(loaders, t)
		case t.Spec().Hints.CapabilityID == tool.ParentCapability && !agent.Subagent:
		case agent.Tools == nil || slices.Contains(agent.Tools, name):
			_, background := t.(tool.Background)
			useful = useful || background || t.Spec().Hints.CapabilityID == tool.AgentsCapability
			tools = append(tools, t)
		}
	}
	if !useful || agent.DisableBackground {
		tools = slices.DeleteFunc(tools, func(t tool.Tool) bool { return t.Spec().Hints.CapabilityID == backgroundCapability })
	}
	if slices.ContainsFunc(tools, e.defers(len(tools))) {
		tools = append(tools, loaders...)
	}
	return tools
}

// names are those of the tools that an agent may see.
func (e *Effects) names(agent perdure.Agent) []string {
	names := []string{}
	for _, t := range e.visible(agent) {
		names = append(names, t.Spec().Name)
	}
	return names
}

// defers says which of n tools a model is told of without their schema (TL37).
func (e *Effects) defers(n int) func(tool.Tool) bool {
	return func(t tool.Tool) bool {
		switch t.Spec().Deferrable {
		case tool.DeferAlways:
			return true
		case tool.DeferNever:
			return false
		}
		return e.cfg.DeferAbove > 0 && n > e.cfg.DeferAbove
	}
}

// lookup finds a tool that the agent may see.
func (e *Effects) lookup(agent perdure.Agent, name string) (tool.Tool, bool) {
	for _, t := range e.visible(agent) {
		if t.Spec().Name == name {
			return t, true
		}
	}
	return nil, false
}

// told is what a model is told of tools, and what the system prompt says while they are there.
func (e *Effects) told(tools []tool.Tool) (told []model.Tool, prompts []string) {
	loadable := slices.ContainsFunc(tools, func(t tool.Tool) bool { return t.Spec().Hints.CapabilityID == loadingCapability })
	n := len(tools)
	if loadable {
		n-- // load_tool itself does not count
	}
	deferred := e.defers(n)
	for _, t := range tools {
		d := tool.DefinitionOf(t)
		if loadable && deferred(t) {
			d = d.Shortened()
		}
		told = append(told, model.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters})
		if prompt := t.Spec().Prompt; prompt != "" {
			prompts = append(prompts, prompt)
		}
	}
	return told, prompts
}
