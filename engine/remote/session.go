package remote

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// NewSession starts a session for an agent. Its id is made here, so that a second try finds the session of
// the first for ever, and not only while the server remembers the key.
func (e *Engine) NewSession(ctx context.Context, agent perdure.Agent) (engine.Session, error) {
	return e.NewSessionAs(ctx, perdure.FormatID[perdure.SessionID](uuid.Must(uuid.NewV7())), agent)
}

// NewSessionAs starts a session under an id of the caller's.
func (e *Engine) NewSessionAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (engine.Session, error) {
	if _, err := perdure.ParseID[perdure.SessionID](string(id)); err != nil {
		return engine.Session{}, fmt.Errorf("new session: %w", err)
	}
	body := struct {
		Agent perdure.Agent     `json:"agent"`
		ID    perdure.SessionID `json:"id"`
	}{agent, id}
	var s engine.Session
	_, err := e.call(ctx, request{what: "new session " + string(id), path: "/v1/sessions", body: body}, &s)
	return s, err
}

// Session returns a session.
func (e *Engine) Session(ctx context.Context, id perdure.SessionID) (s engine.Session, err error) {
	_, err = e.call(ctx, request{what: "session " + string(id), path: "/v1/sessions/" + segment(id)}, &s)
	return s, err
}

// Sessions lists sessions, newest first.
func (e *Engine) Sessions(ctx context.Context, limit int) ([]engine.Session, error) {
	return e.SessionsWhere(ctx, engine.SessionFilter{Limit: limit})
}

// SessionsWhere lists the sessions that a filter matches, newest first.
func (e *Engine) SessionsWhere(ctx context.Context, f engine.SessionFilter) ([]engine.Session, error) {
	r := request{what: "sessions", path: "/v1/sessions", query: url.Values{}}
	if f.Status != "" {
		r.query.Set("state", string(f.Status))
	}
	for _, term := range f.Labels {
		r.query.Add("label", string(term))
	}
	return list[engine.Session](ctx, e, r, f.Limit)
}

// Send hands a message to a session. A message without an id is given one here, so that it is one message
// however often it is sent. Invalid, beside what the engine refuses: what the API does not carry, which is
// metadata and the parts of an agent's message.
func (e *Engine) Send(ctx context.Context, id perdure.SessionID, message perdure.Message) error {
	what := "send to " + string(id)
	if message.Role != perdure.RoleUser && message.Role != "" {
		return fmt.Errorf("%s: %w role %q: a message from outside is a user's", what, perdure.Invalid, message.Role)
	}
	if len(message.Metadata) > 0 || message.Thinking != "" || message.Signature != "" || message.Interrupted {
		return fmt.Errorf("%s: %w message: the API carries text, images, mode, model and id; leave metadata, thinking, signature and interrupted out",
			what, perdure.Invalid)
	}
	body := struct {
		Content []perdure.Part    `json:"content"`
		Mode    perdure.Mode      `json:"mode,omitempty"`
		Model   string            `json:"model,omitempty"`
		ID      perdure.MessageID `json:"id"`
	}{message.Parts, message.Mode, message.Model, message.ID}
	if body.ID == "" {
		body.ID = perdure.FormatID[perdure.MessageID](uuid.New())
	}
	if body.Content == nil {
		body.Content = []perdure.Part{}
	}
	_, err := e.call(ctx, request{what: what, path: "/v1/sessions/" + segment(id) + "/messages", body: body}, nil)
	return err
}

// reason is the body of what asks for an end.
type reason struct {
	Reason string `json:"reason,omitempty"`
}

// DeleteSession removes a session for good. Sent again because the answer was lost, it has the same answer.
func (e *Engine) DeleteSession(ctx context.Context, id perdure.SessionID) error {
	_, err := e.call(ctx, request{what: "delete " + string(id), path: "/v1/sessions/" + segment(id), remove: true}, nil)
	return err
}

// Interrupt asks for the end of the turn that runs.
func (e *Engine) Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error {
	_, err := e.call(ctx, request{
		what: "interrupt " + string(id), path: "/v1/sessions/" + segment(id) + "/interrupt", body: reason{why}, actor: by,
	}, nil)
	return err
}

// PauseSession has nothing new begin in a session until it is resumed.
func (e *Engine) PauseSession(ctx context.Context, id perdure.SessionID, by, why string) error {
	_, err := e.call(ctx, request{
		what: "pause " + string(id), path: "/v1/sessions/" + segment(id) + "/pause", body: reason{why}, actor: by,
	}, nil)
	return err
}

// ResumeSession lets a session go on that a person paused or a budget had stopped.
func (e *Engine) ResumeSession(ctx context.Context, id perdure.SessionID, by string) error {
	_, err := e.call(ctx, request{what: "resume " + string(id), path: "/v1/sessions/" + segment(id) + "/resume", body: struct{}{}, actor: by}, nil)
	return err
}

// WaitIdle returns when the session is at rest. It holds out while the server is away (Config.Outage).
func (e *Engine) WaitIdle(ctx context.Context, id perdure.SessionID) error {
	r := request{what: "wait for " + string(id), path: "/v1/sessions/" + segment(id)}
	return e.poll(ctx, r, nil, func(idle string) bool { return idle == "true" })
}

// poll asks with long polls until done says so. done gets the header Perdure-Idle; what is asked for is
// decoded into what into points to.
func (e *Engine) poll(ctx context.Context, r request, into any, done func(idle string) bool) error {
	r.query = url.Values{"wait": {longPoll.String()}}
	p := e.patience(e.cfg.Outage)
	for {
		asked := time.Now()
		header, err := e.callWith(ctx, r, into, p)
		if err != nil {
			return err
		}
		if done(header.Get("Perdure-Idle")) {
			return nil
		}
		if time.Since(asked) > lastPause {
			p.progress()
			continue
		}
		// A server that does not wait, since it drains say, is asked at growing intervals.
		if err := p.wait(ctx, &away{}); err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		p.meet()
	}
}
