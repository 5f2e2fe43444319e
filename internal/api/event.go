package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
)

// event is the schema of an event in the OpenAPI document. On the wire an event is written by
// perdure.EncodeEvent.
type event struct {
	V       int               `json:"v" doc:"The version of the encoding: 1."`
	ID      perdure.EventID   `json:"id"`
	Seq     int64             `json:"seq" doc:"1, 2, 3 … within the session, without gaps."`
	Type    perdure.EventType `json:"type"`
	At      time.Time         `json:"at"`
	Session perdure.SessionID `json:"session_id"`
	Actor   string            `json:"actor,omitempty"`
	Turn    perdure.TurnID    `json:"turn_id,omitempty"`
	Call    perdure.CallID    `json:"call_id,omitempty"`
	Task    perdure.TaskID    `json:"task_id,omitempty"`
	Attempt int               `json:"attempt,omitempty"`
	TraceID string            `json:"trace_id,omitempty" doc:"From the caller's traceparent header, like span_id and trace_flags; absent if none was sent."`
	SpanID  string            `json:"span_id,omitempty"`
	Flags   string            `json:"trace_flags,omitempty"`
	Data    json.RawMessage   `json:"data" doc:"The data of the event; its schema depends on the type."`
}

// eventPage is one page of a journal.
type eventPage struct {
	Items   []perdure.Event `json:"items"`
	LastSeq int64           `json:"last_seq" doc:"The last seq of the session when the page was read."`
	ReadTo  int64           `json:"read_to" doc:"The seq of the last event that was read for the page, selected or not. Continue there: with after, or with before."`
}

// eventQuery holds the parameters of a request for events of a session.
type eventQuery struct {
	OfSession
	After  string `query:"after" doc:"Only events after this seq; 0 is the start. A stream without it starts with a snapshot."`
	Before string `query:"before" doc:"JSON only: the events before this seq, newest first. Not with after."`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" doc:"JSON only: the maximum number of events; default 50."`
	Types  string `query:"types" doc:"Only these types: at most 40, separated by commas; tool.* matches all types that start with tool, and x.* the events that tools report."`

	Of    string    `query:"of" maxLength:"200" doc:"JSON only: events that name this id, of a turn, a call, a task, a message or an approval. With this parameter, actor, text, since, until or before, a request reads at most 10,000 events; read_to says how far it came."`
	Actor string    `query:"actor" maxLength:"200" doc:"JSON only: events with this actor."`
	Text  string    `query:"text" maxLength:"200" doc:"JSON only: events that contain this text, in upper or lower case."`
	Since time.Time `query:"since" doc:"JSON only: events from this time on."`
	Until time.Time `query:"until" doc:"JSON only: events up to this time."`

	LastID string `header:"Last-Event-ID" doc:"Streams only: like after, over which it takes precedence."`
	Accept string `header:"Accept" hidden:"true"`
}

// streamed is a response that the operation writes itself.
type streamed struct {
	Body func(huma.Context)
}

func (a eventHandlers) register() {
	read(a.API, operation{
		id: "list-events", path: "/v1/sessions/{id}/events", policy: reads, summary: "Read the events of a session, as a page or as a stream",
		errors: []int{http.StatusNotFound},
		forms: map[string]*huma.MediaType{
			formJSON:   {Schema: schema[eventPage](a.API)},
			formEvents: {Schema: &huma.Schema{Type: huma.TypeString, Description: "Server-Sent Events: id is the seq, event the type, data the complete event."}},
		},
	}, a.events)
}

func (a eventHandlers) events(ctx context.Context, in *eventQuery) (*streamed, error) {
	filter, err := newEventFilter(in)
	if err != nil {
		return nil, err
	}
	switch negotiate(in.Accept, formJSON, formEvents) {
	case formJSON:
		return a.eventPage(ctx, in, filter)
	case formEvents:
		if filter.isBounded() || in.Before != "" {
			return nil, invalid("query", "a stream can only be filtered by types")
		}
		return a.eventStream(ctx, in, filter.types)
	}
	return nil, notAcceptable(formJSON, formEvents)
}

// eventPage answers with one page. It writes event by event, because an event may be large.
func (a eventHandlers) eventPage(ctx context.Context, in *eventQuery, filter eventFilter) (*streamed, error) {
	after, forward, err := parseSeq("query.after", in.After)
	if err != nil {
		return nil, err
	}
	before, backward, err := parseSeq("query.before", in.Before)
	if err != nil {
		return nil, err
	}
	if forward && backward {
		return nil, invalid("query.before", "cannot be used with after")
	}
	session, err := a.cfg.Engine.Sessions().Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	limit := orDefault(in.Limit, defaultPage)
	part := section{after: after, to: session.LastSeq, limit: filter.types.maxEvents(limit)}
	each := a.eachEvent
	if backward {
		part = section{to: min(before-1, session.LastSeq)}
		each = a.eachEventBackward
	}
	if filter.isBounded() || backward {
		part.limit = scannedAtMost
	}
	page := &pageWriter{filter: filter, disclosure: requestOf(ctx).disclosure, limit: limit, readTo: after}
	if backward {
		page.readTo = before
	}
	return &streamed{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", formJSON)
		c.SetStatus(http.StatusOK)
		page.out = c.BodyWriter()
		_, err := page.out.Write([]byte(`{"items":[`))
		if err == nil {
			err = each(ctx, in.ID, part, page.add)
		}
		if err != nil {
			a.abort(ctx, err)
		}
		_, _ = fmt.Fprintf(page.out, `],"last_seq":%d,"read_to":%d}`+"\n", session.LastSeq, page.readTo)
	}}, nil
}

// pageWriter writes the selected events of a page.
type pageWriter struct {
	out        io.Writer
	filter     eventFilter
	disclosure Disclosure
	limit      int
	shown      int
	readTo     int64
}

// add writes an event that is selected, and returns errStop once the page is full.
func (p *pageWriter) add(e perdure.Event) error {
	if p.shown == p.limit {
		return errStop
	}
	p.readTo = e.Seq
	text, selected, err := p.filter.encode(e, p.disclosure)
	if err != nil || !selected {
		return err
	}
	if p.shown > 0 {
		text = append([]byte(","), text...)
	}
	p.shown++
	_, err = p.out.Write(text)
	return err
}

// abort cuts a response that has started and cannot be completed, so that a client does not mistake
// it for a complete one.
func (a *API) abort(ctx context.Context, err error) {
	if ctx.Err() == nil {
		a.cfg.Log.WarnContext(ctx, "response cut", "request_id", requestOf(ctx).id, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// parseSeq parses a seq. given is false if text is empty.
func parseSeq(field, text string) (seq int64, given bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	seq, err = strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return 0, false, invalid(field, "must be the seq of an event, or 0 for the start")
	}
	return seq, true, nil
}

// eventsAtOnce is the number of events held in memory for one client.
const eventsAtOnce = 20

// errStop stops a walk over a journal.
var errStop = errors.New("enough")

// section is a section of a journal: at most `most` events (0: all) after the seq `after`, up to
// and including `to`.
type section struct {
	after, to int64
	limit     int
}

// eachEvent calls fn for each event of a section, reading a few events at a time. fn stops it with
// errStop.
func (a *API) eachEvent(ctx context.Context, id perdure.SessionID, s section, fn func(perdure.Event) error) error {
	for read := 0; s.after < s.to && (s.limit == 0 || read < s.limit); {
		want := int64(eventsAtOnce)
		if s.limit > 0 {
			want = min(want, int64(s.limit-read))
		}
		events, err := a.cfg.Engine.Events(ctx, id, s.after, int(min(want, s.to-s.after)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for _, e := range events {
			switch err := fn(e); {
			case errors.Is(err, errStop):
				return nil
			case err != nil:
				return err
			}
			s.after = e.Seq
			read++
		}
	}
	return nil
}

// eachEventBackward is eachEvent from the end of a section to its start.
func (a *API) eachEventBackward(ctx context.Context, id perdure.SessionID, s section, fn func(perdure.Event) error) error {
	for read := 0; s.to > s.after && (s.limit == 0 || read < s.limit); {
		want := min(int64(eventsAtOnce), s.to-s.after)
		if s.limit > 0 {
			want = min(want, int64(s.limit-read))
		}
		events, err := a.cfg.Engine.Events(ctx, id, s.to-want, int(want))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for _, e := range slices.Backward(events) {
			switch err := fn(e); {
			case errors.Is(err, errStop):
				return nil
			case err != nil:
				return err
			}
			s.to = e.Seq - 1
			read++
		}
	}
	return nil
}

// maxTypes is the maximum number of types in a filter (ST6).
const maxTypes = 40

// typeFilter selects events by type. An empty filter selects all.
type typeFilter []string

// newTypeFilter parses ?types=.
func newTypeFilter(text string) (typeFilter, error) {
	if text == "" {
		return nil, nil
	}
	filter := typeFilter(strings.Split(text, ","))
	if len(filter) > maxTypes {
		return nil, invalid("query.types", "at most %d", maxTypes)
	}
	for _, one := range filter {
		ofTools := strings.HasPrefix(one, perdure.ToolEventPrefix) && len(one) > len(perdure.ToolEventPrefix)
		if !ofTools && !slices.ContainsFunc(eventTypes, typeFilter{one}.matches) {
			return nil, invalid("query.types", "%q is neither a type of event nor a prefix of one followed by .*", cut(one, 60))
		}
	}
	return filter, nil
}

// matches reports whether the filter selects a type.
func (f typeFilter) matches(kind string) bool {
	return len(f) == 0 || slices.ContainsFunc(f, func(one string) bool {
		prefix, isPrefix := strings.CutSuffix(one, "*")
		return one == kind || isPrefix && strings.HasSuffix(prefix, ".") && strings.HasPrefix(kind, prefix)
	})
}

// maxEvents returns how many events must be read to find limit selected ones; 0: unknown.
func (f typeFilter) maxEvents(limit int) int {
	if len(f) == 0 {
		return limit
	}
	return 0
}

// eventTypes are the types accepted in a filter: those of the journal and of live frames.
var eventTypes = []string{
	"session.created", "session.forked", "session.updated", "session.activated", "session.waiting", "session.idled", "session.stopped", "session.paused", "session.resumed", "message.received",
	"turn.started", "turn.interrupt_requested", "turn.completed", "turn.failed", "turn.canceled", "turn.sealed", "turn.loop_detected",
	"reason.started", "reason.completed", "reason.recovered", "output.message.started", "output.message.completed", "output.message.replaced", "llm.generation",
	"schedule.created", "schedule.fired", "schedule.skipped", "schedule.paused", "schedule.canceled",
	"act.started", "act.completed", "tool.started", "tool.taken_over", "tool.detach_requested", "tool.detach_refused", "tool.detached", "tool.call_requested", "tool.replanned",
	"tool.completed", "tool.unknown", "tool.resolved", "transcript.repaired", "approval.requested", "approval.resolved", "context.compacted",
	"task.created", "task.updated", "task.reattached", "task.resolved", "task.cancel_requested", "task.cancel_receipt", "task.delivered", "task.pruned", "delivery.held",
	"task.message.sent", "task.message.received", "audit.recorded", "resource.updated", "lease.expired", "lease.cleanup_failed", "budget.warning", "budget.paused", "budget.exhausted", "budget.resumed", "file.written", "egress.denied",
	"output.message.delta", "output.message.progress", "tool.output.delta", "tool.progress", "task.live",
}
