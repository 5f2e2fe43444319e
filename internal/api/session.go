package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// newSession is the body of a session's creation.
type newSession struct {
	Agent *perdure.Agent    `json:"agent" doc:"Who the model is told to be, and its limits."`
	ID    perdure.SessionID `json:"id,omitempty" doc:"The session's own id, for callers that mint them. The same id with the same agent is one session."`
}

// interruption is the body of an interrupt.
type interruption struct {
	Reason string `json:"reason,omitempty"`
}

// retitling is the body of a session's change.
type retitling struct {
	Title string `json:"title" doc:"1 to 512 bytes."`
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
	write(a, operation{id: "create-session", path: "/v1/sessions", policy: writes, summary: "Start a session", status: http.StatusCreated},
		body[newSession]{example: newSession{Agent: &perdure.Agent{Name: "helper", Instructions: "Be brief."}}}, a.createSession)
	read(a, operation{id: "list-sessions", path: "/v1/sessions", policy: reads, summary: "List sessions, newest first"}, a.listSessions)
	read(a, operation{
		id: "get-session", path: "/v1/sessions/{id}", policy: reads, summary: "Show a session, or wait until it is at rest",
		errors: []int{http.StatusNotFound},
	}, a.getSession)
	replace(a, operation{
		id: "update-session", method: http.MethodPatch, path: "/v1/sessions/{id}", policy: writes, summary: "Change what a session is called",
		errors: []int{http.StatusNotFound}, route: route{own: true, tells: true},
	}, body[retitling]{example: retitling{Title: "Invoices of March"}}, a.updateSession)
	erase(a, operation{
		id: "delete-session", path: "/v1/sessions/{id}", policy: writes, summary: "Delete a session for good, with its subagents",
		errors: []int{http.StatusNotFound},
	}, a.deleteSession)
	write(a, operation{
		id: "interrupt-session", path: "/v1/sessions/{id}/interrupt", policy: writes, summary: "Interrupt the turn that runs",
		status: http.StatusAccepted, errors: []int{http.StatusNotFound},
	}, body[interruption]{example: interruption{Reason: "a better idea"}, optional: true}, a.interruptSession)
}

func (a *API) createSession(ctx context.Context, _ *struct{}, in newSession) (*created, error) {
	if in.Agent == nil {
		return nil, invalid("/agent", "it is required; {} is an agent without instructions")
	}
	if in.ID == "" {
		in.ID = newID[perdure.SessionID](ctx)
	}
	s, err := a.cfg.Engine.NewSessionAs(ctx, in.ID, *in.Agent)
	return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
}

// listSessions walks the list by the place of the last session shown. New sessions come before it, so none is
// skipped and none is shown twice. Whoever goes on is likely to go on further, so more is read for them than a page.
func (a *API) listSessions(ctx context.Context, in *struct{ Paged }) (*page[engine.Session], error) {
	// A kept listing, the place in it, and the last session: how many came up to it, when it began, and its id.
	which := whose(ctx) + "sessions"
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
		sessions, err := a.cfg.Engine.Sessions(ctx, most)
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
}, b retitling) (*oneSession, error) {
	o := engine.Retitling{Title: b.Title, By: requestOf(ctx).actor}
	if done, err := a.retitled(ctx, in.ID, b.Title, in.IfMatch != ""); done || err != nil {
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
	s, err := a.cfg.Engine.Retitle(ctx, in.ID, o)
	if errors.Is(err, perdure.Conflict) && in.IfMatch != "" {
		err = failedCondition("the session went on meanwhile")
	}
	return &oneSession{Body: s}, err
}

// retitled reports whether a change of title that was begun before had its effect then: somebody changed the title since it was
// begun, where there is a condition to this one.
func (a *API) retitled(ctx context.Context, id perdure.SessionID, title string, conditional bool) (done bool, err error) {
	req := requestOf(ctx)
	if !req.again {
		return false, nil
	}
	s, err := a.cfg.Engine.Session(ctx, id)
	if err != nil {
		return false, err
	}
	err = a.eachEvent(ctx, id, span{to: s.LastSeq}, func(e perdure.Event) error {
		f, ok := e.Fact.(perdure.SessionUpdated)
		done = done || ok && !e.At.Before(req.at) && (!conditional || f.Title == title && e.Actor == req.actor)
		return nil
	})
	return done, err
}

// deleteSession takes a session that is not there for one that it deleted before, when that was begun under the same key.
func (a *API) deleteSession(ctx context.Context, in *OfSession) (*nothing, error) {
	err := a.cfg.Engine.DeleteSession(ctx, in.ID)
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).again {
		err = nil
	}
	return &nothing{}, err
}

func (a *API) interruptSession(ctx context.Context, in *OfSession, body interruption) (*nothing, error) {
	return &nothing{}, a.cfg.Engine.Interrupt(ctx, in.ID, requestOf(ctx).actor, body.Reason)
}
