package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

// MaxAuditTextBytes is the largest length of each text of an entry, in bytes; longer ones are cut.
const MaxAuditTextBytes = 256

// AuditEntry records an action for which a person is accountable. It contains neither secrets nor
// free text: those are in the event that it names.
type AuditEntry struct {
	Org     string            `json:"org"`
	Seq     int64             `json:"seq"` // from 1, without gaps within an org
	At      time.Time         `json:"at"`
	Actor   string            `json:"actor"`  // a token and its user, a person, or a tool
	Action  string            `json:"action"` // approval.resolved, secret.read, token.created …
	Subject string            `json:"subject"`
	Session perdure.SessionID `json:"session_id,omitempty"`
	Event   perdure.EventID   `json:"event_id,omitempty"` // of the session's journal; empty: there is no event
	Digest  string            `json:"digest,omitempty"`   // SHA-256 of that event as stored
	Detail  map[string]string `json:"detail,omitempty"`
	Prev    string            `json:"prev,omitempty"` // hash of the previous entry; empty: this is the first
	Hash    string            `json:"hash,omitempty"` // of all other fields; AddAudit computes it
}

// AuditLink is an entry as stored: Record is the canonical JSON of all fields but Hash, and Hash is
// the hash of its bytes.
type AuditLink struct {
	Org    string
	Seq    int64
	Record []byte
	Hash   string
}

// AuditHead is the end of a chain.
type AuditHead struct {
	Org  string `json:"org"`
	Seq  int64  `json:"seq"`  // 0: unknown
	Hash string `json:"hash"` // of that entry
}

// AuditReader reads the audit log.
type AuditReader interface {
	// Links returns up to limit entries of an org after seq, in order, as stored; limit 0
	// means all.
	Links(org string, after int64, limit int) ([]AuditLink, error)
	// Heads returns the head of every chain, by org. If a head is missing, its Seq is 0.
	Heads() ([]AuditHead, error)
}

// AuditWriter appends to the audit log. Entries are never changed or removed.
type AuditWriter interface {
	// Add appends an entry to the chain of its org. The store sets At, Seq, Prev and Hash; an
	// empty Org is the default one. Append calls it for the events that [AuditOf] knows.
	Add(e AuditEntry) error
}

// AuditOf returns the audit entry of an event. Audited events are decisions of a person about a
// call or an outcome, opened secrets, denied requests and resumed budgets.
func AuditOf(e perdure.Event) (entry AuditEntry, audited bool, err error) {
	entry = AuditEntry{Action: string(e.Type()), Session: e.Session, Event: e.ID, Detail: map[string]string{}}
	if e.Call != "" {
		entry.Detail["call_id"] = string(e.Call)
	}
	if e.Task != "" {
		entry.Detail["task_id"] = string(e.Task)
	}
	switch f := e.Fact.(type) {
	case perdure.ApprovalResolved:
		entry.Actor, entry.Subject, entry.Detail["state"] = f.By, string(f.Approval), string(f.State)
	case perdure.ToolResolved:
		entry.Actor, entry.Subject, entry.Detail["answer"] = f.By, string(f.CallID), string(f.Answer)
	case perdure.TaskResolved:
		entry.Actor, entry.Subject, entry.Detail["answer"] = f.By, string(e.Task), string(f.Answer)
	case perdure.AuditRecorded:
		entry.Action, entry.Actor, entry.Subject, entry.Detail["sealed"] = f.Action, f.Purpose, f.Subject, f.Hash
	case perdure.RequestDenied:
		entry.Subject, entry.Detail["layer"] = f.Host, f.Layer
	case perdure.BudgetResumed:
		entry.Actor, entry.Subject = f.By, string(f.BudgetID)
	default:
		return AuditEntry{}, false, nil
	}
	body, err := perdure.EncodeEvent(e)
	if err != nil {
		return AuditEntry{}, false, err
	}
	entry.Digest = AuditHash(body)
	return entry, true, nil
}

// AuditHash returns a hash in the form that entries contain.
func AuditHash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// acting is the context key of the actor.
type acting struct{}

// Acting returns a context whose actions the audit log attributes to actor.
func Acting(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, acting{}, actor)
}

// ActorOf returns the actor of a context. Without one it is "user": the owner of the data
// directory.
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(acting{}).(string)
	return cmp.Or(actor, "user")
}

// Link returns the link that follows a head, at a time.
func (e AuditEntry) Link(head AuditHead, at time.Time) (AuditLink, error) {
	e.Org, e.Seq, e.Prev, e.Hash, e.At = head.Org, head.Seq+1, head.Hash, "", at.UTC().Truncate(time.Microsecond)
	for _, word := range []*string{&e.Actor, &e.Action, &e.Subject} {
		*word = auditWord(*word)
	}
	detail := map[string]string{}
	for name, word := range e.Detail {
		if word != "" {
			detail[name] = auditWord(word)
		}
	}
	e.Detail = detail
	text, err := json.Marshal(e)
	if err == nil {
		text, err = strictjson.Canonical(text)
	}
	if err != nil {
		return AuditLink{}, fmt.Errorf("%w audit entry: %w", perdure.Invalid, err)
	}
	return AuditLink{Org: e.Org, Seq: e.Seq, Record: text, Hash: AuditHash(text)}, nil
}

// auditWord cuts a text to the length that an entry stores.
func auditWord(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), MaxAuditTextBytes)], "")
}

// Entry decodes a link. Storage: it is not readable.
func (l AuditLink) Entry() (e AuditEntry, err error) {
	if AuditHash(l.Record) != l.Hash {
		return e, fmt.Errorf("%w: entry %d of the audit log of %s does not match its hash", perdure.Storage, l.Seq,
			l.Org)
	}
	if err := json.Unmarshal(l.Record, &e); err != nil {
		return e, fmt.Errorf("%w: entry %d of the audit log of %s: %w", perdure.Storage, l.Seq, l.Org, err)
	}
	if e.Org != l.Org || e.Seq != l.Seq {
		return e, fmt.Errorf("%w: entry %d of the audit log of %s contains entry %d of %s", perdure.Storage, l.Seq,
			l.Org, e.Seq, e.Org)
	}
	e.Hash = l.Hash
	return e, nil
}

// auditPage is how many entries are in memory at once.
const auditPage = 512

// CheckAudit reads every chain completely. It calls each for every intact entry, and wrong for
// every defect. It detects entries that were changed, removed, moved or cut off, unless the rest of
// the chain and its head were rewritten to match.
func CheckAudit(r AuditReader, each func(AuditEntry), wrong func(format string, args ...any)) ([]AuditHead, error) {
	heads, err := r.Heads()
	for _, head := range heads {
		last := AuditHead{Org: head.Org}
		for err == nil {
			var page []AuditLink
			page, err = r.Links(head.Org, last.Seq, auditPage)
			for _, link := range page {
				e, broken := link.Entry()
				switch {
				case broken != nil:
					wrong("%v", broken)
				case link.Seq != last.Seq+1:
					wrong("audit log of %s: entries between %d and %d are missing", head.Org, last.Seq, link.Seq)
				case e.Prev != last.Hash:
					wrong("audit log of %s: entry %d does not follow the previous one", head.Org, link.Seq)
				default:
					each(e)
				}
				last.Seq, last.Hash = link.Seq, link.Hash
			}
			if len(page) == 0 {
				break
			}
		}
		if err == nil && last != head {
			wrong("audit log of %s: it ends with entry %d, but its head says %d: %s", head.Org, last.Seq, head.Seq,
				head.Hash)
		}
	}
	return heads, err
}
