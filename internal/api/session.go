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

// newSession is the body of a session's creation.
type newSession struct {
	Agent *perdure.Agent `json:"agent,omitempty" doc:"Who the model is told to be, and its limits. Else agent_id says it."`
	// AgentID, Model and Metadata go together: with agent, that says the other two itself.
	AgentID  string            `json:"agent_id,omitempty" doc:"Instead of agent: the id or the name of one that is kept, or of one that the program was given."`
	Model    string            `json:"model,omitempty" doc:"With agent_id: the model that is asked instead of its own."`
	Metadata map[string]string `json:"metadata,omitempty" doc:"With agent_id: the host's own, beside the agent's, by key."`
	ID       perdure.SessionID `json:"id,omitempty" doc:"The session's own id, for callers that mint them. The same id with the same agent, title and labels is one session."`
	// Title and Labels are the session's, and the agent has the same two, so that it says all by which a session begins.
	Title  string         `json:"title,omitempty" doc:"What it is called; else the agent's title."`
	Labels perdure.Labels `json:"labels,omitempty" doc:"What it is found by: at most 64, of keys of 1 to 63 of a-z, 0-9 and . _ / - and values of at most 256 bytes. Else the agent's labels."`
}

// interruption is the body of an interrupt, and of a pause.
type interruption struct {
	Reason string `json:"reason,omitempty"`
}

// sessionChange is the body of a session's change, a merge patch.
type sessionChange struct {
	Title  *string              `json:"title,omitempty" doc:"1 to 512 bytes."`
	Labels perdure.LabelChanges `json:"labels,omitempty" doc:"Those that change; null removes one."`
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
	Idle string `header:"Perdure-Idle" doc:"With wait: whether the session is at rest."`
	Body engine.Session
}

// nothing is an answer that says only that it is done.
type nothing struct {
	Body struct{}
}

func (a *API) sessionOperations() {
	title, env := "Invoices of March", "prod" // of an example
	write(a, operation{id: "create-session", path: "/v1/sessions", policy: writes, summary: "Start a session", status: http.StatusCreated},
		body[newSession]{example: newSession{Agent: &perdure.Agent{Name: "helper", Instructions: "Be brief."}}}, a.createSession)
	read(a, operation{id: "list-sessions", path: "/v1/sessions", policy: reads, summary: "List sessions, newest first"}, a.listSessions)
	read(a, operation{
		id: "get-session", path: "/v1/sessions/{id}", policy: reads, summary: "Show a session, or wait until it is at rest",
		errors: []int{http.StatusNotFound},
	}, a.getSession)
	replace(a, operation{
		id: "update-session", method: http.MethodPatch, path: "/v1/sessions/{id}", policy: writes, summary: "Change what a session is called, and its labels",
		errors: []int{http.StatusNotFound}, route: route{own: true, tells: true},
	}, body[sessionChange]{example: sessionChange{Title: &title, Labels: perdure.LabelChanges{"env": &env, "draft": nil}}}, a.updateSession)
	erase(a, operation{
		id: "delete-session", path: "/v1/sessions/{id}", policy: writes, summary: "Delete a session for good, with its subagents",
		errors: []int{http.StatusNotFound},
	}, a.deleteSession)
	write(a, operation{
		id: "interrupt-session", path: "/v1/sessions/{id}/interrupt", policy: writes, summary: "Interrupt the turn that runs",
		status: http.StatusAccepted, errors: []int{http.StatusNotFound},
	}, body[interruption]{example: interruption{Reason: "a better idea"}, optional: true}, a.interruptSession)
	write(a, operation{
		id: "pause-session", path: "/v1/sessions/{id}/pause", policy: writes, summary: "Have nothing new begin in a session until it is resumed", errors: []int{http.StatusNotFound},
	}, body[interruption]{example: interruption{Reason: "let me look first"}, optional: true}, a.pauseSession)
	write(a, operation{
		id: "resume-session", path: "/v1/sessions/{id}/resume", policy: approves, summary: "Let a session go on that a person paused or a budget had stopped", errors: []int{http.StatusNotFound},
	}, body[resuming]{optional: true}, a.resumeSession)
}

func (a *API) createSession(ctx context.Context, _ *struct{}, in newSession) (*created, error) {
	if in.ID == "" {
		in.ID = newID[perdure.SessionID](ctx)
	}
	switch {
	case in.Agent == nil && in.AgentID == "":
		return nil, invalid("/agent", "it is required; {} is an agent without instructions, and agent_id names one that is there")
	case in.Agent != nil && (in.AgentID != "" || in.Model != "" || in.Metadata != nil):
		return nil, invalid("/agent", "it says all; agent_id, model and metadata go without it")
	case in.Agent == nil:
		s, err := a.cfg.Engine.StartOf(ctx, engine.AgentOrder{ID: in.ID, Agent: in.AgentID, Title: in.Title, Labels: in.Labels, Model: in.Model, Metadata: in.Metadata})
		return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
	}
	in.Agent.Title = cmp.Or(in.Title, in.Agent.Title)
	if in.Labels != nil {
		in.Agent.Labels = in.Labels
	}
	s, err := a.cfg.Engine.NewSessionAs(ctx, in.ID, *in.Agent)
	return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
}

// listSessions walks the list by the place of the last session shown. New sessions come before it, so none is
// skipped and none is shown twice. Whoever goes on is likely to go on further, so more is read for them than a page.
func (a *API) listSessions(ctx context.Context, in *struct {
	Paged
	State perdure.SessionStatus `query:"state" enum:"started,active,idle,waiting_for_tool_results,paused" doc:"Only sessions that stand there."`
	Label []string              `query:"label,explode" example:"[\"env=prod\"]" doc:"Only sessions with this label: its key, or key=value. Given several times, at most 16, all must hold."`
}) (*page[engine.Session], error) {
	which, filter := whose(ctx)+"sessions", engine.SessionFilter{Status: in.State}
	if in.State != "" {
		which += "\nstate " + string(in.State) // no label has a blank in its key
	}
	for _, term := range in.Label {
		which += "\n" + term // a cursor is one of its filter
		filter.Labels = append(filter.Labels, perdure.LabelTerm(term))
	}
	if err := filter.Labels.Check(); err != nil {
		return nil, invalid("query.label", "%s", err)
	}
	// A kept listing, the place in it, and the last session: how many came up to it, when it began, and its id.
	place, err := a.cursors.read(which, in.Cursor, 5)
	if err != nil {
		return nil, err
	}
	limit, passed, last := in.limit(), 0, engine.Session{}
	cut := func(rest stretch[engine.Session]) *page[engine.Session] {
		return pageOf(rest.items, limit, func(s engine.Session) string {
			return a.cursors.write(which, rest.name, rest.next(limit), strconv.Itoa(passed+limit), strconv.FormatInt(s.CreatedAt.UnixMicro(), 10), string(s.ID))
		})
	}
	most := limit + 1
	if place != nil {
		passed, _ = strconv.Atoi(place[2]) // signed by us
		if rest, ok := recall[engine.Session](&a.kept, place[0], place[1], limit); ok {
			return cut(rest), nil
		}
		micros, _ := strconv.ParseInt(place[3], 10, 64)
		last.CreatedAt, last.ID = time.UnixMicro(micros), perdure.SessionID(place[4])
		most = 4 * (passed + limit + 1)
	}
	for ; ; most *= 2 {
		began := time.Now()
		filter.Limit = most
		sessions, err := a.cfg.Engine.SessionsWhere(ctx, filter)
		if err != nil {
			return nil, err
		}
		from := 0
		for place != nil && from < len(sessions) && !older(sessions[from], last) {
			from++
		}
		rest := sessions[from:]
		if len(rest) <= limit && len(sessions) == most {
			continue // sessions came meanwhile: look further
		}
		passed = from
		return cut(keep(&a.kept, rest, limit, began)), nil
	}
}

// older reports whether s comes after last in the list.
func older(s, last engine.Session) bool {
	if c := s.CreatedAt.Truncate(time.Microsecond).Compare(last.CreatedAt); c != 0 {
		return c < 0
	}
	return s.ID < last.ID
}

func (a *API) getSession(ctx context.Context, in *struct {
	OfSession
	Waits
}) (*oneSession, error) {
	wait, err := in.duration(a.cfg.MaxWait)
	if err != nil {
		return nil, err
	}
	out := &oneSession{}
	if wait > 0 {
		waiting, cancel := a.patience(ctx, wait)
		err := a.cfg.Engine.WaitIdle(waiting, in.ID)
		ended := waiting.Err() != nil
		cancel()
		if err != nil && (!ended || ctx.Err() != nil) {
			return nil, err
		}
		out.Idle = strconv.FormatBool(err == nil)
	}
	out.Body, err = a.cfg.Engine.Session(ctx, in.ID)
	return out, err
}

// updateSession changes a session. What it compares it has read itself, and the engine compares again in the commit.
func (a *API) updateSession(ctx context.Context, in *struct {
	OfSession
	IfMatch string `header:"If-Match" doc:"Only if the session still has this ETag; * is any."`
}, b sessionChange) (*oneSession, error) {
	o := engine.SessionChange{Title: b.Title, Labels: b.Labels, By: requestOf(ctx).actor}
	if done, err := a.changed(ctx, in.ID, o, in.IfMatch != ""); done || err != nil {
		s, lookErr := a.cfg.Engine.Session(ctx, in.ID)
		return &oneSession{Body: s}, errors.Join(err, lookErr)
	}
	if in.IfMatch != "" {
		old, err := a.cfg.Engine.Session(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		tag, err := tagOfJSON(old)
		if err == nil {
			err = allowed(in.IfMatch, tag)
			o.If = old.LastSeq
		}
		if err != nil {
			return nil, err
		}
	}
	s, err := a.cfg.Engine.ChangeSession(ctx, in.ID, o)
	if errors.Is(err, perdure.Conflict) && in.IfMatch != "" {
		err = failedCondition("the session went on meanwhile")
	}
	return &oneSession{Body: s}, err
}

// changed reports whether a change that was begun before had its effect then, or may count as if: whatever it names was changed
// since it was begun, or is so. Where there is a condition to it, it must have been this one.
func (a *API) changed(ctx context.Context, id perdure.SessionID, o engine.SessionChange, conditional bool) (done bool, err error) {
	req := requestOf(ctx)
	if !req.again {
		return false, nil
	}
	s, err := a.cfg.Engine.Session(ctx, id)
	if err != nil {
		return false, err
	}
	titled, open, own := o.Title == nil || *o.Title == s.Title, o.Labels.Against(s.Labels), false
	err = a.eachEvent(ctx, id, span{to: s.LastSeq}, func(e perdure.Event) error {
		f, ok := e.Fact.(perdure.SessionUpdated)
		if !ok || e.At.Before(req.at) {
			return nil
		}
		titled = titled || f.Title != ""
		maps.DeleteFunc(open, func(key string, _ *string) bool { _, there := f.Labels[key]; return there })
		own = own || e.Actor == req.actor && partOf(f, o)
		return nil
	})
	return titled && len(open) == 0 && (own || !conditional), err
}

// partOf reports whether a fact says nothing that a change does not ask for.
func partOf(f perdure.SessionUpdated, o engine.SessionChange) bool {
	for key, value := range f.Labels {
		asked, there := o.Labels[key]
		if !there || (asked == nil) != (value == nil) || value != nil && *asked != *value {
			return false
		}
	}
	return f.Title == "" || o.Title != nil && *o.Title == f.Title
}

// deleteSession takes a session that is not there for one that it deleted before, when that was begun under the same key.
func (a *API) deleteSession(ctx context.Context, in *OfSession) (*nothing, error) {
	err := a.cfg.Engine.DeleteSession(ctx, in.ID)
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).again {
		err = nil
	}
	return &nothing{}, err
}

// resuming is the body of a resume: there is nothing to say.
type resuming struct{}

func (a *API) pauseSession(ctx context.Context, in *OfSession, body interruption) (*oneSession, error) {
	if err := a.cfg.Engine.PauseSession(ctx, in.ID, requestOf(ctx).actor, body.Reason); err != nil {
		return nil, err
	}
	s, err := a.cfg.Engine.Session(ctx, in.ID)
	return &oneSession{Body: s}, err
}

func (a *API) resumeSession(ctx context.Context, in *OfSession, _ resuming) (*nothing, error) {
	err := a.cfg.Engine.ResumeSession(ctx, in.ID, requestOf(ctx).actor)
	if errors.Is(err, perdure.Conflict) && requestOf(ctx).again {
		err = nil // it goes on since
	}
	return &nothing{}, err
}

func (a *API) interruptSession(ctx context.Context, in *OfSession, body interruption) (*nothing, error) {
	return &nothing{}, a.cfg.Engine.Interrupt(ctx, in.ID, requestOf(ctx).actor, body.Reason)
}
