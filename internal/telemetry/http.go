package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/httpconv"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Server records the requests that a server answers. It is safe for concurrent use.
type Server struct {
	tracer   trace.Tracer
	requests httpconv.ServerRequestDuration
	streams  metric.Int64UpDownCounter
	replays  metric.Int64Counter
}

// NewServer returns a Server. A nil traces records no spans, a nil metrics no metrics.
func NewServer(traces trace.TracerProvider, metrics metric.MeterProvider) (*Server, error) {
	if traces == nil {
		traces = tracenoop.NewTracerProvider()
	}
	if metrics == nil {
		metrics = metricnoop.NewMeterProvider()
	}
	s, m := &Server{tracer: traces.Tracer(Scope)}, metrics.Meter(Scope)
	var errs [3]error
	s.requests, errs[0] = httpconv.NewServerRequestDuration(m, metric.WithExplicitBucketBoundaries(longBuckets()...))
	s.streams, errs[1] = m.Int64UpDownCounter(streamMetric.Name, metric.WithUnit(streamMetric.Unit), metric.WithDescription(streamMetric.Help))
	s.replays, errs[2] = m.Int64Counter(duplicateMetric.Name, metric.WithUnit(duplicateMetric.Unit), metric.WithDescription(duplicateMetric.Help))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("create server metrics: %w", err)
	}
	return s, nil
}

// Request is one request in progress.
type Request struct {
	s     *Server
	id    string
	span  trace.Span // nil: the caller is not authenticated
	begun time.Time
}

// Begin returns a context for a request whose caller is not authenticated yet.
func (s *Server) Begin(r *http.Request, id string) (context.Context, *Request) {
	return context.WithValue(r.Context(), requestIDKey{}, id), &Request{s: s, id: id, begun: time.Now()}
}

// Authenticated records that the caller is authenticated. From here on the request is a span of the
// trace that its caller names. An unauthenticated request gets neither, so that nobody without a
// token can fill a trace, or make the server record one.
func (q *Request) Authenticated(ctx context.Context, r *http.Request) context.Context {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	alone := !trace.SpanContextFromContext(ctx).IsValid()
	ctx, q.span = q.s.tracer.Start(ctx, methodLabel(r.Method), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(q.begun), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(methodLabel(r.Method)), requestKey.String(q.id)))
	if alone {
		ctx = WithOwnTrace(ctx)
	}
	return ctx
}

// WithSpan returns ctx with the request's span, if there is one.
func (q *Request) WithSpan(ctx context.Context) context.Context {
	if q.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, q.span)
}

const requestKey = attribute.Key("perdure.request.id")

// methodLabel returns the method of a request as a label: callers may send anything, and a label
// has few values.
func methodLabel(given string) string {
	switch given {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return given
	}
	return "_OTHER"
}

// End records the response: the route that matched, empty if none did, and the status.
func (q *Request) End(r *http.Request, route string, status int) {
	name := methodLabel(r.Method)
	attributes := []attribute.KeyValue{semconv.HTTPResponseStatusCode(status)}
	if route != "" {
		name += " " + route
		attributes = append(attributes, semconv.HTTPRoute(route))
	}
	if q.span != nil {
		q.span.SetName(name)
		q.span.SetAttributes(attributes...)
		if status >= http.StatusInternalServerError {
			q.span.SetStatus(codes.Error, http.StatusText(status))
		}
		q.span.End()
	}
	q.s.requests.Record(context.Background(), time.Since(q.begun).Seconds(), httpconv.RequestMethodAttr(methodLabel(r.Method)), "http", attributes...)
}

// Stream counts an open stream until end is called.
func (s *Server) Stream() (end func()) {
	s.streams.Add(context.Background(), 1)
	return func() { s.streams.Add(context.Background(), -1) }
}

// Replayed counts a stored response that was sent again.
func (s *Server) Replayed() {
	s.replays.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", "request")))
}

type requestIDKey struct{}

// logHandler adds the request and the span that a line belongs to.
type logHandler struct{ slog.Handler }

// NewLogHandler returns a handler that adds request_id, trace_id and span_id to lines logged with
// the context of a request or a span.
func NewLogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

func (l logHandler) Handle(ctx context.Context, record slog.Record) error {
	if id, ok := ctx.Value(requestIDKey{}).(string); ok && !has(record, "request_id") {
		record.AddAttrs(slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return l.Handler.Handle(ctx, record)
}

func has(record slog.Record, key string) (found bool) {
	record.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}

func (l logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{l.Handler.WithAttrs(attrs)}
}

func (l logHandler) WithGroup(name string) slog.Handler { return logHandler{l.Handler.WithGroup(name)} }
