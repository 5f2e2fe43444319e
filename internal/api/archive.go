package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// formLines is the media type of an exported session.
const formLines = "application/x-ndjson"

// newFork is the body of a fork.
type newFork struct {
	At      int64             `json:"at_seq,omitempty" minimum:"0" doc:"The seq of the last event to copy; 0: the latest event."`
	Effects string            `json:"effects,omitempty" enum:"ask,dry_run" doc:"What happens to new effects: ask requests an approval before each, dry_run performs none. Default ask."`
	Title   string            `json:"title,omitempty"`
	ID      perdure.SessionID `json:"id,omitempty" doc:"The id of the fork, for callers that generate ids. The same fork with the same id is one session."`
}

// importQuery holds the parameters of an import. The body is an exported session.
type importQuery struct {
	TakeOver bool `query:"take_over" doc:"The exported session no longer exists anywhere: continue its running work as after a crash."`
}

func (a archiveHandlers) register() {
	lines := map[string]*huma.MediaType{formLines: {Schema: &huma.Schema{
		Type: huma.TypeString, Description: "JSON lines: a header, the rows, and a trailer with their counts and SHA-256. Confidential: it contains the session's secret.",
	}}}
	write(a.API, operation{
		id: "fork-session", path: "/v1/sessions/{id}/fork", policy: writes, summary: "Start a session from the transcript of another one, without repeating its effects",
		status: http.StatusCreated, errors: []int{http.StatusNotFound},
	}, body[newFork]{example: newFork{At: 12, Effects: perdure.ForkDryRun}, optional: true}, a.forkSession)
	read(a.API, operation{
		id: "export-session", path: "/v1/sessions/{id}/export", policy: administers, summary: "Export a session with its subagents", errors: []int{http.StatusNotFound}, forms: lines,
	}, a.exportSession)
	writeAs(a.API, operation{
		method: http.MethodPost, id: "import-session", path: "/v1/sessions/import", policy: administers, summary: "Import a session that was exported", status: http.StatusCreated,
		errors: []int{http.StatusTooManyRequests}, maxBody: a.cfg.Limits.Archive, media: formLines,
	}, &huma.RequestBody{Required: true, Content: lines}, a.importSession)
}

func (a archiveHandlers) forkSession(ctx context.Context, in *OfSession, body newFork) (*created, error) {
	if body.At < 0 {
		return nil, invalid("/at_seq", "must be the seq of an event, or 0 for the latest")
	}
	if body.ID == "" {
		body.ID = newID[perdure.SessionID](ctx)
	}
	s, err := a.cfg.Engine.Sessions().Fork(ctx, in.ID, engine.Fork{ID: body.ID, At: body.At, Effects: body.Effects, Title: body.Title})
	return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
}

// exportSession answers with an archive. If the export fails halfway, the connection is cut, so
// that a client cannot mistake a partial archive for a complete one.
func (a archiveHandlers) exportSession(ctx context.Context, in *struct {
	OfSession
	Accept string `header:"Accept" hidden:"true"`
}) (*streamed, error) {
	if negotiate(in.Accept, formLines) == "" {
		return nil, notAcceptable(formLines)
	}
	return &streamed{Body: func(c huma.Context) {
		out := &lateResponse{to: c, media: formLines}
		a.endLate(ctx, out, a.cfg.Engine.Sessions().Export(ctx, in.ID, out))
	}}, nil
}

// lateResponse starts the response with its first byte, so that an earlier error can still be sent
// as a problem.
type lateResponse struct {
	to    huma.Context
	media string
	begun bool
}

// Write writes a part of the response. The first call sends the header.
func (w *lateResponse) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.to.SetHeader("Content-Type", w.media)
		w.to.SetStatus(http.StatusOK)
	}
	return w.to.BodyWriter().Write(p)
}

// endLate ends a response: after an error with a problem or, if it has begun, by cutting it.
func (a *API) endLate(ctx context.Context, out *lateResponse, err error) {
	switch {
	case err != nil && out.begun:
		a.abort(ctx, err)
	case err != nil:
		p := problemOf(ctx, err)
		a.logCause(ctx, p)
		out.to.SetHeader("Content-Type", p.ContentType(""))
		out.to.SetStatus(p.Status)
		_ = writeJSON(out.to.BodyWriter(), p) // the client may be gone
	}
}

func (a archiveHandlers) importSession(ctx context.Context, in *importQuery) (*created, error) {
	req := requestOf(ctx)
	s, err := a.cfg.Engine.Sessions().Import(ctx, bytes.NewReader(req.body), engine.Import{TakeOver: in.TakeOver})
	if errors.Is(err, perdure.Conflict) && req.repeated { // an earlier attempt under this key lost its response
		var head struct {
			ID perdure.SessionID `json:"session_id"`
		}
		first, _, _ := bytes.Cut(req.body, []byte("\n"))
		if perdure.DecodeKnownJSON(first, &head) == nil {
			if existing, lookErr := a.cfg.Engine.Sessions().Get(ctx, head.ID); lookErr == nil {
				s, err = existing, nil
			}
		}
	}
	return &created{Location: "/v1/sessions/" + string(s.ID), Body: s}, err
}
