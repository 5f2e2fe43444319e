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
)

// MaxAuditWord is how many bytes each word of an entry keeps; what is longer is cut.
const MaxAuditWord = 256

// AuditEntry says who did what is to be answered for (S26). It holds neither secrets nor anybody's own words: those stand in the
// event that it names.
type AuditEntry struct {
	Org     string            `json:"org"`
	Seq     int64             `json:"seq"` // from 1, without a gap in an org
	At      time.Time         `json:"at"`
	Actor   string            `json:"actor"`  // a token and its user, a person, or the tool that did it
	Action  string            `json:"action"` // approval.resolved, secret.read, token.created …
	Subject string            `json:"subject"`
	Session perdure.SessionID `json:"session_id,omitempty"`
	Event   perdure.EventID   `json:"event_id,omitempty"` // of the session's journal; empty: the entry is all that there is
	Digest  string            `json:"digest,omitempty"`   // sha256 of that event as it is stored
	Detail  map[string]string `json:"detail,omitempty"`
	Prev    string            `json:"prev,omitempty"` // the hash of the entry before; empty: this is the first
	Hash    string            `json:"hash,omitempty"` // of all the rest; AddAudit makes it
}

// AuditLink is an entry as it is stored: its record is canonical JSON of all but the hash, which is of the record's bytes.
type AuditLink struct {
	Org    string
	Seq    int64
	Record []byte
	Hash   string
}

// AuditHead is where a chain ends.
type AuditHead struct {
	Org  string `json:"org"`
	Seq  int64  `json:"seq"`  // 0: nobody says
	Hash string `json:"hash"` // of that entry
}

// AuditReader reads the audit log.
type AuditReader interface {
	// AuditLinks returns up to limit entries of an org after seq, in order, as they are stored; limit 0 means all.
	AuditLinks(org string, after int64, limit int) ([]AuditLink, error)
	// AuditHeads says where the chain of each org ends that has one, by org. One whose head is gone has the seq 0.
	AuditHeads() ([]AuditHead, error)
}

// AuditWriter adds to the audit log. Nothing changes or removes an entry.
type AuditWriter interface {
	// AddAudit ends the chain of an org with an entry. Org, At and Seq, Prev and Hash are the store's; an empty org is the
	// default one. Append does it by itself for events that [AuditOf] knows.
	AddAudit(e AuditEntry) error
}

// AuditOf returns the entry of an event that is to be answered for: a person's word on a call or an outcome, a secret that was
// opened, a request that was refused, a budget that was lifted.
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

// AuditHash is a hash as entries have them.
func AuditHash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// acting is the key under which a context says who acts.
type acting struct{}

// Acting returns a context in which the audit log names somebody for what is done.
func Acting(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, acting{}, actor)
}

// ActorOf returns who acts; user is whoever holds the data directory and says no more.
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(acting{}).(string)
	return cmp.Or(actor, "user")
}

// Link makes the link that follows a head, at a moment.
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
		text, err = perdure.CanonicalJSON(text)
	}
	if err != nil {
		return AuditLink{}, fmt.Errorf("%w audit entry: %w", perdure.Invalid, err)
	}
	return AuditLink{Org: e.Org, Seq: e.Seq, Record: text, Hash: AuditHash(text)}, nil
}

// auditWord is a word that an entry can keep.
func auditWord(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), MaxAuditWord)], "")
}

// Entry reads a link. Storage: it is not what was written.
func (l AuditLink) Entry() (e AuditEntry, err error) {
	if AuditHash(l.Record) != l.Hash {
		return e, fmt.Errorf("%w: entry %d of the audit log of %s has another hash than its own", perdure.Storage, l.Seq, l.Org)
	}
	if err := json.Unmarshal(l.Record, &e); err != nil {
		return e, fmt.Errorf("%w: entry %d of the audit log of %s: %w", perdure.Storage, l.Seq, l.Org, err)
	}
	if e.Org != l.Org || e.Seq != l.Seq {
		return e, fmt.Errorf("%w: entry %d of the audit log of %s says that it is %d of %s", perdure.Storage, l.Seq, l.Org, e.Seq, e.Org)
	}
	e.Hash = l.Hash
	return e, nil
}

// auditPage is how many entries are held at once.
const auditPage = 512

// CheckAudit reads every chain whole. It calls each with every entry that is as it was written, and wrong with what is not; it
// finds an entry that was changed, removed, moved or cut, unless the rest of the chain and its head were made anew to fit.
func CheckAudit(r AuditReader, each func(AuditEntry), wrong func(format string, args ...any)) ([]AuditHead, error) {
	heads, err := r.AuditHeads()
	for _, head := range heads {
		last := AuditHead{Org: head.Org}
		for err == nil {
			var page []AuditLink
			page, err = r.AuditLinks(head.Org, last.Seq, auditPage)
			for _, link := range page {
				e, broken := link.Entry()
				switch {
				case broken != nil:
					wrong("%v", broken)
				case link.Seq != last.Seq+1:
					wrong("audit log of %s: what stood between the entries %d and %d is gone", head.Org, last.Seq, link.Seq)
				case e.Prev != last.Hash:
					wrong("audit log of %s: entry %d does not follow the one before", head.Org, link.Seq)
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
			wrong("audit log of %s: it ends with entry %d, and its head says %d: %s", head.Org, last.Seq, head.Seq, head.Hash)
		}
	}
	return heads, err
}
