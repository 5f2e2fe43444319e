package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// auditPage is the number of audit entries per read.
const auditPage = 500

func (e hostAudit) List(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	if q.Limit < 0 || q.After < 0 || q.Before < 0 {
		return nil, fmt.Errorf("%w audit query: limit, after and before must not be negative", perdure.Invalid)
	}
	of, _ := engine.OwnerFromContext(ctx)
	if q.Newest {
		return e.newest(ctx, of.Org, q)
	}
	var found []engine.AuditEntry
	for after, more := q.After, true; more; {
		page, err := e.page(ctx, of.Org, after, auditPage)
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			if q.Before > 0 && entry.Seq >= q.Before {
				return found, nil
			}
			if matchesQuery(q, entry) {
				found = append(found, entry)
			}
			if after = entry.Seq; q.Limit > 0 && len(found) == q.Limit {
				return found, nil
			}
		}
		more = len(page) == auditPage
	}
	return found, nil
}

// newest lists entries from the end of the log to its start.
func (e hostAudit) newest(ctx context.Context, org string, q engine.AuditQuery) (found []engine.AuditEntry, err error) {
	before := q.Before
	if before == 0 {
		if before, err = e.end(ctx, org); err != nil {
			return nil, err
		}
	}
	for before > q.After+1 {
		after := max(before-1-auditPage, q.After)
		page, err := e.page(ctx, org, after, int(before-1-after))
		if err != nil {
			return nil, err
		}
		for _, entry := range slices.Backward(page) {
			if entry.Seq < before && matchesQuery(q, entry) {
				found = append(found, entry)
			}
			if q.Limit > 0 && len(found) == q.Limit {
				return found, nil
			}
		}
		before = after + 1
	}
	return found, nil
}

// end returns the number after that of the last entry. It does not trust the stored head alone: a
// head that was changed must not hide entries.
func (e hostAudit) end(ctx context.Context, org string) (int64, error) {
	heads, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.AuditHead, error) { return r.Audit().Heads() })
	if err != nil {
		return 0, fmt.Errorf("read the audit log: %w", err)
	}
	var last int64
	for _, head := range heads {
		if head.Org == org {
			last = max(head.Seq, 0)
		}
	}
	for {
		page, err := e.page(ctx, org, last, auditPage)
		if err != nil || len(page) == 0 {
			return last + 1, err
		}
		last = page[len(page)-1].Seq
	}
}

// page returns up to limit entries of an org after seq.
func (e hostAudit) page(ctx context.Context, org string, after int64, limit int) ([]engine.AuditEntry, error) {
	links, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.AuditLink, error) {
		return r.Audit().Links(org, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	page := make([]engine.AuditEntry, len(links))
	for i, link := range links {
		entry, err := link.Entry()
		if err != nil {
			return nil, fmt.Errorf("read the audit log: %w; run perdure admin verify for a complete check", err)
		}
		page[i] = engine.AuditEntry(entry)
	}
	return page, nil
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
