package main

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

// The variables of OpenTelemetry that are read here; its SDK reads those of batches, limits and headers itself.
const (
	otelDisabled  = "OTEL_SDK_DISABLED"
	otelExporter  = "OTEL_TRACES_EXPORTER"
	otelTracesURL = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otelProtocol  = "OTEL_EXPORTER_OTLP_PROTOCOL"
	otelSampler   = "OTEL_TRACES_SAMPLER"
	otelShare     = "OTEL_TRACES_SAMPLER_ARG"
	otelHeaders   = "OTEL_EXPORTER_OTLP_HEADERS"
)

// observed is who is told what a server does. The zero value is nobody.
type observed struct {
	engine  local.Telemetry
	server  *telemetry.Server
	page    http.Handler // answers on /metrics
	traces  *sdktrace.TracerProvider
	figures *sdkmetric.MeterProvider
}

// observe prepares the figures, which are only ever served, and the way of the spans, where a collector is named. Without one no
// connection is opened.
func observe(ctx context.Context, s cli.Serving) (observed, error) {
	if strings.EqualFold(os.Getenv(otelDisabled), "true") {
		return observed{}, nil
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("perdure"), semconv.ServiceVersion(version().Version)), resource.WithFromEnv())
	if err != nil {
		return observed{}, fmt.Errorf("%w: read OTEL_RESOURCE_ATTRIBUTES: %w", perdure.Invalid, err)
	}
	o := observed{}
	kept := prometheus.NewRegistry()
	reader, err := promexporter.New(promexporter.WithRegisterer(kept), promexporter.WithoutScopeInfo())
	if err != nil {
		return o, fmt.Errorf("prepare the figures: %w", err)
	}
	o.figures = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(about))
	o.page = promhttp.HandlerFor(kept, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn)})
	o.engine.Metrics = o.figures
	if err := o.sendSpans(ctx, s, about); err != nil {
		return o, errors.Join(err, o.close(timesOf(0, true).flush))
	}
	o.server, err = telemetry.NewServer(o.engine.Traces, o.figures)
	return o, err
}

// sendSpans prepares the way of the spans to the collector, if there is one.
func (o *observed) sendSpans(ctx context.Context, s cli.Serving, about *resource.Resource) error {
	to, err := collector(s.Traces)
	if to == "" || err != nil {
		return err
	}
	client, err := egress.ForURL(to)
	if err != nil {
		return fmt.Errorf("the collector of spans: %w", err)
	}
	hideHeaders(s.Known)
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to), otlptracehttp.WithHTTPClient(client))
	if err != nil {
		return fmt.Errorf("%w collector %q: %w", perdure.Invalid, to, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { s.Log.Warn("spans are lost", "error", err) }))
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithIDGenerator(local.SpanIDs{})}
	sampler, err := chosenSampler(os.Getenv(otelSampler), os.Getenv(otelShare))
	if err != nil {
		return errors.Join(err, exporter.Shutdown(ctx))
	}
	if sampler != nil {
		options = append(options, sdktrace.WithSampler(sampler))
	}
	o.traces = sdktrace.NewTracerProvider(options...)
	o.engine.Traces = o.traces
	if s.TraceContent {
		o.engine.Show = func(text string) string { return presentable(text, s.Known) }
	}
	return nil
}

// mostShown is how much of a text a span holds.
const mostShown = 32 << 10

// presentable is a text without the secrets that are known and what stands under the names of some (RD6).
func presentable(text string, known *redact.Set) string {
	if known != nil {
		text = known.Mask(text)
	}
	text = redact.Document(text)
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	return text
}

// collector is where spans go; empty: nowhere. Invalid: it speaks another protocol.
func collector(base string) (string, error) {
	to := os.Getenv(otelTracesURL)
	if to == "" && base != "" {
		to = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if exporter := os.Getenv(otelExporter); to == "" || exporter == "none" {
		return "", nil
	} else if exporter != "" && exporter != "otlp" {
		return "", fmt.Errorf("%w %s=%s: otlp or none", perdure.Invalid, otelExporter, exporter)
	}
	if protocol := os.Getenv(otelProtocol); protocol != "" && protocol != "http/protobuf" {
		return "", fmt.Errorf("%w %s=%s: spans are sent by http/protobuf, to port 4318 of most collectors", perdure.Invalid, otelProtocol, protocol)
	}
	return to, nil
}

// hideHeaders keeps what the collector's header holds out of logs.
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

// chosenSampler is the sampler of a share of all traces; nil: what the SDK makes of the variables. The ids of turns say when they
// began, so they are spread before a share of them is taken.
func chosenSampler(name, share string) (sdktrace.Sampler, error) {
	alone := name == "traceidratio"
	if !alone && name != "parentbased_traceidratio" {
		return nil, nil
	}
	part := 1.0
	if share != "" {
		var err error
		if part, err = strconv.ParseFloat(share, 64); err != nil || part < 0 || part > 1 {
			return nil, fmt.Errorf("%w %s=%s: a number from 0 to 1", perdure.Invalid, otelShare, share)
		}
	}
	spread := spreadSampler{sdktrace.TraceIDRatioBased(part)}
	if alone {
		return spread, nil
	}
	return sdktrace.ParentBased(spread), nil
}

// spreadSampler shows its sampler the digest of a trace's id.
type spreadSampler struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (s spreadSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	sum := sha256.Sum256(p.TraceID[:])
	p.TraceID = trace.TraceID(sum[:16])
	return s.Sampler.ShouldSample(p)
}

// close sends what is left, for as long as that may take.
func (o observed) close(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if o.traces != nil {
		_ = o.traces.Shutdown(ctx) // a collector that is gone is told of by the error handler, and keeps no server from ending well
	}
	if o.figures != nil {
		_ = o.figures.Shutdown(ctx)
	}
	return nil
}
