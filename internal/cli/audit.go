package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type auditCommand struct {
	List auditList `cmd:"" aliases:"ls" help:"List the audit log, by default oldest entries first. Entries are tamper-evident; check them with admin verify."`
}

type auditList struct {
	Action  string `help:"Only this action, for instance approval.resolved, or token.* for all token actions." placeholder:"ACTION"`
	Actor   string `help:"Only actions of this actor." placeholder:"WHO"`
	Subject string `help:"Only actions on this subject." placeholder:"WHAT"`
	Session string `help:"Only actions in this session." placeholder:"ID"`
	After   int64  `help:"Only entries after this sequence number." placeholder:"SEQ"`
	Newest  bool   `help:"Newest entries first."`
	listFlags
}

// Run lists entries of the audit log.
func (c *auditList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		q := engine.AuditQuery{After: c.After, Newest: c.Newest, Limit: c.asked(), Action: c.Action, Actor: c.Actor, Subject: c.Subject}
		if id, err := perdure.ParseID[perdure.SessionID](c.Session); err == nil {
			q.Session = id // the session may be deleted: its entries stay
		} else if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			q.Session = s.ID
		}
		all, err := eng.Audit().List(ctx, q)
		if err != nil {
			return err
		}
		now := a.now()
		if all, err = within(c.listFlags, now.Time, all, func(one engine.AuditEntry) time.Time { return one.At }); err != nil {
			return err
		}
		return outputList[engine.AuditEntry]{
			noun: "entries", head: []string{"SEQ", "WHEN", "ACTOR", "ACTION", "SUBJECT", "SESSION"},
			name: func(one engine.AuditEntry) string { return strconv.FormatInt(one.Seq, 10) },
			row: func(one engine.AuditEntry) []cell {
				return []cell{{text: strconv.FormatInt(one.Seq, 10)}, {text: moment(one.At, now)}, {text: one.Actor},
					{one.Action, bold}, {text: one.Subject}, {string(one.Session), dim}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}
