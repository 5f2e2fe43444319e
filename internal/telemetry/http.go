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

// Server tells of the requests that a server answers. It is safe for concurrent use.
type Server struct {
	tracer   trace.Tracer
	requests httpconv.ServerRequestDuration
	streams  metric.Int64UpDownCounter
	replays  metric.Int64Counter
}

// NewServer returns who tells. nil: nobody listens to spans, or to figures.
func NewServer(traces trace.TracerProvider, metrics metric.MeterProvider) (*Server, error) {
	if traces == nil {
		traces = tracenoop.NewTracerProvider()
	}
	if metrics == nil {
		metrics = metricnoop.NewMeterProvider()
	}
	s, m := &Server{tracer: traces.Tracer(Scope)}, metrics.Meter(Scope)
	var errs [3]error
	s.requests, errs[0] = httpconv.NewServerRequestDuration(m, metric.WithExplicitBucketBoundaries(long()...))
	s.streams, errs[1] = m.Int64UpDownCounter(streamFigure.Name, metric.WithUnit(streamFigure.Unit), metric.WithDescription(streamFigure.Help))
	s.replays, errs[2] = m.Int64Counter(duplicateFigure.Name, metric.WithUnit(duplicateFigure.Unit), metric.WithDescription(duplicateFigure.Help))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the figures of a server: %w", err)
	}
	return s, nil
}

// Request is one request that is being answered.
type Request struct {
	s     *Server
	id    string
	span  trace.Span // nil: it is not known whose it is
	begun time.Time
}

// Begin returns a context for a request of which it is not known whose it is.
func (s *Server) Begin(r *http.Request, id string) (context.Context, *Request) {
	return context.WithValue(r.Context(), requestIDKey{}, id), &Request{s: s, id: id, begun: time.Now()}
}

// Enter is told that the request is somebody's who may ask: from here on it is a span, of the trace that its caller names. A
// stranger has neither, so that nobody fills a trace, or makes a server write one, without a token.
func (q *Request) Enter(ctx context.Context, r *http.Request) context.Context {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	alone := !trace.SpanContextFromContext(ctx).IsValid()
	ctx, q.span = q.s.tracer.Start(ctx, method(r.Method), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(q.begun), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(method(r.Method)), requestKey.String(q.id)))
	if alone {
		ctx = Alone(ctx)
	}
	return ctx
}

// Traced is a context with the span of the request, where there is one.
func (q *Request) Traced(ctx context.Context) context.Context {
	if q.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, q.span)
}

const requestKey = attribute.Key("perdure.request.id")

// method is the method of a request as figures have it: callers may write anything.
func method(given string) string {
	switch given {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return given
	}
	return "_OTHER"
}

// End is told how the request was answered: the route that it took, empty where there is none, and the status.
func (q *Request) End(r *http.Request, route string, status int) {
	name := method(r.Method)
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
	q.s.requests.Record(context.Background(), time.Since(q.begun).Seconds(), httpconv.RequestMethodAttr(method(r.Method)), "http", attributes...)
}

// Stream counts a stream that is open until the function that it returns is called.
func (s *Server) Stream() (end func()) {
	s.streams.Add(context.Background(), 1)
	return func() { s.streams.Add(context.Background(), -1) }
}

// Replayed counts an answer that was given again.
func (s *Server) Replayed() {
	s.replays.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", "request")))
}

type requestIDKey struct{}

// logs adds to each line whose work it belongs to.
type logs struct{ slog.Handler }

// Logs returns a handler that adds request_id, trace_id and span_id to lines that are written with the context of a request or a
// span.
func Logs(next slog.Handler) slog.Handler { return logs{next} }

// Handle implements slog.Handler.
func (l logs) Handle(ctx context.Context, record slog.Record) error {
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

// WithAttrs implements slog.Handler.
func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler { return logs{l.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (l logs) WithGroup(name string) slog.Handler { return logs{l.Handler.WithGroup(name)} }
