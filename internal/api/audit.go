package api

import (
	"context"
	"fmt"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// auditQuery holds the parameters of a query of the audit log.
type auditQuery struct {
	Action  string            `query:"action" example:"token.*" doc:"Only this action; token.* matches all actions that start with token."`
	Actor   string            `query:"actor" doc:"Only entries of this actor, as named in the entries."`
	Subject string            `query:"subject" doc:"Only entries about this subject."`
	Session perdure.SessionID `query:"session" doc:"Only entries of this session."`
	After   int64             `query:"after" minimum:"0" doc:"Only entries after this seq; 0 is the start."`
	Before  int64             `query:"before" minimum:"0" doc:"Only entries before this seq; 0 is the end."`
	Order   string            `query:"order" enum:"oldest,newest" doc:"Which entry comes first; default oldest."`
	Paged
}

func (a auditHandlers) register() {
	read(a.API, operation{
		id: "list-audit", path: "/v1/audit", policy: administers,
		summary: "List the audit log, by default the oldest entry first",
	}, a.listAudit)
}

func (a auditHandlers) listAudit(ctx context.Context, in *auditQuery) (*page[engine.AuditEntry], error) {
	newest := in.Order == "newest"
	which := fmt.Sprintf("%saudit %q %q %q %q", orgPrefix(ctx), in.Action, in.Actor, in.Subject, in.Session)
	if newest {
		which += fmt.Sprintf(" newest after %d", in.After)
	}
	place, err := a.cursors.read(which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	after, before := in.After, in.Before
	if place != nil {
		from := &after
		if newest {
			from = &before
		}
		if *from, err = strconv.ParseInt(place[0], 10, 64); err != nil {
			return nil, err // cursors are signed, so this does not fail
		}
	}
	limit := in.limit()
	found, err := a.cfg.Engine.Audit().List(ctx, engine.AuditQuery{
		After: after, Before: before, Newest: newest, Limit: limit + 1, Action: in.Action, Actor: in.Actor, Subject: in.Subject, Session: in.Session,
	})
	if err != nil {
		return nil, err
	}
	return pageOf(found, limit, func(e engine.AuditEntry) string { return a.cursors.write(which, strconv.FormatInt(e.Seq, 10)) }), nil
}
