package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
)

// AskPrefix is the prefix of the names of the tools through which MCP clients talk to agents.
const AskPrefix = "ask_"

// Metadata keys of a session started by a client: the calling session and the agent.
const (
	metaCaller = "mcp_caller"
	metaAgent  = "mcp_agent"
)

// askDeadline is the maximum duration of an answer.
const askDeadline = 24 * time.Hour

// Ask offers an agent as a tool. A call starts a session with the agent or continues one, and
// returns the agent's answer when that session is idle. The ids of session and message are derived
// from the call, so running the same call again finds the same session and message. Create one with
// [NewAsk].
type Ask struct {
	name   string
	agent  perdure.Agent
	spec   tool.Spec
	engine atomic.Pointer[engine.Engine]
}

var _ tool.Reattacher = (*Ask)(nil)

// agentName matches valid names.
var agentName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,59}$`) })

// NewAsk returns a tool for an agent. description is shown to clients; empty: a text with the
// agent's name. Call [Ask.Use] before the tool is called. Invalid: the name is not valid.
func NewAsk(name, description string, agent perdure.Agent) (*Ask, error) {
	if !agentName().MatchString(name) {
		return nil, fmt.Errorf("%w agent name %q: use 1 to 60 lower-case letters, digits, - and _, starting with a letter or a digit", perdure.Invalid, name)
	}
	agent.Name = orText(agent.Name, name)
	if description = strings.TrimSpace(description); description == "" {
		description = "Asks the agent " + agent.Name + "."
	}
	no, yes := false, true
	return &Ask{name: name, agent: agent, spec: tool.Spec{
		Name: AskPrefix + name, DisplayName: "Ask " + agent.Name,
		Description: description + " Returns the agent's answer when its work is done, and the id of the session. Pass this id to continue the same conversation.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"message":{"type":"string","description":"What to say to the agent"},` +
			`"session":{"type":"string","description":"The session id from an earlier answer, to continue that conversation. Default: a new session"}},` +
			`"required":["message"],"additionalProperties":false}`),
		Class: perdure.Idempotent, SoftBudget: tool.Never, Deadline: askDeadline,
		Hints: tool.Hints{ReadOnly: &no, Idempotent: &no, LongRunning: &yes},
	}}, nil
}

func orText(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// Use sets the engine that holds the sessions.
func (a *Ask) Use(eng engine.Engine) { a.engine.Store(&eng) }

// Spec implements tool.Tool.
func (a *Ask) Spec() tool.Spec { return a.spec }

// RunBackground implements tool.Background.
func (a *Ask) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	env.Sink = sink
	return a.Run(ctx, call, env)
}

// Reattach implements tool.Reattacher. The session continues by itself, so Reattach only waits for
// it again.
func (a *Ask) Reattach(ctx context.Context, _ perdure.Task, env tool.Env, sink tool.Sink) (tool.Result, bool) {
	env.Sink = sink
	return a.Run(ctx, env.Call, env), false
}

// question is the arguments of a call.
type question struct {
	Message string            `json:"message"`
	Session perdure.SessionID `json:"session"`
}

// askResult is the result of a call.
type askResult struct {
	Answer  string            `json:"answer"`
	Session perdure.SessionID `json:"session"`
}

// Run implements tool.Tool.
func (a *Ask) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	found := a.engine.Load()
	if found == nil {
		return tool.Missing("Engine", a.spec.Name+" requires one.")
	}
	eng := *found
	if call.Session == "" || call.Key == "" { // both are needed to derive the session and to find its owner
		return tool.Error(a.spec.Name + " needs a calling session: call it from a session or over MCP.")
	}
	caller, err := eng.Sessions().Get(ctx, call.Session)
	if err != nil {
		return tool.Internal(fmt.Errorf("read the calling session: %w", err))
	}
	ctx = engine.WithOwner(ctx, engine.Owner{Org: caller.Org, User: caller.User})
	var in question
	if err := perdure.DecodeJSON(call.Args, &in); err != nil {
		return tool.Failf("Invalid arguments: %v", err)
	}
	message := perdure.Text(in.Message)
	message.ID = perdure.FormatID[perdure.MessageID](derivedID("message", call))
	var wrong *perdure.MessageError
	if errors.As(message.CheckInput(), &wrong) { // before a session is started for it
		return tool.Error("Invalid message: " + wrong.Text)
	}
	session, err := a.session(ctx, eng, call, in.Session)
	if errors.Is(err, perdure.NotFound) {
		return tool.Error("You have no session " + string(in.Session) + " with this agent.")
	}
	if err == nil {
		_, err = eng.Send(ctx, session, message)
	}
	if err == nil {
		err = a.wait(ctx, eng, session, env.Report())
	}
	if err != nil {
		return a.turnFailed(ctx, eng, session, err)
	}
	return a.lastMessage(ctx, eng, session, message.ID)
}

// derivedID returns an id for something that a call creates: the same for every execution of the
// call, and different for every other call.
func derivedID(what string, call tool.Call) [16]byte {
	sum := sha256.Sum256([]byte("perdure/mcp/ask/" + what + "\x00" + call.Key))
	return [16]byte(sum[:16])
}

// session returns the session of a call and creates it if necessary. NotFound: the given session is
// not one of the caller's with this agent (M5).
func (a *Ask) session(ctx context.Context, eng engine.Engine, call tool.Call, given perdure.SessionID) (perdure.SessionID, error) {
	if given == "" {
		id := perdure.FormatID[perdure.SessionID](derivedID("session", call))
		agent := a.agent
		agent.Metadata = map[string]string{metaCaller: string(call.Session), metaAgent: a.name}
		for k, v := range a.agent.Metadata {
			agent.Metadata[k] = v
		}
		_, err := eng.Sessions().CreateAs(ctx, id, agent)
		if errors.Is(err, perdure.Conflict) { // started before the agent was changed
			_, err = eng.Sessions().Get(ctx, id)
		}
		return id, err
	}
	if _, err := perdure.ParseID[perdure.SessionID](string(given)); err != nil {
		return given, perdure.NotFound
	}
	first, err := eng.Events(ctx, given, 0, 1)
	if err != nil {
		return given, err
	}
	if len(first) > 0 {
		made, ok := first[0].Fact.(perdure.SessionCreated)
		if ok && made.Agent.Metadata[metaCaller] == string(call.Session) && made.Agent.Metadata[metaAgent] == a.name {
			return given, nil
		}
	}
	return given, perdure.NotFound
}

// wait returns when the session is idle. In the meantime it reports the session's progress to sink.
func (a *Ask) wait(ctx context.Context, eng engine.Engine, session perdure.SessionID, sink tool.Sink) error {
	now, err := eng.Sessions().Get(ctx, session)
	if err != nil {
		return err
	}
	following, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Progress is not part of the work.
		_ = eng.Follow(following, session, now.LastSeq, func(f engine.Frame) error {
			if f.Event != nil {
				if text := eventSummary(*f.Event); text != "" {
					sink.Status(text)
				}
			}
			return nil
		})
	}()
	err = eng.Sessions().WaitIdle(ctx, session)
	end()
	<-done
	return err
}

// eventSummary describes an event in one line; empty: the event is not reported.
func eventSummary(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.ToolStarted:
		return orText(f.DisplayName, f.Name)
	case perdure.ApprovalRequested: // M10
		return "Waiting for a person to approve " + f.Approval.Tool + ". On the server, run: perdure approval list"
	case perdure.OutputCompleted:
		return oneLine(f.Message.Text())
	}
	return ""
}

// turnFailed returns the result of a call whose wait ended early. If the call itself was canceled
// or timed out, the turn is interrupted. If only this process is stopping, the turn continues and a
// later execution finds it again.
func (a *Ask) turnFailed(ctx context.Context, eng engine.Engine, session perdure.SessionID, err error) tool.Result {
	if ctx.Err() == nil {
		return tool.Internal(err)
	}
	cause := perdure.CauseOf(ctx)
	if session != "" && cause != perdure.CauseShutdown && cause != perdure.CauseSuperseded {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, late := eng.Tasks().CancelAll(stopping, session, "mcp", "the call was canceled")
		err = errors.Join(err, eng.Sessions().Interrupt(stopping, session, "mcp", "the call was canceled"), late)
	}
	if cause == "" {
		return tool.Internal(err)
	}
	return tool.FromError(cause)
}

// lookBackEvents is the number of events read at a time in the search for a message.
const lookBackEvents = 200

// lastMessage returns the agent's last message between the given message and the next one.
func (a *Ask) lastMessage(ctx context.Context, eng engine.Engine, session perdure.SessionID, message perdure.MessageID) tool.Result {
	events, err := eventsAfter(ctx, eng, session, message)
	if err != nil {
		return tool.Internal(err)
	}
	text, failure := "", ""
	for _, e := range events {
		switch f := e.Fact.(type) {
		case perdure.MessageReceived:
			if failure != "" || text != "" {
				return ended(text, failure, session)
			}
		case perdure.OutputCompleted:
			text = f.Message.Text()
		case perdure.TurnCompleted:
			failure = ""
		case perdure.TurnFailed:
			failure = "The agent's turn failed: " + f.Error
		case perdure.TurnCanceled:
			failure = "The agent's turn was canceled."
		case perdure.TurnSealed:
			failure = "The agent's turn was stopped: " + f.Reason
		}
	}
	return ended(text, failure, session)
}

func ended(text, failure string, session perdure.SessionID) tool.Result {
	if failure != "" {
		return tool.Failf("%s You can continue in session %s.", failure, session)
	}
	return tool.Success(askResult{Answer: text, Session: session})
}

// eventsAfter returns the events after a message.
func eventsAfter(ctx context.Context, eng engine.Engine, session perdure.SessionID, message perdure.MessageID) (after []perdure.Event, err error) {
	now, err := eng.Sessions().Get(ctx, session)
	if err != nil {
		return nil, err
	}
	for end := now.LastSeq; end > 0; end -= lookBackEvents {
		page, err := eng.Events(ctx, session, max(end-lookBackEvents, 0), int(min(end, lookBackEvents)))
		if err != nil {
			return nil, err
		}
		for i, e := range page {
			if m, ok := e.Fact.(perdure.MessageReceived); ok && m.Message.ID == message {
				return append(page[i+1:], after...), nil
			}
		}
		after = append(page, after...)
	}
	return nil, fmt.Errorf("message %s: %w", message, perdure.NotFound)
}
