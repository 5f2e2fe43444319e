package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/telemetry"
)

// The OpenTelemetry variables that are read here. The SDK reads those of batches, limits and
// headers itself.
const (
	otelDisabled  = "OTEL_SDK_DISABLED"
	otelExporter  = "OTEL_TRACES_EXPORTER"
	otelTracesURL = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelProtocol  = "OTEL_EXPORTER_OTLP_PROTOCOL"
	otelSampler   = "OTEL_TRACES_SAMPLER"
	otelShare     = "OTEL_TRACES_SAMPLER_ARG"
	otelHeaders   = "OTEL_EXPORTER_OTLP_HEADERS"
)

// observed is the telemetry of a server. The zero value records nothing.
type observed struct {
	engine  local.Telemetry
	server  *telemetry.Server
	page    http.Handler // serves /metrics
	traces  *sdktrace.TracerProvider
	figures *sdkmetric.MeterProvider
}

// observe prepares the metrics, which are only served, and the export of spans, if there is a
// collector. Without one no connection is opened.
func observe(ctx context.Context, s cli.ServeOptions) (observed, error) {
	if strings.EqualFold(os.Getenv(otelDisabled), "true") {
		return observed{}, nil
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("perdure"), semconv.ServiceVersion(version().Version)),
		resource.WithFromEnv())
	if err != nil {
		return observed{}, fmt.Errorf("%w: read OTEL_RESOURCE_ATTRIBUTES: %w", perdure.Invalid, err)
	}
	o := observed{}
	kept := prometheus.NewRegistry()
	reader, err := promexporter.New(promexporter.WithRegisterer(kept), promexporter.WithoutScopeInfo())
	if err != nil {
		return o, fmt.Errorf("prepare the metrics: %w", err)
	}
	o.figures = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	o.page = promhttp.HandlerFor(kept,
		promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn)})
	o.engine.Metrics = o.figures
	if err := o.sendSpans(ctx, s, about); err != nil {
		return o, errors.Join(err, o.close(timesOf(0, true).flush))
	}
	o.server, err = telemetry.NewServer(o.engine.Traces, o.figures)
	return o, err
}

// sendSpans prepares the export of spans to the collector, if there is one.
func (o *observed) sendSpans(ctx context.Context, s cli.ServeOptions, about *resource.Resource) error {
	to, err := collector(s.Traces)
	if to == "" || err != nil {
		return err
	}
	client, err := egress.ForURL(to)
	if err != nil {
		return fmt.Errorf("connect to the collector of spans: %w", err)
	}
	hideHeaders(s.SampleStores)
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to), otlptracehttp.WithHTTPClient(client))
	if err != nil {
		return fmt.Errorf("%w collector %q: %w", perdure.Invalid, to, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { s.Log.Warn("exporting spans failed", "error", err) }))
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(about),
		sdktrace.WithIDGenerator(local.SpanIDs{})}
	sampler, err := newSampler(os.Getenv(otelSampler), os.Getenv(otelShare))
	if err != nil {
		return errors.Join(err, exporter.Shutdown(ctx))
	}
	if sampler != nil {
		options = append(options, sdktrace.WithSampler(sampler))
	}
	o.traces = sdktrace.NewTracerProvider(options...)
	o.engine.Traces = o.traces
	if s.TraceContent {
		o.engine.Show = func(text string) string { return truncateContent(text, s.SampleStores) }
	}
	return nil
}

// maxContentBytes is the maximum length of a text in a span, in bytes.
const maxContentBytes = 32 << 10

// truncateContent masks known secrets in a text, and the values of secret-looking names (RD6).
func truncateContent(text string, known *redact.Set) string {
	if known != nil {
		text = known.Mask(text)
	}
	text = redact.Document(text)
	if len(text) > maxContentBytes {
		text = strings.ToValidUTF8(text[:maxContentBytes], "") + "…"
	}
	return text
}

// collector returns the URL for spans; empty: none. Invalid: its protocol is not supported.
func collector(base string) (string, error) {
	to := os.Getenv(otelTracesURL)
	if to == "" && base != "" {
		to = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if exporter := os.Getenv(otelExporter); to == "" || exporter == "none" {
		return "", nil
	} else if exporter != "" && exporter != "otlp" {
		return "", fmt.Errorf("%w %s=%s: want otlp or none", perdure.Invalid, otelExporter, exporter)
	}
	if protocol := os.Getenv(otelProtocol); protocol != "" && protocol != "http/protobuf" {
		return "", fmt.Errorf("%w %s=%s: only http/protobuf is supported (port 4318 of most collectors)",
			perdure.Invalid, otelProtocol, protocol)
	}
	return to, nil
}

// hideHeaders keeps the headers of the collector out of logs.
func hideHeaders(known *redact.Set) {
	if known == nil {
		return
	}
	for pair := range strings.SplitSeq(os.Getenv(otelHeaders), ",") {
		_, value, _ := strings.Cut(pair, "=")
		if word := strings.LastIndexByte(value, ' '); len(value)-word > 8 {
			known.Add(value[word+1:])
		}
	}
}

// newSampler returns the sampler for a fraction of all traces; nil: the SDK evaluates the
// variables. Trace ids derive from turn ids, which begin with a time, so that they are hashed
// before sampling.
func newSampler(name, share string) (sdktrace.Sampler, error) {
	alone := name == "traceidratio"
	if !alone && name != "parentbased_traceidratio" {
		return nil, nil
	}
	part := 1.0
	if share != "" {
		var err error
		if part, err = strconv.ParseFloat(share, 64); err != nil || part < 0 || part > 1 {
			return nil, fmt.Errorf("%w %s=%s: want a number from 0 to 1", perdure.Invalid, otelShare, share)
		}
	}
	spread := spreadSampler{sdktrace.TraceIDRatioBased(part)}
	if alone {
		return spread, nil
	}
	return sdktrace.ParentBased(spread), nil
}

// spreadSampler passes a hash of the trace id to its sampler.
type spreadSampler struct{ sdktrace.Sampler }

func (s spreadSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	sum := sha256.Sum256(p.TraceID[:])
	p.TraceID = trace.TraceID(sum[:16])
	return s.Sampler.ShouldSample(p)
}

// close exports the remaining spans, for at most within.
func (o observed) close(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if o.traces != nil {
		// the error handler reports an unreachable collector, which must not fail the stop of a
		// server
		_ = o.traces.Shutdown(ctx)
	}
	if o.figures != nil {
		_ = o.figures.Shutdown(ctx)
	}
	return nil
}
