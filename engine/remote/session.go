package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Create creates a session for an agent. The client chooses the id, so that a retry finds the
// same session at any later time, and not only while the server remembers the idempotency key.
func (e engineSessions) Create(ctx context.Context, agent perdure.Agent) (engine.Session, error) {
	return e.Sessions().CreateAs(ctx, perdure.FormatID[perdure.SessionID](uuid.Must(uuid.NewV7())), agent)
}

// CreateAs creates a session with an id chosen by the caller.
func (e engineSessions) CreateAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (engine.Session, error) {
	if _, err := perdure.ParseID[perdure.SessionID](string(id)); err != nil {
		return engine.Session{}, fmt.Errorf("new session: %w", err)
	}
	body := struct {
		Agent perdure.Agent     `json:"agent"`
		ID    perdure.SessionID `json:"id"`
	}{agent, id}
	var s engine.Session
	_, err := e.call(ctx, request{what: "new session " + string(id), path: "/v1/sessions", body: body, noTimeout: true}, &s)
	return s, err
}

// Ensure returns the session with a key, and creates it if there is none. The server knows the org
// that the key belongs to.
func (e engineSessions) Ensure(ctx context.Context, key string, agent perdure.Agent) (s engine.Session, err error) {
	what := fmt.Sprintf("session with key %.80q", key)
	if err := engine.CheckSessionKey(key); err != nil {
		return s, fmt.Errorf("%s: %w", what, err)
	}
	body := struct {
		Agent perdure.Agent `json:"agent"`
		Key   string        `json:"key"`
	}{agent, key}
	_, err = e.call(ctx, request{what: what, path: "/v1/sessions", body: body, noTimeout: true}, &s)
	return s, err
}

func (e engineSessions) Get(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	return fetch[engine.Session](ctx, e.Engine, request{what: "session " + string(id), path: "/v1/sessions/" + segment(id)})
}

// List lists sessions, newest first.
func (e engineSessions) List(ctx context.Context, limit int) ([]engine.Session, error) {
	return e.Sessions().ListWhere(ctx, engine.SessionFilter{Limit: limit})
}

// ListWhere lists the sessions that a filter matches, newest first. After a place, it walks the
// list from its start, since the server continues a list only by cursors of its own.
func (e engineSessions) ListWhere(ctx context.Context, f engine.SessionFilter) ([]engine.Session, error) {
	r := request{what: "sessions", path: "/v1/sessions", query: url.Values{}}
	if f.Roots {
		r.query.Set("roots", "true")
	}
	if f.Status != "" {
		r.query.Set("state", string(f.Status))
	}
	if f.Title != "" {
		r.query.Set("text", string(f.Title))
	}
	for _, term := range f.Labels {
		r.query.Add("label", string(term))
	}
	for _, id := range f.IDs {
		r.query.Add("id", string(id))
	}
	most := f.Limit
	if f.After.ID != "" {
		most = 0
	}
	all, err := list[engine.Session](ctx, e.Engine, r, most)
	all = slices.DeleteFunc(all, func(s engine.Session) bool { return !f.After.Precedes(s) })
	if f.Limit > 0 {
		all = all[:min(f.Limit, len(all))]
	}
	for i := range all {
		if !f.Costs { // the server adds them to every list
			all[i].Cost = nil
		}
	}
	return all, err
}

// Send adds a message to a session. The client creates the id of a message without one, so that a
// retry sends the same message. It checks the message, because not all of it reaches the server.
func (e *Engine) Send(
	ctx context.Context, id perdure.SessionID, message perdure.Message,
) (sent engine.Sent, err error) {
	what := "send to " + string(id)
	if err = message.CheckInput(); err != nil {
		return sent, fmt.Errorf("%s: %w", what, err)
	}
	body := struct {
		Content  []perdure.Part    `json:"content"`
		Mode     perdure.Mode      `json:"mode,omitempty"`
		Model    string            `json:"model,omitempty"`
		ID       perdure.MessageID `json:"id"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}{message.Parts, message.Mode, message.Model, message.ID, message.Metadata}
	body.ID = cmp.Or(body.ID, perdure.FormatID[perdure.MessageID](uuid.New()))
	_, err = e.call(ctx, request{what: what, path: "/v1/sessions/" + segment(id) + "/messages", body: body}, &sent)
	return sent, err
}

// reasonBody is the body of a request to end or pause something.
type reasonBody struct {
	Reason string `json:"reason,omitempty"`
}

// cancelBody is the body of a cancel of a task.
type cancelBody struct {
	Reason string `json:"reason,omitempty"`
	Force  bool   `json:"force,omitempty"`
}

// Delete permanently removes a session. A retry gets the same response.
func (e engineSessions) Delete(ctx context.Context, id perdure.SessionID) error {
	_, err := e.call(ctx, request{what: "delete " + string(id), path: "/v1/sessions/" + segment(id), remove: true}, nil)
	return err
}

func (e engineSessions) Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error {
	_, err := e.call(ctx, request{
		what: "interrupt " + string(id), path: "/v1/sessions/" + segment(id) + "/interrupt", body: reasonBody{why},
		actor: by,
	}, nil)
	return err
}

// Pause stops new work of a session until it is resumed.
func (e engineSessions) Pause(ctx context.Context, id perdure.SessionID, by, why string) error {
	_, err := e.call(ctx, request{
		what: "pause " + string(id), path: "/v1/sessions/" + segment(id) + "/pause", body: reasonBody{why}, actor: by,
	}, nil)
	return err
}

// Resume resumes a session that a person has paused or a budget has stopped.
func (e engineSessions) Resume(ctx context.Context, id perdure.SessionID, by string) error {
	_, err := e.call(ctx, request{
		what: "resume " + string(id), path: "/v1/sessions/" + segment(id) + "/resume", body: struct{}{}, actor: by,
	}, nil)
	return err
}

// WaitIdle returns when the session is idle. It survives outages of the server (Config.Outage).
func (e engineSessions) WaitIdle(ctx context.Context, id perdure.SessionID) error {
	r := request{what: "wait for " + string(id), path: "/v1/sessions/" + segment(id)}
	return e.poll(ctx, r, nil, func(idle string) bool { return idle == "true" })
}

// poll sends long polls until done returns true. It decodes each response into *into, and passes
// the header Perdure-Idle to done.
func (e *Engine) poll(ctx context.Context, r request, into any, done func(idle string) bool) error {
	r.query = url.Values{"wait": {longPoll.String()}}
	p := e.retryBudget(e.cfg.Outage)
	for {
		asked := time.Now()
		header, err := e.callWith(ctx, r, into, p)
		if err != nil {
			return err
		}
		if done(header.Get("Perdure-Idle")) {
			return nil
		}
		if time.Since(asked) > maxPause {
			p.resetPause()
			continue
		}
		// A server that does not wait, for example because it is shutting down, is asked at growing
		// intervals.
		if err := p.wait(ctx, &retryableError{}); err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		p.noteResponse()
	}
}
