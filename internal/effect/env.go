package effect

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// env is what a foreground call of a session may reach. Every port takes the session from here (EN3).
func (e *Effects) env(s *perdure.Session, o *owner, call tool.Call, sink tool.Sink) tool.Env {
	p := &taskPort{e: e, owner: o, at: callTime(s, call.ID), turn: call.Turn, call: call.ID, repeats: s.Repeats(call.ID), read: s.ReadUntrusted()}
	env := e.envOf(p, call, sink)
	if e.cfg.Schedule != nil { // of a model only: a background run has no message that its schedules could be named by
		env.Plans = p
	}
	return env
}

// envOf is what work may reach whose tasks are those of a port.
func (e *Effects) envOf(p *taskPort, call tool.Call, sink tool.Sink) tool.Env {
	agent := &p.owner.agent
	call.Org, call.User = p.owner.org, p.owner.user
	by := call
	by.Session = p.owner.session
	files, _ := e.files(by)
	var ports tool.Ports
	if e.cfg.Ports != nil {
		ports = e.cfg.Ports(p.owner.session, call)
	}
	if agent.DryRun { // it leaves nothing behind (AP13)
		ports.Payments = nil
	}
	return tool.Env{
		Call: call, Sink: sink, Registry: e.cfg.Tools, Files: files, Tasks: p, Mail: p, Agents: p, Egress: e.watch(by), Ports: ports,
		Locale: orElse(agent.Locale, "en"), Timezone: orElse(agent.Timezone, "UTC"), DryRun: agent.DryRun,
		Network: agent.Network, Visible: e.names(*agent, p.owner.left), Now: time.Now,
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
	org     string // of the session's row, as its user is; both are empty where no port is opened for it
	user    string
	agent   perdure.Agent
	created time.Time
	lineage *perdure.Lineage // of a subagent
	trace   string           // the traceparent that came with its turn, or with the task; empty: with none
	left    bool             // work of the session goes on outside its turn, or did: its model has the tools to look after it
}

// traceparent is that of the span of work; where nobody is told of spans, the one that came with what asked for it.
func (o *owner) traceparent(ctx context.Context) string {
	return orElse(telemetry.Parent(ctx), o.trace)
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
	o := &owner{session: s.ID, agent: s.Agent, created: s.CreatedAt, lineage: s.Lineage, left: leftTurn(s)}
	if s.Turn != nil {
		o.trace = s.Turn.Trace
	}
	return o
}

// of notes whose session it is, in the words of the session's row.
func (o *owner) of(row store.Session) *owner {
	o.org, o.user = row.Org, row.User
	return o
}

// AgentOf is the agent that a session was made of. NotFound: there is no such session.
func AgentOf(r store.Reader, id perdure.SessionID) (perdure.Agent, error) {
	o, err := readOwner(r, id)
	if err != nil {
		return perdure.Agent{}, err
	}
	return o.agent, nil
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
	backgroundCapability = tool.BackgroundCapability // starts, watches and cancels background runs (TL33)
	loadingCapability    = tool.LoadingCapability    // tells the schemas that a model was not told (TL37)
)

// visible returns the tools that an agent may see, in the order of registration. The model's definitions
// and what may be executed come from this one pass (TL32). The background set is among them when some other
// tool can run in the background and the agent does not keep it out (TL33); load_tool, when there is
// something to load (TL37). What must be chosen is there for who named it (TL30).
//
// A placeholder names tools to wait for what left its turn, and to end it. With left they are there behind the others,
// whatever was chosen, registered or kept out: else the model could look after nothing of what goes on.
func (e *Effects) visible(agent perdure.Agent, left bool) []tool.Tool {
	var tools, loaders []tool.Tool
	useful := false
	for _, name := range e.cfg.Tools.Names() {
		t, ok := e.cfg.Tools.Get(name)
		switch {
		case !ok:
		case t.Spec().Hints.CapabilityID == loadingCapability:
			loaders = append(loaders, t)
		case t.Spec().Hints.CapabilityID == tool.ParentCapability && !agent.Subagent:
		case agent.Tools == nil && (!e.cfg.Tools.Offered(name) || slices.Contains(agent.Capabilities, t.Spec().Hints.CapabilityID)), slices.Contains(agent.Tools, name):
			useful = useful || tool.RunsBackground(t)
			tools = append(tools, t)
		}
	}
	if !useful || agent.DisableBackground {
		tools = slices.DeleteFunc(tools, func(t tool.Tool) bool { return t.Spec().Hints.CapabilityID == backgroundCapability })
	}
	if left {
		tools = e.withWatching(tools)
	}
	if slices.ContainsFunc(tools, e.defers(len(tools))) {
		tools = append(tools, loaders...)
	}
	return tools
}

// names are those of the tools that an agent may see.
func (e *Effects) names(agent perdure.Agent, left bool) []string {
	names := []string{}
	for _, t := range e.visible(agent, left) {
		names = append(names, t.Spec().Name)
	}
	return names
}

// defers says which of n tools a model is told of without their schema (TL37).
func (e *Effects) defers(n int) func(tool.Tool) bool {
	return func(t tool.Tool) bool {
		switch spec := t.Spec(); {
		case spec.Deferrable == tool.DeferAlways:
			return true
		case spec.Deferrable == tool.DeferNever, e.watching.Has(spec.Name) && !e.cfg.Tools.Has(spec.Name): // load_tool looks among the host's
			return false
		}
		return e.cfg.DeferAbove > 0 && n > e.cfg.DeferAbove
	}
}

// lookup finds a tool that the agent may see.
func (e *Effects) lookup(agent perdure.Agent, left bool, name string) (tool.Tool, bool) {
	for _, t := range e.visible(agent, left) {
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

// Asked returns what the model of a session would be asked now, built as for the question itself, and the fold that it is
// built from. What waits for the next step is not in it. NotFound: no such session.
func (e *Effects) Asked(ctx context.Context, id perdure.SessionID) (req model.Request, s *perdure.Session, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		s, err = e.Fold(r, id)
		return err
	})
	if err != nil {
		return model.Request{}, nil, err
	}
	return e.request(s, perdure.CallModel{Attempt: 1}), s, nil
}

// dependency refuses to go on for an agent that is archived or deleted, or stands on a harness that is (N11). One that this
// store does not know, since the session came from elsewhere, is what the journal says. A session that was made of neither
// costs no look.
func (e *Effects) dependency(ctx context.Context, a perdure.Agent) error {
	if a.ID == "" && a.Harness == "" {
		return nil
	}
	gone := ""
	err := e.cfg.Store.View(ctx, func(r store.Reader) error {
		gone = ""
		kept, found, err := r.Agent(a.ID)
		if err != nil {
			return err
		}
		if found && !kept.Status.Works() {
			gone = fmt.Sprintf("agent %s is %s", a.ID, kept.Status)
		}
		chain, err := r.HarnessChain(a.Harness)
		if why, ok := agent.Broken(chain); !ok {
			gone = why
		}
		return err
	})
	switch {
	case errors.Is(err, perdure.Invalid):
		return &model.Error{Code: perdure.CodeDependency, Text: err.Error()}
	case err != nil:
		return &model.Error{Code: model.Unavailable, Text: "it could not be read whether the agent may still work", Err: err}
	case gone != "":
		return &model.Error{Code: perdure.CodeDependency, Text: gone}
	}
	return nil
}

// imageUnavailable stands where a picture was that is not there any more (IM1), or for which there is no room.
const imageUnavailable = "[image unavailable]"

// picturedBytes is how many bytes the pictures that the messages of one request name have together, before base64.
const picturedBytes = 20 << 20

// pictured returns messages with the pictures that they name, the newest first: once there is no room for one, there is
// none for those before it. What cannot be shown is a text that says so, never an error of the turn. The messages given are
// not changed.
func (e *Effects) pictured(ctx context.Context, id perdure.SessionID, messages []perdure.Message) []perdure.Message {
	shown := slices.Clone(messages)
	known := map[perdure.ImageID]*perdure.Image{} // one that is named twice is read once, and sent twice
	room := base64.StdEncoding.EncodedLen(picturedBytes)
	for i, m := range slices.Backward(messages) {
		if !slices.ContainsFunc(m.Parts, func(p perdure.Part) bool { return p.Type == perdure.PartImageFile }) {
			continue
		}
		shown[i].Parts = slices.Clone(m.Parts)
		for j, p := range slices.Backward(m.Parts) {
			if p.Type != perdure.PartImageFile {
				continue
			}
			var name perdure.ImageID
			if p.ImageFile != nil {
				name = p.ImageFile.ID
			}
			found, read := known[name]
			if !read && room > 0 {
				found = e.picture(ctx, id, name)
				known[name] = found
			}
			if found != nil {
				room -= len(found.Base64)
			}
			if found != nil && room >= 0 {
				shown[i].Parts[j] = perdure.Part{Type: perdure.PartImage, Image: found}
			} else {
				shown[i].Parts[j] = perdure.Part{Type: perdure.PartText, Text: imageUnavailable}
			}
		}
	}
	return shown
}

// picture is an image as it is sent to a model; nil: it is not there.
func (e *Effects) picture(ctx context.Context, id perdure.SessionID, image perdure.ImageID) *perdure.Image {
	if e.cfg.Ports == nil {
		return nil
	}
	images := e.cfg.Ports(id, tool.Call{Session: id}).Images
	if images == nil {
		return nil
	}
	found, ok, err := images.Resolve(ctx, image)
	if err != nil {
		e.cfg.Log.Warn("an image could not be read", "session", id, "image", image, "error", err)
	}
	if err != nil || !ok {
		return nil
	}
	return &perdure.Image{Base64: found.Base64, MediaType: found.MediaType}
}
