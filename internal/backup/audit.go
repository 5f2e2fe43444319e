package backup

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// parseHead reads where an audit log ended: ORG:SEQ:HASH, as admin verify prints it. Invalid: it is none.
func parseHead(text string) (head store.AuditHead, err error) {
	org, rest, ok := strings.Cut(text, ":")
	number, hash, also := strings.Cut(rest, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if !ok || !also || err != nil || org == "" || seq < 1 || hash == "" {
		return head, fmt.Errorf("%w end of an audit log %.80q: write ORG:SEQ:HASH, as admin verify prints it", perdure.Invalid, text)
	}
	return store.AuditHead{Org: org, Seq: seq, Hash: hash}, nil
}

// audit reads the audit log of every org, and notes what it has of the events of sessions.
func (r *Report) audit(reader store.Reader) error {
	hashes := map[store.AuditHead]bool{}
	heads, err := store.CheckAudit(reader, func(e store.AuditEntry) {
		r.Audited++
		hashes[store.AuditHead{Org: e.Org, Seq: e.Seq, Hash: e.Hash}] = true
		if e.Event != "" {
			r.digests[e.Event] = e.Digest
		}
	}, r.wrong)
	r.AuditHeads = heads
	for _, head := range r.known {
		if err == nil && !hashes[head] {
			r.wrong("audit log of %s: entry %d is not the one that was there once: %s", head.Org, head.Seq, head.Hash)
		}
	}
	return err
}
