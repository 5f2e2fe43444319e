package cli

import (
	"context"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type auditCommand struct {
	List auditList `cmd:"" help:"List who did what is to be answered for, the oldest first. Nobody can change an entry; admin verify says whether somebody did."`
}

type auditList struct {
	Action  string `help:"Only this, as approval.resolved; token.* is all that begin with token." placeholder:"ACTION"`
	Actor   string `help:"Only what they did, as the entries name them." placeholder:"WHO"`
	Subject string `help:"Only what was done to this." placeholder:"WHAT"`
	Session string `help:"Only what was done in this session." placeholder:"ID"`
	After   int64  `help:"Only entries after this seq." placeholder:"SEQ"`
	Limit   int    `help:"How many at most; 0 is all." default:"0" placeholder:"N"`
	output
}

// Run lists entries of the audit log.
func (c *auditList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		q := engine.AuditQuery{After: c.After, Limit: c.Limit, Action: c.Action, Actor: c.Actor, Subject: c.Subject}
		if id, err := perdure.ParseID[perdure.SessionID](c.Session); err == nil {
			q.Session = id // also one that was removed: what was done there stays
		} else if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			q.Session = s.ID
		}
		all, err := eng.Audit(ctx, q)
		if err != nil {
			return err
		}
		now := a.now()
		return listing[engine.AuditEntry]{
			noun: "entries", head: []string{"SEQ", "WHEN", "ACTOR", "ACTION", "SUBJECT", "SESSION"},
			name: func(one engine.AuditEntry) string { return strconv.FormatInt(one.Seq, 10) },
			row: func(one engine.AuditEntry) []cell {
				return []cell{{text: strconv.FormatInt(one.Seq, 10)}, {text: moment(one.At, now)}, {text: one.Actor}, {one.Action, bold}, {text: one.Subject}, {string(one.Session), dim}}
			},
		}.print(ctx, a, c.output, all)
	})
}
