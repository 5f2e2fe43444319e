package core

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Owner is what work needs to know of its session. A fold says more, but every waiting run would
// keep one in memory. An owner is never changed once work uses it.
type Owner struct {
	Session perdure.SessionID
	// Org and user come from the session's row; they are empty if no port needs them.
	Org     string
	User    string
	Agent   perdure.Agent
	Created time.Time
	Lineage *perdure.Lineage // nil: not a subagent
	Labels  perdure.Labels   // of the session's row or its fold
	Model   string           // that the turn asks for; empty: the engine's default, or no turn
	// Request is the metadata of the messages of the turn, or of the request for the work.
	Request map[string]string
	Trace   string // traceparent of the turn or task; empty: none
	// HasDetachedWork says that work of the session has left its turn, so the model needs the tools
	// to manage it.
	HasDetachedWork bool
}

// Traceparent returns the traceparent of the current span. Without tracing it is the one that came
// with the request.
func (o *Owner) Traceparent(ctx context.Context) string {
	return cmp.Or(telemetry.TraceParent(ctx), o.Trace)
}

// Root returns the root of the session's tree.
func (o *Owner) Root() perdure.SessionID {
	if o.Lineage == nil {
		return o.Session
	}
	return o.Lineage.Root
}

// Depth returns how many levels the session is below its root.
func (o *Owner) Depth() int {
	if o.Lineage == nil {
		return 0
	}
	return o.Lineage.Depth
}

// Of fills in organisation, user and labels from the session's row, and returns o.
func (o *Owner) Of(row store.Session) *Owner {
	o.Org, o.User, o.Labels = row.Org, row.User, row.Labels
	return o
}

// Calls returns a call that says for whom it is made.
func (o *Owner) Calls(call tool.Call) tool.Call {
	call.Org, call.User = o.Org, o.User
	call.For = &tool.Caller{
		Agent: o.Agent.Name, AgentID: o.Agent.ID, Model: cmp.Or(o.Model, o.Agent.Model), Locale: cmp.Or(o.Agent.Locale, "en"),
		Labels: o.Labels, Metadata: o.Agent.Metadata, Request: o.Request,
	}
	return call
}

// OwnerOf returns the owner of a folded session.
func OwnerOf(s *perdure.Session) *Owner {
	o := CallerOf(s)
	o.HasDetachedWork = HasDetachedWork(s)
	return o
}

// CallerOf is OwnerOf without HasDetachedWork, which takes a walk over the transcript.
func CallerOf(s *perdure.Session) *Owner {
	o := &Owner{Session: s.ID, Agent: s.Agent, Created: s.CreatedAt, Lineage: s.Lineage, Labels: s.Labels}
	if s.Turn != nil {
		o.Trace, o.Model, o.Request = s.Turn.Trace, s.Turn.Model, s.Turn.Metadata
	}
	return o
}

// AgentOf returns the agent that a session was created with. NotFound: there is no such session.
func AgentOf(r store.Reader, id perdure.SessionID) (perdure.Agent, error) {
	o, err := ReadOwner(r, id)
	if err != nil {
		return perdure.Agent{}, err
	}
	return o.Agent, nil
}

// ReadOwner reads the owner from the first event of the journal, the only event that names the
// agent. NotFound: there is no such session. Invalid: the journal starts with another event.
func ReadOwner(r store.Reader, id perdure.SessionID) (*Owner, error) {
	first, err := r.Journal().Events(id, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("read the agent of %s: %w", id, err)
	}
	if len(first) == 0 {
		return nil, fmt.Errorf("session %s: %w", id, perdure.NotFound)
	}
	created, ok := first[0].Fact.(perdure.SessionCreated)
	if !ok {
		return nil, fmt.Errorf("session %s: %w journal: it starts with %s", id, perdure.Invalid, first[0].Type())
	}
	return &Owner{Session: id, Agent: created.Agent, Created: first[0].At.UTC().Truncate(time.Microsecond),
		Lineage: created.Lineage}, nil
}

// HasDetachedWork reports whether work of a session has left its turn. The task may have been
// pruned while its placeholder is still in the transcript.
func HasDetachedWork(s *perdure.Session) bool {
	for _, t := range s.Tasks {
		if t.Kind != perdure.KindMonitor {
			return true
		}
	}
	return slices.ContainsFunc(s.Transcript, func(m perdure.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p perdure.Part) bool {
			return p.Result != nil && bytes.HasPrefix(p.Result.Result, []byte(`{"type":"background"`))
		})
	})
}

// MeterOwner identifies the owner to the meter.
func (o *Owner) MeterOwner() meter.Owner {
	return meter.Owner{Session: o.Session, Agent: o.Agent, Lineage: o.Lineage}
}
