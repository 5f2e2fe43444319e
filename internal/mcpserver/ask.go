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

// AskPrefix begins the name of the tool by which MCP clients speak with an agent.
const AskPrefix = "ask_"

// The metadata of a session that a client speaks with: by whom it was started, and with which agent.
const (
	metaCaller = "mcp_caller"
	metaAgent  = "mcp_agent"
)

// askDeadline is the longest that an answer may take.
const askDeadline = 24 * time.Hour

// Ask is an agent as a tool: a call starts a session with it, or goes on with one, and answers what the agent said when that
// session is at rest. The same call is the same session and the same message, however often it is run. Make one with [NewAsk].
type Ask struct {
	name   string
	agent  perdure.Agent
	spec   tool.Spec
	engine atomic.Pointer[engine.Engine]
}

var _ tool.Reattacher = (*Ask)(nil)

// agentName is what an agent may be called here.
var agentName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,59}$`) })

// NewAsk makes a tool of an agent. The description is what clients read; empty: the agent's name. Before it is called it has to be
// told its engine, with [Ask.Use]. Invalid: the name is none.
func NewAsk(name, description string, agent perdure.Agent) (*Ask, error) {
	if !agentName().MatchString(name) {
		return nil, fmt.Errorf("%w agent name %q: 1 to 60 small letters, digits, - and _, of which the first is a letter or a digit", perdure.Invalid, name)
	}
	agent.Name = orText(agent.Name, name)
	if description = strings.TrimSpace(description); description == "" {
		description = "Asks the agent " + agent.Name + "."
	}
	no, yes := false, true
	return &Ask{name: name, agent: agent, spec: tool.Spec{
		Name: AskPrefix + name, DisplayName: "Ask " + agent.Name,
		Description: description + " Answers with what the agent says when its work is done, and with the session: give that again to go on with the same conversation.",
		Parameters: json.RawMessage(`{"type":"object","properties":{` +
			`"message":{"type":"string","minLength":1,"description":"What to say to the agent"},` +
			`"session":{"type":"string","description":"A session that an earlier answer named, to go on with it. Default: a new one"}},` +
			`"required":["message"],"additionalProperties":false}`),
		Class: perdure.Idempotent, SoftBudget: tool.Never, Deadline: askDeadline,
		Hints: tool.Hints{ReadOnly: &no, Idempotent: &yes, LongRunning: &yes},
	}}, nil
}

func orText(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// Use says in which engine the sessions are: that one, from now on.
func (a *Ask) Use(eng engine.Engine) { a.engine.Store(&eng) }

// Spec implements tool.Tool.
func (a *Ask) Spec() tool.Spec { return a.spec }

// RunBackground implements tool.Background.
func (a *Ask) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	env.Sink = sink
	return a.Run(ctx, call, env)
}

// Reattach implements tool.Reattacher: the session works by itself, and is only waited for again.
func (a *Ask) Reattach(ctx context.Context, _ perdure.Task, env tool.Env, sink tool.Sink) (tool.Result, bool) {
	env.Sink = sink
	return a.Run(ctx, env.Call, env), false
}

// question is the arguments.
type question struct {
	Message string            `json:"message"`
	Session perdure.SessionID `json:"session"`
}

// said is the result.
type said struct {
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
	if call.Session == "" || call.Key == "" { // its session is named by them, and is its caller's
		return tool.Error(a.spec.Name + " speaks in a session of its caller: call it from a session, or over MCP.")
	}
	caller, err := eng.Session(ctx, call.Session)
	if err != nil {
		return tool.Internal(fmt.Errorf("the session that asks: %w", err))
	}
	ctx = engine.For(ctx, engine.Owner{Org: caller.Org, User: caller.User})
	var in question
	if err := perdure.DecodeJSON(call.Args, &in); err != nil {
		return tool.Failf("Invalid arguments: %v", err)
	}
	session, err := a.session(ctx, eng, call, in.Session)
	if errors.Is(err, perdure.NotFound) {
		return tool.Error("There is no session " + string(in.Session) + " of yours with this agent.")
	}
	if err == nil {
		err = eng.Send(ctx, session, perdure.Message{
			ID: perdure.FormatID[perdure.MessageID](derived("message", call)), Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartText, Text: in.Message}},
		})
	}
	if err == nil {
		err = a.wait(ctx, eng, session, env.Report())
	}
	if err != nil {
		return a.failed(ctx, eng, session, err)
	}
	return a.answer(ctx, eng, session, perdure.FormatID[perdure.MessageID](derived("message", call)))
}

// derived is an id of what a call makes: the same for every run of it, and for no other call.
func derived(what string, call tool.Call) [16]byte {
	sum := sha256.Sum256([]byte("perdure/mcp/ask/" + what + "\x00" + call.Key))
	return [16]byte(sum[:16])
}

// session is the one that the call speaks in. NotFound: it is none of the caller's with this agent (M5).
func (a *Ask) session(ctx context.Context, eng engine.Engine, call tool.Call, given perdure.SessionID) (perdure.SessionID, error) {
	if given == "" {
		id := perdure.FormatID[perdure.SessionID](derived("session", call))
		agent := a.agent
		agent.Metadata = map[string]string{metaCaller: string(call.Session), metaAgent: a.name}
		for k, v := range a.agent.Metadata {
			agent.Metadata[k] = v
		}
		_, err := eng.NewSessionAs(ctx, id, agent)
		if errors.Is(err, perdure.Conflict) { // it was started before the agent was changed
			_, err = eng.Session(ctx, id)
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

// wait returns when the session is at rest, and says meanwhile what it does.
func (a *Ask) wait(ctx context.Context, eng engine.Engine, session perdure.SessionID, sink tool.Sink) error {
	now, err := eng.Session(ctx, session)
	if err != nil {
		return err
	}
	following, end := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		_ = eng.Follow(following, session, now.LastSeq, func(f engine.Frame) error { // what is said of it is no part of the work
			if f.Event != nil {
				if text := sentence(*f.Event); text != "" {
					sink.Status(text)
				}
			}
			return nil
		})
	}()
	err = eng.WaitIdle(ctx, session)
	end()
	<-told
	return err
}

// sentence is an event in a line; empty: it is not worth one.
func sentence(e perdure.Event) string {
	switch f := e.Fact.(type) {
	case perdure.ToolStarted:
		return orText(f.DisplayName, f.Name)
	case perdure.ApprovalRequested: // M10
		return "Waits for a person's approval of " + f.Approval.Tool + ". Where the server is run: perdure approval list"
	case perdure.OutputCompleted:
		return line(f.Message.Text())
	}
	return ""
}

// failed is the result when the answer was not waited for to the end. The turn is stopped when somebody wants the call to end;
// when only this process ends it goes on, and is found again.
func (a *Ask) failed(ctx context.Context, eng engine.Engine, session perdure.SessionID, err error) tool.Result {
	if ctx.Err() == nil {
		return tool.Internal(err)
	}
	cause := perdure.CauseOf(ctx)
	if session != "" && cause != perdure.CauseShutdown && cause != perdure.CauseSuperseded {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, late := eng.CancelTasks(stopping, session, "mcp", "the call was canceled")
		err = errors.Join(err, eng.Interrupt(stopping, session, "mcp", "the call was canceled"), late)
	}
	if cause == "" {
		return tool.Internal(err)
	}
	return tool.FromError(cause)
}

// lookBack is how many events are read at once to find a message.
const lookBack = 200

// answer is what the agent said last of what came after a message and before the next one.
func (a *Ask) answer(ctx context.Context, eng engine.Engine, session perdure.SessionID, message perdure.MessageID) tool.Result {
	events, err := since(ctx, eng, session, message)
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
		return tool.Failf("%s It can be gone on with in the session %s.", failure, session)
	}
	return tool.Success(said{Answer: text, Session: session})
}

// since is the events after a message.
func since(ctx context.Context, eng engine.Engine, session perdure.SessionID, message perdure.MessageID) (after []perdure.Event, err error) {
	now, err := eng.Session(ctx, session)
	if err != nil {
		return nil, err
	}
	for end := now.LastSeq; end > 0; end -= lookBack {
		page, err := eng.Events(ctx, session, max(end-lookBack, 0), int(min(end, lookBack)))
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
