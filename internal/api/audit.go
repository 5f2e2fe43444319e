package api

import (
	"context"
	"fmt"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// auditQuery is what the audit log is asked for with.
type auditQuery struct {
	Action  string            `query:"action" example:"token.*" doc:"Only this; token.* is all that begin with token."`
	Actor   string            `query:"actor" doc:"Only what they did, as entries name them."`
	Subject string            `query:"subject" doc:"Only what was done to this."`
	Session perdure.SessionID `query:"session" doc:"Only what was done in this session."`
	After   int64             `query:"after" minimum:"0" doc:"The seq after which the entries begin; 0 is the start."`
	Paged
}

func (a *API) auditOperations() {
	read(a, operation{
		id: "list-audit", path: "/v1/audit", policy: administers,
		summary: "List who did what is to be answered for, in the order in which it was done",
	}, a.listAudit)
}

func (a *API) listAudit(ctx context.Context, in *auditQuery) (*page[engine.AuditEntry], error) {
	which := fmt.Sprintf("%saudit %q %q %q %q", whose(ctx), in.Action, in.Actor, in.Subject, in.Session)
	place, err := a.cursors.read(which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	after := in.After
	if place != nil {
		if after, err = strconv.ParseInt(place[0], 10, 64); err != nil {
			return nil, err // signed by us
		}
	}
	limit := in.limit()
	found, err := a.cfg.Engine.Audit(ctx, engine.AuditQuery{
		After: after, Limit: limit + 1, Action: in.Action, Actor: in.Actor, Subject: in.Subject, Session: in.Session,
	})
	if err != nil {
		return nil, err
	}
	return pageOf(found, limit, func(e engine.AuditEntry) string { return a.cursors.write(which, strconv.FormatInt(e.Seq, 10)) }), nil
}
