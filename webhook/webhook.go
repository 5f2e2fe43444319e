package webhook

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// Limits of webhooks.
const (
	MaxURLBytes = 2 << 10
	MaxTypes    = 40  // in the filter of a webhook
	MaxWebhooks = 200 // of an org
)

// Purpose is the egress purpose of deliveries. The addresses that the operator lists for it are
// open to deliveries only, and the addresses listed for other purposes are closed to deliveries.
const Purpose = "webhook"

// Ping is the type of a test event. It is in no journal.
const Ping = "webhook.ping"

// Body says what a delivery contains.
type Body string

// The bodies. The zero value is BodyID.
const (
	BodyID       Body = "id"       // type and ids of the event
	BodySnapshot Body = "snapshot" // the event in the form of the API
)

// Webhook is an endpoint that events are sent to.
type Webhook struct {
	ID      perdure.WebhookID `json:"id"`
	URL     string            `json:"url"`
	Types   []string          `json:"types,omitempty"` // event types, or prefixes like task.*; empty: all types
	Body    Body              `json:"body"`
	Session perdure.SessionID `json:"session_id,omitempty"` // only events of this session; empty: all sessions
	// Labels restricts the webhook to sessions that have all of these labels when the event is
	// queued. Empty: all sessions.
	Labels       perdure.LabelFilter `json:"labels,omitempty"`
	Owner        string              `json:"owner,omitempty"` // the user who created it
	Org          string              `json:"org,omitempty"`   // only events of this org; empty: the default org
	Enabled      bool                `json:"enabled"`
	Disabled     string              `json:"disabled_reason,omitempty"` // why it is disabled; may be empty
	Failures     int                 `json:"failures"`                  // consecutive failed attempts
	FailingSince time.Time           `json:"failing_since,omitzero"`    // the first of them; zero: none
	CreatedAt    time.Time           `json:"created_at"`
	UpdatedAt    time.Time           `json:"updated_at"`
	Version      int64               `json:"version"` // counts the writes, from 1
}

// Created is a new webhook with its secret. The secret is shown only once.
type Created struct {
	Webhook
	Secret string `json:"secret,omitempty"`
}

// Patch changes a webhook; nil keeps a field as it is.
type Patch struct {
	URL     *string              `json:"url,omitempty"`
	Types   *[]string            `json:"types,omitempty"`
	Body    *Body                `json:"body,omitempty"`
	Labels  *perdure.LabelFilter `json:"labels,omitempty"`
	Enabled *bool                `json:"enabled,omitempty"` // true: events since it was disabled are not sent
}

// Apply returns the webhook after the change.
func (c Patch) Apply(w Webhook) Webhook {
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

// Check returns an Invalid error if the webhook is wrong. The egress guard checks where its URL
// leads.
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
		return fmt.Errorf("%w webhook: its url must start with https:// or http://, contain a host, "+
			"and have at most %d bytes", perdure.Invalid, MaxURLBytes)
	case u.User != nil:
		return fmt.Errorf("%w webhook: its url must not contain a user or a password, which would appear in logs; "+
			"the signature identifies the sender", perdure.Invalid)
	case w.Body != BodyID && w.Body != BodySnapshot:
		return fmt.Errorf("%w webhook: its body must be id or snapshot", perdure.Invalid)
	case len(w.Types) > MaxTypes:
		return fmt.Errorf("%w webhook: it has %d types, at most %d are allowed",
			perdure.Invalid, len(w.Types), MaxTypes)
	}
	if err := w.Labels.Check(); err != nil {
		return err
	}
	for _, one := range w.Types {
		if !selectsToolEvents(one) &&
			!slices.ContainsFunc(types, func(t perdure.EventType) bool { return matches(one, string(t)) }) {
			return fmt.Errorf("%w webhook: %.60q is neither an event type that can be sent nor a prefix of one "+
				"with .*: use %s, or x.TOOL.NAME for the events of a tool", perdure.Invalid, one, strings.Join(Types(), ", "))
		}
	}
	return nil
}

// EventSession describes the session of an event.
type EventSession struct {
	Org    string // empty: the default org
	Labels perdure.Labels
}

// Wants reports whether an event has to be sent to the webhook.
func (w Webhook) Wants(from EventSession, e perdure.Event) bool {
	if !w.Enabled || w.Org != from.Org || w.Session != "" && w.Session != e.Session || !w.Labels.Matches(from.Labels) || !Sendable(e) {
		return false
	}
	if len(w.Types) == 0 { // the events of tools are sent only where they are named
		return !selectsToolEvents(string(e.Type()))
	}
	return slices.ContainsFunc(w.Types, func(one string) bool { return matches(one, string(e.Type())) })
}

// matches reports whether a pattern, a type or a prefix with .*, matches a type.
func matches(pattern, kind string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return pattern == kind || wild && strings.HasSuffix(prefix, ".") && strings.HasPrefix(kind, prefix)
}

// selectsToolEvents reports whether a type or a pattern is one of the events that tools report.
func selectsToolEvents(pattern string) bool {
	return strings.HasPrefix(pattern, perdure.ToolEventPrefix) && len(pattern) > len(perdure.ToolEventPrefix)
}

// types are the event types that can be sent: ends, and questions to people or clients.
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

// Sendable reports whether an event can be sent. Of the changes of a task only its end and its
// waiting for input can.
func Sendable(e perdure.Event) bool {
	if f, ok := e.Fact.(perdure.TaskUpdated); ok {
		return f.Task.State.Terminal() || f.Task.State == perdure.TaskAwaitingInput
	}
	return slices.Contains(types, e.Type()) || selectsToolEvents(string(e.Type()))
}
