package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// IDGenerator is an id generator for an SDK. It gives a span the ids that were derived for it, and
// all others random ones.
type IDGenerator struct{}

// plannedIDs holds the derived ids of the next span of a context.
type plannedIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

type plannedIDsKey struct{}

// NewIDs returns the ids of a span that starts a trace.
func (IDGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if p, ok := ctx.Value(plannedIDsKey{}).(plannedIDs); ok {
		return p.trace, p.span
	}
	var id trace.TraceID
	binary.BigEndian.PutUint64(id[:8], rand.Uint64()|1) // an id of zeros is invalid
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id, randomSpan()
}

// NewSpanID returns the id of a span in a trace.
func (IDGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if p, ok := ctx.Value(plannedIDsKey{}).(plannedIDs); ok {
		return p.span
	}
	return randomSpan()
}

func randomSpan() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// spanID derives a span id from an object's kind and ids. It is the same in every process.
func spanID(kind string, parts ...string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
	copy(id[:], sum[:])
	id[7] |= 1 // an id of zeros is invalid
	return id
}

// traceID derives the trace id of a turn or a task from the UUID in its id (EV5).
func traceID(id string) (trace.TraceID, bool) {
	_, text, _ := strings.Cut(id, "_")
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != 16 {
		sum := sha256.Sum256([]byte(id)) // an id without a UUID
		raw = sum[:16]
	}
	return trace.TraceID(raw), id != ""
}

type ownTraceKey struct{}

// WithOwnTrace marks the span of a context as the root of its own trace: later work does not join a
// trace of a caller.
func WithOwnTrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownTraceKey{}, true)
}

// WithParent returns a context whose spans are children of the span that traceparent names,
// whatever their parent was before. An invalid traceparent changes nothing.
func WithParent(ctx context.Context, traceparent string) context.Context {
	parent := parseParent(traceparent)
	if !parent.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(context.WithValue(ctx, ownTraceKey{}, false), parent)
}

// TraceParent returns the traceparent of a context's span, for work that comes of it later; empty:
// there is no span of a caller.
func TraceParent(ctx context.Context) string {
	if alone, _ := ctx.Value(ownTraceKey{}).(bool); alone {
		return ""
	}
	return formatParent(trace.SpanContextFromContext(ctx))
}

func parseParent(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

func formatParent(span trace.SpanContext) string {
	if !span.IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), carrier)
	return carrier["traceparent"]
}
