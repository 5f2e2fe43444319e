package sqlstore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

// The statements of the audit log. Writers of a chain hold the lock of its head.
const (
	auditLinks = `SELECT org, seq, record, hash FROM audit_entry WHERE org = $1 AND seq > $2 ORDER BY seq LIMIT $3`
	auditHeads = `SELECT org, seq, hash FROM audit_head
		UNION ALL SELECT DISTINCT org, 0, '' FROM audit_entry e WHERE NOT EXISTS (SELECT 1 FROM audit_head h WHERE h.org = e.org)`
	beginAudit  = `INSERT INTO audit_head (org, seq, hash) VALUES ($1, 0, '') ON CONFLICT DO NOTHING`
	auditHead   = `SELECT org, seq, hash FROM audit_head WHERE org = $1`
	auditLast   = `SELECT COALESCE(MAX(seq), 0) FROM audit_entry WHERE org = $1`
	insertAudit = `INSERT INTO audit_entry (org, seq, hash, record) VALUES ($1, $2, $3, $4)`
	moveAudit   = `UPDATE audit_head SET seq = $2, hash = $3 WHERE org = $1`
	orgOf       = `SELECT org FROM session WHERE id = $1`
)

// Links returns entries of an org after seq, in order.
func (tx auditStore) Links(org string, after int64, limit int) ([]store.AuditLink, error) {
	found, err := list(tx.Tx, func(r row) (l store.AuditLink, err error) {
		err = r.Scan(&l.Org, &l.Seq, &l.Record, &l.Hash)
		return l, err
	}, auditLinks, org, after, orAll(limit))
	return wrapped(found, err, "read the audit log of %s", org)
}

func (tx auditStore) Heads() ([]store.AuditHead, error) {
	found, err := list(tx.Tx, scanAuditHead, auditHeads)
	if err != nil {
		return nil, fmt.Errorf("read the heads of the audit log: %w", err)
	}
	// not by a collation of the database
	slices.SortFunc(found, func(a, b store.AuditHead) int { return cmp.Compare(a.Org, b.Org) })
	return found, nil
}

func scanAuditHead(r row) (h store.AuditHead, err error) {
	err = r.Scan(&h.Org, &h.Seq, &h.Hash)
	return h, err
}

// Add appends an entry to the chain of an org. If the head was changed or removed, the new
// entry follows the last stored one, and permanently shows that the chain is broken there.
func (tx auditStore) Add(e store.AuditEntry) error {
	org := cmp.Or(e.Org, budget.DefaultOrg)
	_, err := tx.exec(beginAudit, org)
	var head store.AuditHead
	if err == nil {
		head, err = one(tx.Tx, scanAuditHead, tx.locked(auditHead), org)
	}
	var last int64
	if err == nil {
		last, err = one(tx.Tx, number, auditLast, org)
		head.Seq = max(head.Seq, last)
	}
	var link store.AuditLink
	if err == nil {
		link, err = e.Link(head, tx.Now())
	}
	if err == nil {
		_, err = tx.exec(insertAudit, link.Org, link.Seq, link.Hash, link.Record)
	}
	if err == nil {
		_, err = tx.exec(moveAudit, link.Org, link.Seq, link.Hash)
	}
	return wrap(err, "add to the audit log of %s", org)
}

// auditEvents adds the entries of audited events.
func (tx *Tx) auditEvents(session perdure.SessionID, events []perdure.Event) error {
	for _, e := range events {
		entry, audited, err := store.AuditOf(e)
		if err == nil && audited {
			if entry.Org, err = one(tx, name[string], orgOf, session); err == nil {
				err = tx.Audit().Add(entry)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
