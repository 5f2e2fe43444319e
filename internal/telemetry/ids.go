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

// IDs gives spans the ids that they are to have, and others random ones: the id generator of an SDK.
type IDs struct{}

// plan says which ids the next span of a context has.
type plan struct {
	trace trace.TraceID
	span  trace.SpanID
}

type planKey struct{}

// NewIDs returns the ids of a span that begins a trace.
func (IDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if p, ok := ctx.Value(planKey{}).(plan); ok {
		return p.trace, p.span
	}
	var id trace.TraceID
	binary.BigEndian.PutUint64(id[:8], rand.Uint64()|1) // an id of zeros is none
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id, randomSpan()
}

// NewSpanID returns the id of a span in a trace.
func (IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if p, ok := ctx.Value(planKey{}).(plan); ok {
		return p.span
	}
	return randomSpan()
}

func randomSpan() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// spanID derives the id of the span of a thing, the same in every process.
func spanID(kind string, parts ...string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
	copy(id[:], sum[:])
	id[7] |= 1 // an id of zeros is none
	return id
}

// traceID is the trace of a turn or a task: the UUID in its id (EV5).
func traceID(id string) (trace.TraceID, bool) {
	_, text, _ := strings.Cut(id, "_")
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(raw) != 16 {
		sum := sha256.Sum256([]byte(id)) // an id that somebody made by hand
		raw = sum[:16]
	}
	return trace.TraceID(raw), id != ""
}

type aloneKey struct{}

// Alone says that the span of a context begins a trace of its own: what comes of it later is in none of a caller's.
func Alone(ctx context.Context) context.Context { return context.WithValue(ctx, aloneKey{}, true) }

// Below is a context whose work hangs on the span that a traceparent names, whatever it hung on before. A text that is none changes
// nothing.
func Below(ctx context.Context, traceparent string) context.Context {
	parent := parseParent(traceparent)
	if !parent.IsValid() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(context.WithValue(ctx, aloneKey{}, false), parent)
}

// Parent is the traceparent of a context's span, for what comes of it later; empty: nobody traces it.
func Parent(ctx context.Context) string {
	if alone, _ := ctx.Value(aloneKey{}).(bool); alone {
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
