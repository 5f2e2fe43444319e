package backup

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// parseHead parses the end of an audit log: ORG:SEQ:HASH, as admin verify prints it. Invalid: the
// text is malformed.
func parseHead(text string) (head store.AuditHead, err error) {
	org, rest, ok := strings.Cut(text, ":")
	number, hash, also := strings.Cut(rest, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if !ok || !also || err != nil || org == "" || seq < 1 || hash == "" {
		return head, fmt.Errorf("%w audit log end %.80q: want ORG:SEQ:HASH, as printed by admin verify", perdure.Invalid, text)
	}
	return store.AuditHead{Org: org, Seq: seq, Hash: hash}, nil
}

// audit checks the audit log of every organisation, and remembers its digests of session events.
func (r *Report) audit(reader store.Reader) error {
	hashes := map[store.AuditHead]bool{}
	heads, err := store.CheckAudit(reader.Audit(), func(e store.AuditEntry) {
		r.Audited++
		hashes[store.AuditHead{Org: e.Org, Seq: e.Seq, Hash: e.Hash}] = true
		if e.Event != "" {
			r.digests[e.Event] = e.Digest
		}
	}, r.addProblem)
	r.AuditHeads = heads
	for _, head := range r.known {
		if err == nil && !hashes[head] {
			r.addProblem("audit log of %s: entry %d is not the entry given as known: %s", head.Org, head.Seq, head.Hash)
		}
	}
	return err
}
