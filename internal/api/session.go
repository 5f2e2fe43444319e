package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// newSession is the body of a request that creates a session.
type newSession struct {
	Agent *perdure.Agent `json:"agent,omitempty" doc:"The agent: its instructions, model, tools and limits. Required unless agent_id is given."`
	// AgentID, Model and Metadata belong together; agent itself has the last two.
	AgentID  string            `json:"agent_id,omitempty" doc:"Instead of agent: the id or the name of a stored agent or of one given in the configuration."`
	Model    string            `json:"model,omitempty" doc:"With agent_id: a model that replaces the agent's own."`
	Metadata map[string]string `json:"metadata,omitempty" doc:"With agent_id: metadata of the host, added to that of the agent."`
	ID       perdure.SessionID `json:"id,omitempty" doc:"The id of the session, for callers that generate ids. The same id with the same agent, title and labels is one session."`
	Key      string            `json:"key,omitempty" doc:"Instead of id, with agent: a key of the caller, any text of at most 1024 bytes, that the session is found by again. The first request creates the session; later requests with the same agent return it. Each org has keys of its own."`
	// Title and Labels belong to the session. The agent has them too, so that an agent alone can
	// describe a whole session.
	Title  string         `json:"title,omitempty" doc:"The title; default the agent's title."`
	Labels perdure.Labels `json:"labels,omitempty" doc:"Labels for finding the session: at most 64, with keys of 1 to 63 characters of a-z, 0-9 and . _ / - and values of at most 256 bytes. Default the agent's labels."`
}

// interruption is the body of an interrupt or a pause.
type interruption struct {
	Reason string `json:"reason,omitempty"`
}

// sessionChange is the body of a session update, a merge patch.
type sessionChange struct {
	Title  *string              `json:"title,omitempty" doc:"1 to 512 bytes."`
	Labels perdure.LabelChanges `json:"labels,omitempty" doc:"The labels to change; null removes a label."`
}

// OfSession is the path of a session.
type OfSession struct {
	ID perdure.SessionID `path:"id" example:"session_019aa0000000700080000000000000aa" doc:"The session."`
}

type created struct {
	Location string `header:"Location"`
	Body     engine.Session
}

type oneSession struct {
	Idle string `header:"Perdure-Idle" doc:"With wait: whether the session is idle."`
	Body engine.Session
}

// nothing is an empty response of success.
type nothing struct {
	Body struct{}
}

func (a sessionHandlers) register() {
	title, env := "Invoices of March", "prod" // of an example
	write(a.API, operation{id: "create-session", path: "/v1/sessions", policy: writes, summary: "Start a session", status: http.StatusCreated},
		body[newSession]{example: newSession{Agent: &perdure.Agent{Name: "helper", Instructions: "Be brief."}}}, a.createSession)
	read(a.API, operation{id: "list-sessions", path: "/v1/sessions", policy: reads, summary: "List sessions, newest first"}, a.listSessions)
	read(a.API, operation{
		id: "get-session", path: "/v1/sessions/{id}", policy: reads, summary: "Show a session, or wait until it is idle",
		errors: []int{http.StatusNotFound},
	}, a.getSession)
	replace(a.API, operation{
		id: "update-session", method: http.MethodPatch, path: "/v1/sessions/{id}", policy: writes, summary: "Change the title and the labels of a session",
		errors: []int{http.StatusNotFound}, route: route{checksConditions: true, returnsResource: true},
	}, body[sessionChange]{example: sessionChange{Title: &title, Labels: perdure.LabelChanges{"env": &env, "draft": nil}}}, a.updateSession)
	erase(a.API, operation{
		id: "delete-session", path: "/v1/sessions/{id}", policy: writes, summary: "Delete a session and its subagents permanently",
		errors: []int{http.StatusNotFound},
	}, a.deleteSession)
	write(a.API, operation{
		id: "interrupt-session", path: "/v1/sessions/{id}/interrupt", policy: writes, class: stopsWork, summary: "Interrupt the running turn",
		status: http.StatusAccepted, errors: []int{http.StatusNotFound},
	}, body[interruption]{example: interruption{Reason: "a better idea"}, optional: true}, a.interruptSession)
	write(a.API, operation{
		id: "pause-session", path: "/v1/sessions/{id}/pause", policy: writes, class: stopsWork, summary: "Pause a session: nothing new starts until it is resumed", errors: []int{http.StatusNotFound},
	}, body[interruption]{example: interruption{Reason: "let me look first"}, optional: true}, a.pauseSession)
	write(a.API, operation{
		id: "resume-session", path: "/v1/sessions/{id}/resume", policy: approves, summary: "Resume a session that was paused by a person or stopped by a budget", errors: []int{http.StatusNotFound},
	}, body[resuming]{optional: true}, a.resumeSession)
	a.registerHomes()
}

func (a sessionHandlers) createSession(ctx context.Context, _ *struct{}, in newSession) (*created, error) {
	switch {
	case in.Key != "" && (in.ID != "" || in.Agent == nil):
		return nil, invalid("/key", "a key requires agent, and cannot be combined with id or agent_id")
	case in.Agent == nil && in.AgentID == "":
		return nil, invalid("/agent", "agent or agent_id is required; {} is an agent without instructions")
	case in.Agent != nil && (in.AgentID != "" || in.Model != "" || in.Metadata != nil):
		return nil, invalid("/agent", "agent cannot be combined with agent_id, model or metadata")
	case in.ID == "":
		in.ID = newID[perdure.SessionID](ctx)
	}
	if in.Agent == nil {
		s, err := a.cfg.Engine.Sessions().CreateFromAgent(ctx, engine.AgentSessionRequest{ID: in.ID, Agent: in.AgentID, Title: in.Title, Labels: in.Labels, Model: in.Model, Metadata: in.Metadata})
		return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
	}
	in.Agent.Title = cmp.Or(in.Title, in.Agent.Title)
	if in.Labels != nil {
		in.Agent.Labels = in.Labels
	}
	if in.Key != "" {
		s, err := a.cfg.Engine.Sessions().Ensure(ctx, in.Key, *in.Agent)
		return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
	}
	s, err := a.cfg.Engine.Sessions().CreateAs(ctx, in.ID, *in.Agent)
	return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
}

// listSessions continues after the position of the last session shown. New sessions are added
// before it, so none is skipped and none is shown twice. A page reads its own sessions only.
func (a sessionHandlers) listSessions(ctx context.Context, in *struct {
	Paged
	State perdure.SessionStatus `query:"state" enum:"started,active,idle,waiting_for_tool_results,paused" doc:"Only sessions in this state."`
	Roots bool                  `query:"roots" doc:"Only root sessions: no sessions of subagents."`
	Text  string                `query:"text" example:"invoices march" doc:"Only sessions whose title contains each word of this text, in upper or lower case: at most 200 bytes."`
	ID    []perdure.SessionID   `query:"id,explode" maxItems:"200" example:"[\"session_019aa0000000700080000000000000aa\"]" doc:"Only sessions with this id. May be repeated up to 200 times."`
	Label []string              `query:"label,explode" example:"[\"env=prod\"]" doc:"Only sessions with this label: its key, or key=value. May be repeated up to 16 times; a session must match all of them."`
}) (*page[engine.Session], error) {
	which, filter := orgPrefix(ctx)+"sessions", engine.SessionFilter{Status: in.State, Roots: in.Roots, Title: perdure.TitleFilter(in.Text)}
	if in.State != "" {
		which += "\nstate " + string(in.State) // label keys contain no spaces
	}
	if in.Roots {
		which += "\nroots "
	}
	if in.Text != "" {
		which += "\ntext " + strconv.Quote(in.Text)
	}
	for _, id := range in.ID {
		which += "\nid =" + string(id)
		filter.IDs = append(filter.IDs, id)
	}
	for _, term := range in.Label {
		which += "\n" + term // a cursor is bound to its filter
		filter.Labels = append(filter.Labels, perdure.LabelTerm(term))
	}
	if err := filter.Labels.Check(); err != nil {
		return nil, invalid("query.label", "%s", err)
	}
	if err := filter.Title.Check(); err != nil {
		return nil, invalid("query.text", "%s", err)
	}
	place, err := a.cursors.read(which, in.Cursor, 2) // creation time and id of the last one shown
	if err != nil {
		return nil, err
	}
	if place != nil {
		micros, _ := strconv.ParseInt(place[0], 10, 64) // cursors are signed, so this does not fail
		filter.After = engine.SessionPlace{CreatedAt: time.UnixMicro(micros), ID: perdure.SessionID(place[1])}
	}
	filter.Limit, filter.Costs = in.limit()+1, true
	sessions, err := a.cfg.Engine.Sessions().ListWhere(ctx, filter)
	if err != nil {
		return nil, err
	}
	return pageOf(sessions, in.limit(), func(s engine.Session) string {
		return a.cursors.write(which, strconv.FormatInt(s.CreatedAt.UnixMicro(), 10), string(s.ID))
	}), nil
}

func (a sessionHandlers) getSession(ctx context.Context, in *struct {
	OfSession
	Waits
}) (*oneSession, error) {
	wait, err := in.duration(a.cfg.Timing.MaxWait)
	if err != nil {
		return nil, err
	}
	out := &oneSession{}
	if wait > 0 {
		waiting, cancel := a.withPatience(ctx, wait)
		err := a.cfg.Engine.Sessions().WaitIdle(waiting, in.ID)
		ended := waiting.Err() != nil
		cancel()
		if err != nil && (!ended || ctx.Err() != nil) {
			return nil, err
		}
		out.Idle = strconv.FormatBool(err == nil)
	}
	out.Body, err = a.cfg.Engine.Sessions().Get(ctx, in.ID)
	return out, err
}

// updateSession changes a session. It reads the session to check the condition, and the engine
// checks again in the commit.
func (a sessionHandlers) updateSession(ctx context.Context, in *struct {
	OfSession
	IfMatch string `header:"If-Match" doc:"Only if the session still has this ETag; * matches any."`
}, b sessionChange) (*oneSession, error) {
	o := engine.SessionChange{Title: b.Title, Labels: b.Labels, By: requestOf(ctx).actor}
	if done, err := a.alreadyChanged(ctx, in.ID, o, in.IfMatch != ""); done || err != nil {
		s, lookErr := a.cfg.Engine.Sessions().Get(ctx, in.ID)
		return &oneSession{Body: s}, errors.Join(err, lookErr)
	}
	if in.IfMatch != "" {
		old, err := a.cfg.Engine.Sessions().Get(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		tag, err := tagOfJSON(old)
		if err == nil {
			err = checkIfMatch(in.IfMatch, tag)
			o.If = old.LastSeq
		}
		if err != nil {
			return nil, err
		}
	}
	s, err := a.cfg.Engine.Sessions().Change(ctx, in.ID, o)
	if errors.Is(err, perdure.Conflict) && in.IfMatch != "" {
		err = failedCondition("the session has changed in the meantime")
	}
	return &oneSession{Body: s}, err
}

// alreadyChanged reports whether a repeated change counts as done: everything that it names was
// changed since the first attempt started, or already has the requested value. If the change is
// conditional, one of those events must come from this request itself.
func (a sessionHandlers) alreadyChanged(ctx context.Context, id perdure.SessionID, o engine.SessionChange, conditional bool) (done bool, err error) {
	req := requestOf(ctx)
	if !req.repeated {
		return false, nil
	}
	s, err := a.cfg.Engine.Sessions().Get(ctx, id)
	if err != nil {
		return false, err
	}
	titled, open, own := o.Title == nil || *o.Title == s.Title, o.Labels.Against(s.Labels), false
	err = a.eachEvent(ctx, id, section{to: s.LastSeq}, func(e perdure.Event) error {
		f, ok := e.Fact.(perdure.SessionUpdated)
		if !ok || e.At.Before(req.at) {
			return nil
		}
		titled = titled || f.Title != ""
		maps.DeleteFunc(open, func(key string, _ *string) bool { _, named := f.Labels[key]; return named })
		own = own || e.Actor == req.actor && isPartOf(f, o)
		return nil
	})
	return titled && len(open) == 0 && (own || !conditional), err
}

// isPartOf reports whether an event contains only changes that o asks for.
func isPartOf(f perdure.SessionUpdated, o engine.SessionChange) bool {
	for key, value := range f.Labels {
		requested, named := o.Labels[key]
		if !named || (requested == nil) != (value == nil) || value != nil && *requested != *value {
			return false
		}
	}
	return f.Title == "" || o.Title != nil && *o.Title == f.Title
}

// deleteSession deletes a session. If an earlier attempt under the same key was started and the
// session no longer exists, that counts as success.
func (a sessionHandlers) deleteSession(ctx context.Context, in *OfSession) (*nothing, error) {
	err := a.cfg.Engine.Sessions().Delete(ctx, in.ID)
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).repeated {
		err = nil
	}
	return &nothing{}, err
}

// resuming is the empty body of a resume.
type resuming struct{}

func (a sessionHandlers) pauseSession(ctx context.Context, in *OfSession, body interruption) (*oneSession, error) {
	if err := a.cfg.Engine.Sessions().Pause(ctx, in.ID, requestOf(ctx).actor, body.Reason); err != nil {
		return nil, err
	}
	s, err := a.cfg.Engine.Sessions().Get(ctx, in.ID)
	return &oneSession{Body: s}, err
}

func (a sessionHandlers) resumeSession(ctx context.Context, in *OfSession, _ resuming) (*nothing, error) {
	err := a.cfg.Engine.Sessions().Resume(ctx, in.ID, requestOf(ctx).actor)
	if errors.Is(err, perdure.Conflict) && requestOf(ctx).repeated {
		err = nil // an earlier attempt resumed it
	}
	return &nothing{}, err
}

func (a sessionHandlers) interruptSession(ctx context.Context, in *OfSession, body interruption) (*nothing, error) {
	return &nothing{}, a.cfg.Engine.Sessions().Interrupt(ctx, in.ID, requestOf(ctx).actor, body.Reason)
}
