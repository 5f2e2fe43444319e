package memory

import (
	"cmp"
	"fmt"

	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

// audits is the audit log.
type audits struct {
	auditLinks tree[store.AuditLink] // by org and seq
	auditHeads tree[store.AuditHead] // by org
}

func auditKey(org string, seq int64) string { return fmt.Sprintf("%s\x00%020d", org, seq) }

// Links returns entries of an org after seq, in order.
func (v auditStore) Links(org string, after int64, limit int) (found []store.AuditLink, err error) {
	for _, link := range v.auditLinks.from(auditKey(org, max(after, 0)+1)) {
		if link.Org != org || limit > 0 && len(found) == limit {
			break
		}
		link.Record = append([]byte(nil), link.Record...)
		found = append(found, link)
	}
	return found, nil
}

func (v auditStore) Heads() (found []store.AuditHead, err error) {
	for _, head := range v.auditHeads.from("") {
		found = append(found, head)
	}
	return found, nil
}

func (t auditStore) Add(e store.AuditEntry) error {
	org := cmp.Or(e.Org, budget.DefaultOrg)
	head, _ := t.auditHeads.get(org)
	head.Org = org
	link, err := e.Link(head, t.now)
	if err != nil {
		return fmt.Errorf("add to the audit log of %s: %w", org, err)
	}
	t.auditLinks = t.auditLinks.put(auditKey(org, link.Seq), link)
	t.auditHeads = t.auditHeads.put(org, store.AuditHead{Org: org, Seq: link.Seq, Hash: link.Hash})
	return nil
}
