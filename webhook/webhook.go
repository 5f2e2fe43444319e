package webhook

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// The bounds of a webhook.
const (
	MaxURLBytes = 2 << 10
	MaxTypes    = 40  // that a webhook may name (ST6)
	MaxWebhooks = 200 // of an org
)

// Purpose is what a delivery is sent for. What the operator lists for it opens nothing else, and nothing else opens it (EG5).
const Purpose = "webhook"

// Ping is the type of what a test sends. It stands in no journal.
const Ping = "webhook.ping"

// Body says what is sent of an event.
type Body string

// The bodies. The zero value is BodyID.
const (
	BodyID       Body = "id"       // its type, and the ids to ask for
	BodySnapshot Body = "snapshot" // the event as the API shows it
)

// Webhook is a place to which events are sent.
type Webhook struct {
	ID           perdure.WebhookID   `json:"id"`
	URL          string              `json:"url"`
	Types        []string            `json:"types,omitempty"` // task.* is all that begin with task.; empty: all that can be sent
	Body         Body                `json:"body"`
	Session      perdure.SessionID   `json:"session_id,omitempty"` // whose events; empty: everybody's
	Labels       perdure.LabelFilter `json:"labels,omitempty"`     // only events of sessions that have all of these when the event is queued; empty: of all
	Owner        string              `json:"owner,omitempty"`      // who made it
	Org          string              `json:"org,omitempty"`        // whose it is, and whose events it gets; empty: the default one
	Enabled      bool                `json:"enabled"`
	Disabled     string              `json:"disabled_reason,omitempty"` // empty: it is enabled, or nobody said
	Failures     int                 `json:"failures"`                  // tries in a row that failed
	FailingSince time.Time           `json:"failing_since,omitzero"`    // the first of them; zero: the last one succeeded
	CreatedAt    time.Time           `json:"created_at"`
	UpdatedAt    time.Time           `json:"updated_at"`
	Version      int64               `json:"version"` // counts the writes, from 1
}

// Made is a webhook with its secret, which is shown when it is made and never again.
type Made struct {
	Webhook
	Secret string `json:"secret,omitempty"`
}

// Change is what is to become of a webhook; nil leaves a part as it is.
type Change struct {
	URL     *string              `json:"url,omitempty"`
	Types   *[]string            `json:"types,omitempty"`
	Body    *Body                `json:"body,omitempty"`
	Labels  *perdure.LabelFilter `json:"labels,omitempty"`
	Enabled *bool                `json:"enabled,omitempty"` // true: from now on; what happened meanwhile is not sent
}

// On is the webhook after a change.
func (c Change) On(w Webhook) Webhook {
	if c.URL != nil {
		w.URL = *c.URL
	}
	if c.Types != nil {
		w.Types = *c.Types
	}
	if c.Body != nil {
		w.Body = *c.Body
	}
	if c.Labels != nil {
		w.Labels = *c.Labels
	}
	if c.Enabled != nil && *c.Enabled != w.Enabled {
		w.Enabled, w.Disabled = *c.Enabled, ""
		if w.Enabled {
			w.Failures, w.FailingSince = 0, time.Time{}
		}
	}
	return w
}

// Check says what is wrong with a webhook. It is Invalid. Where its URL leads is the guard's to check.
func (w Webhook) Check() error {
	if _, err := perdure.ParseID[perdure.WebhookID](string(w.ID)); err != nil {
		return err
	}
	if w.Session != "" {
		if _, err := perdure.ParseID[perdure.SessionID](string(w.Session)); err != nil {
			return err
		}
	}
	u, err := url.Parse(w.URL)
	switch {
	case err != nil || len(w.URL) > MaxURLBytes || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%w webhook: its url begins with https:// (or http://), names a host, and has at most %d bytes", perdure.Invalid, MaxURLBytes)
	case u.User != nil:
		return fmt.Errorf("%w webhook: a url with a user or a password would stand in logs; the signature says who sends", perdure.Invalid)
	case w.Body != BodyID && w.Body != BodySnapshot:
		return fmt.Errorf("%w webhook: its body is id or snapshot", perdure.Invalid)
	case len(w.Types) > MaxTypes:
		return fmt.Errorf("%w webhook: it names %d types; at most %d", perdure.Invalid, len(w.Types), MaxTypes)
	}
	if err := w.Labels.Check(); err != nil {
		return err
	}
	for _, one := range w.Types {
		if !slices.ContainsFunc(types, func(t perdure.EventType) bool { return matches(one, string(t)) }) {
			return fmt.Errorf("%w webhook: %.60q is no type that is sent, nor the beginning of one with .*: %s", perdure.Invalid, one, strings.Join(Types(), ", "))
		}
	}
	return nil
}

// From is the session that an event is of.
type From struct {
	Org    string // empty: the default one
	Labels perdure.Labels
}

// Wants reports whether an event is to be sent to a webhook.
func (w Webhook) Wants(from From, e perdure.Event) bool {
	if !w.Enabled || w.Org != from.Org || w.Session != "" && w.Session != e.Session || !w.Labels.Matches(from.Labels) || !Sent(e) {
		return false
	}
	return len(w.Types) == 0 || slices.ContainsFunc(w.Types, func(one string) bool { return matches(one, string(e.Type())) })
}

// matches reports whether a pattern, which is a type or the beginning of one with .*, takes a type.
func matches(pattern, kind string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return pattern == kind || wild && strings.HasSuffix(prefix, ".") && strings.HasPrefix(kind, prefix)
}

// types are those that can be sent: ends, and what somebody outside has to answer.
var types = []perdure.EventType{
	"turn.completed", "turn.failed", "turn.canceled", "turn.sealed",
	"task.updated", "task.resolved", "task.cancel_receipt",
	"approval.requested", "approval.resolved", "tool.call_requested", "tool.unknown", "tool.resolved",
	"session.waiting", "session.idled", "session.stopped", "session.paused", "session.resumed",
	"schedule.fired", "schedule.skipped", "schedule.paused",
	"budget.warning", "budget.paused", "budget.exhausted", "budget.resumed", "lease.cleanup_failed",
}

// Types lists the types that can be sent.
func Types() []string {
	all := make([]string, 0, len(types))
	for _, t := range types {
		all = append(all, string(t))
	}
	return all
}

// Sent reports whether an event can be sent: an end, or a question to somebody outside. Of what changes about a task these
// are its end and that it awaits input.
func Sent(e perdure.Event) bool {
	if f, ok := e.Fact.(perdure.TaskUpdated); ok {
		return f.Task.State.Terminal() || f.Task.State == perdure.TaskAwaitingInput
	}
	return slices.Contains(types, e.Type())
}
