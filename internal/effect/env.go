package effect

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// env is what a foreground call of a session may reach. Every port takes the session from here (EN3).
func (e *Effects) env(s *perdure.Session, call tool.Call, sink tool.Sink) tool.Env {
	p := &taskPort{e: e, owner: ownerOf(s), at: callTime(s, call.ID), turn: call.Turn, call: call.ID, read: s.ReadUntrusted()}
	env := e.envOf(p, call, sink)
	if e.cfg.Schedule != nil { // of a model only: a background run has no message that its schedules could be named by
		env.Plans = p
	}
	return env
}

// envOf is what work may reach whose tasks are those of a port.
func (e *Effects) envOf(p *taskPort, call tool.Call, sink tool.Sink) tool.Env {
	agent := &p.owner.agent
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
		Network: agent.Network, Visible: e.names(*agent), Now: time.Now,
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
	backgroundCapability = tool.BackgroundCapability // starts, watches and cancels background runs (TL33)
	loadingCapability    = tool.LoadingCapability    // tells the schemas that a model was not told (TL37)
)

// visible returns the tools that an agent may see, in the order of registration. The model's definitions
// and what may be executed come from this one pass (TL32). The background set is among them when some other
// tool can run in the background and the agent does not keep it out (TL33); load_tool, when there is
// something to load (TL37). What must be chosen is there for who named it (TL30).
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
		case agent.Tools == nil && (!e.cfg.Tools.Offered(name) || slices.Contains(agent.Capabilities, t.Spec().Hints.CapabilityID)), slices.Contains(agent.Tools, name):
			useful = useful || tool.RunsBackground(t)
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

// sealed takes the secret arguments out of the calls of an answer before anything of it is recorded, and what they and the
// session's secrets are out of its texts. Thinking that tells one is left out, since with another text its signature is none.
func (e *Effects) sealed(s *perdure.Session, m perdure.Message) perdure.Message {
	unsaid := e.unsaid(s, m)
	for _, v := range unsaid {
		for i, part := range m.Parts {
			if part.Type == perdure.PartText {
				m.Parts[i].Text = v.Mask(part.Text)
			}
		}
		if v.Mask(m.Thinking) != m.Thinking {
			m.Thinking, m.Signature = "", ""
		}
	}
	for i, part := range m.Parts {
		if part.Type != perdure.PartToolCall || part.Call == nil {
			continue
		}
		call := *part.Call
		key := perdure.CallKey{Session: s.ID, Call: call.ID}
		t, ok := e.cfg.Tools.Get(call.Name)
		some := false
		if ok {
			call.Arguments, some = e.taken(key, t, call.Arguments)
		} else if e.keepsSecrets() { // it may be a name that the model got wrong
			call, some = e.unknownCall(key, call, unsaid), true
		}
		if some {
			m.Parts[i].Call = &call
		}
	}
	return m
}

// taken takes out of the arguments of a call what may be recorded nowhere, and holds it for the call: what its tool declares
// secret, and the values of the session's secrets wherever they stand.
func (e *Effects) taken(key perdure.CallKey, t tool.Tool, args json.RawMessage) (json.RawMessage, bool) {
	shown, some := e.declared(key, t, args)
	shown, more := e.vault.TakeKnown(key, e.known(key.Session), shown)
	return shown, some || more
}

// declared takes out of the arguments of a call what its tool declares secret, and holds it. What an order for a
// background run has of that is not held: such a run is made later, by whoever has it then. An order that nobody can read is
// held whole: it is refused.
func (e *Effects) declared(key perdure.CallKey, t tool.Tool, args json.RawMessage) (json.RawMessage, bool) {
	spec := t.Spec()
	if spec.Hints.CapabilityID != backgroundCapability {
		return e.vault.Take(key, spec.Parameters, args)
	}
	if !e.keepsSecrets() {
		return args, false
	}
	shown, _, some := veil.Order(spec.Parameters, args, e.ordered)
	if shown == nil && some {
		return e.vault.Hide(key, args), true
	}
	return shown, some
}

// ordered is the schema of a tool that an order may name. None that takes orders itself is.
func (e *Effects) ordered(name string) (json.RawMessage, bool) {
	t, ok := e.cfg.Tools.Get(name)
	if !ok || t.Spec().Hints.CapabilityID == backgroundCapability {
		return nil, false
	}
	return t.Spec().Parameters, true
}

// unknownTool stands where a model called a tool by a secret.
const unknownTool = "unknown_tool"

// unknownCall is a call of a tool that is not here, as it may be recorded.
func (e *Effects) unknownCall(key perdure.CallKey, call perdure.ToolCall, unsaid []*veil.Veil) perdure.ToolCall {
	for _, v := range unsaid {
		if v.Mask(call.Name) != call.Name {
			call.Name = unknownTool
		}
	}
	if text := string(call.Arguments); text != "" && text != "{}" {
		call.Arguments = e.vault.Hide(key, call.Arguments)
	}
	return call
}

// keepsSecrets reports whether some tool has secret arguments.
func (e *Effects) keepsSecrets() bool {
	return slices.ContainsFunc(e.cfg.Tools.Names(), func(name string) bool {
		t, ok := e.cfg.Tools.Get(name)
		return ok && veil.Has(t.Spec().Parameters)
	})
}

// enter runs a tool, unless what it is to be run with is lost.
func enter(ctx context.Context, t tool.Tool, call tool.Call, env tool.Env) tool.Result {
	if gone := veil.Gone(t.Spec().Parameters, call.Args); gone != nil {
		return *gone
	}
	return t.Run(ctx, call, env)
}

// hidden is the arguments of a call as they are recorded, and what is missing from them; nil: nothing is.
type hidden struct {
	recorded json.RawMessage
	own      *redact.Set
}

// veiled does the work of an execution, and keeps secrets out of what it reports and returns (SE4).
func (e *Effects) veiled(ctx context.Context, t tool.Tool, h hidden, env tool.Env, work func(tool.Env) tool.Result) tool.Result {
	env.Call.Granted = e.granted(ctx, t, h.recorded, env.Call)
	trusted := t.Spec().Trusted
	v := veil.New(env.Known, h.own)
	if v == nil {
		r := work(env)
		r.Untrusted = r.Untrusted || !trusted
		return r
	}
	sink := v.Sink(env.Report())
	defer sink.Close()
	env.Sink, env.Files = sink, masked(env.Files, v.Mask)
	if out, ok := env.Egress.(watched); ok {
		out.mask = v.Mask
		env.Egress = out
	}
	if env.Dialog != nil {
		env.Dialog = v.Dialog(env.Dialog)
	}
	if env.Utility != nil {
		env.Utility = v.Utility(env.Utility)
	}
	r := work(env)
	r.Reveals = r.Reveals && len(env.Call.Granted) > 0
	r.Untrusted = r.Untrusted || !trusted
	return v.Result(r)
}

// granted is which secrets a call may show to the model: those that the policy allows in so many words, or that a person
// said yes to (SE3). That nobody minds is not enough.
func (e *Effects) granted(ctx context.Context, t tool.Tool, recorded json.RawMessage, call tool.Call) (granted []perdure.Permission) {
	guarded, ok := t.(tool.Guarded)
	if !ok {
		return nil
	}
	call.Args = recorded
	var wanted []perdure.Permission
	if e.guarded("permissions", func() error { wanted = guarded.Permissions(call); return nil }) != nil {
		return nil
	}
	for _, p := range wanted {
		if p.Kind != tool.ReadSecret {
			continue
		}
		said, _, err := e.permit(ctx, call, p)
		if err == nil && (said == perdure.Allow || said != perdure.Deny && e.approved(ctx, call, p)) {
			granted = append(granted, p)
		}
	}
	return granted
}

// approved reports whether a person said yes to a permission of a call.
func (e *Effects) approved(ctx context.Context, call tool.Call, p perdure.Permission) bool {
	var found []perdure.Approval
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Approvals(store.ApprovalFilter{Session: call.Session, Call: call.ID, State: perdure.ApprovalApproved})
		return err
	})
	return err == nil && slices.ContainsFunc(found, func(a perdure.Approval) bool {
		return slices.ContainsFunc(a.Permissions, func(given perdure.Permission) bool { return given.Kind == p.Kind && given.Target == p.Target })
	})
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
