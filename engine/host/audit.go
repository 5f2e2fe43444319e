package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// auditPage is the number of audit entries per read.
const auditPage = 500

func (e hostAudit) List(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	if q.Limit < 0 || q.After < 0 {
		return nil, fmt.Errorf("%w audit query: limit and after must not be negative", perdure.Invalid)
	}
	of, _ := engine.OwnerFromContext(ctx)
	var found []engine.AuditEntry
	for after, more := q.After, true; more; {
		page, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.AuditLink, error) {
			return r.Audit().Links(of.Org, after, auditPage)
		})
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		for _, link := range page {
			entry, err := link.Entry()
			if err != nil {
				return nil, fmt.Errorf("read the audit log: %w; run perdure admin verify for a complete check", err)
			}
			if shown := engine.AuditEntry(entry); matchesQuery(q, shown) {
				found = append(found, shown)
			}
			if after = link.Seq; q.Limit > 0 && len(found) == q.Limit {
				return found, nil
			}
		}
		more = len(page) == auditPage
	}
	return found, nil
}

// matchesQuery reports whether an entry matches a query.
func matchesQuery(q engine.AuditQuery, e engine.AuditEntry) bool {
	action := q.Action == "" || q.Action == e.Action
	if family, all := strings.CutSuffix(q.Action, "*"); all && strings.HasSuffix(family, ".") {
		action = strings.HasPrefix(e.Action, family)
	}
	return action && (q.Actor == "" || q.Actor == e.Actor) && (q.Subject == "" || q.Subject == e.Subject) &&
		(q.Session == "" || q.Session == e.Session)
}
