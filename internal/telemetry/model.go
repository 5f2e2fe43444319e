package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// observedModel records the calls of a model: a span named chat, the duration and the tokens.
type observedModel struct {
	model.Model
	t *Telemetry
}

// observedPrefixModel is an asked model that can continue from a prefix of an answer.
type observedPrefixModel struct {
	observedModel
	model.Prefixer
}

// Model wraps a model so that its calls are recorded.
func (t *Telemetry) Model(m model.Model) model.Model {
	if t == nil || m == nil {
		return m
	}
	if p, ok := m.(model.Prefixer); ok {
		return observedPrefixModel{observedModel{m, t}, p}
	}
	return observedModel{m, t}
}

// MaxTools implements model.ToolLimiter. A model that has no limit of its own returns 0.
func (a observedModel) MaxTools(session perdure.SessionID, name string) int {
	if m, ok := a.Model.(model.ToolLimiter); ok {
		return m.MaxTools(session, name)
	}
	return 0
}

func (a observedModel) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		call := a.t.startModelCall(ctx, req)
		defer call.end()
		for d, err := range a.Model.Stream(call.ctx, req) {
			call.observe(d, err)
			if !yield(d, err) {
				return
			}
		}
	}
}

// modelCall is one model call. Only the goroutine that reads the answer touches it.
type modelCall struct {
	t          *Telemetry
	ctx        context.Context
	span       trace.Span
	begun      time.Time
	provider   attribute.KeyValue
	model      string // the requested model
	answeredBy string // the model that answered
	first      time.Duration
	usage      perdure.Usage
	finish     model.Finish
	err        error
	text       strings.Builder // only if Config.Show is set
}

func (t *Telemetry) startModelCall(ctx context.Context, req model.Request) *modelCall {
	c := &modelCall{t: t, begun: time.Now()}
	c.provider, c.model = modelOf(req.Model)
	name := strings.TrimSpace(semconv.GenAIOperationNameChat.Value.AsString() + " " + c.model)
	c.ctx, c.span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.GenAIOperationNameChat, c.provider, semconv.GenAIRequestModel(c.model), semconv.GenAIConversationID(string(req.Session)),
		semconv.GenAIRequestStream(true), attemptKey.Int(req.Attempt)))
	if t.cfg.Show != nil && c.span.IsRecording() {
		if asked, err := json.Marshal(req.Messages); err == nil {
			c.span.SetAttributes(semconv.GenAIInputMessagesKey.String(t.cfg.Show(string(asked))), semconv.GenAISystemInstructionsKey.String(t.cfg.Show(req.System)))
		}
	}
	return c
}

// observe records one delta or error.
func (c *modelCall) observe(d model.Delta, err error) {
	if err != nil {
		c.err = err
		return
	}
	if c.first == 0 && (d.Text != "" || d.Thinking != "" || d.Call != nil) {
		c.first = time.Since(c.begun)
	}
	if d.Usage != nil {
		c.usage = *d.Usage
	}
	if d.Model != "" {
		c.answeredBy = d.Model
	}
	if d.Finish != "" {
		c.finish = d.Finish
	}
	if c.t.cfg.Show != nil {
		c.text.WriteString(d.Text)
	}
}

func (c *modelCall) end() {
	fault := c.errorCode()
	c.span.SetAttributes(semconv.GenAIUsageInputTokens(int(c.usage.InputTokens)), semconv.GenAIUsageOutputTokens(int(c.usage.OutputTokens)))
	if c.usage.CachedTokens > 0 {
		c.span.SetAttributes(semconv.GenAIUsageCacheReadInputTokens(int(c.usage.CachedTokens)))
	}
	if c.answeredBy != "" {
		c.span.SetAttributes(semconv.GenAIResponseModel(c.answeredBy))
	}
	if c.finish != "" {
		c.span.SetAttributes(semconv.GenAIResponseFinishReasons(string(c.finish)))
	}
	if c.first > 0 {
		c.span.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(c.first.Seconds()))
	}
	if c.t.cfg.Show != nil {
		c.span.SetAttributes(semconv.GenAIOutputMessagesKey.String(c.t.cfg.Show(c.text.String())))
	}
	word := semconv.GenAIRequestModel(c.t.models.label(c.model))
	more := []attribute.KeyValue{word}
	if fault != "" {
		c.span.SetStatus(codes.Error, fault)
		c.span.SetAttributes(semconv.ErrorTypeKey.String(fault))
		more = append(more, semconv.ErrorTypeKey.String(fault))
	}
	c.span.End()
	ctx, provider := context.Background(), genaiconv.ProviderNameAttr(c.provider.Value.AsString())
	c.t.instruments.modelCalls.Record(ctx, time.Since(c.begun).Seconds(), genaiconv.OperationNameChat, provider, more...)
	if c.usage != (perdure.Usage{}) {
		c.t.instruments.tokens.Record(ctx, c.usage.InputTokens, genaiconv.OperationNameChat, provider, genaiconv.TokenTypeInput, word)
		c.t.instruments.tokens.Record(ctx, c.usage.OutputTokens, genaiconv.OperationNameChat, provider, genaiconv.TokenTypeOutput, word)
	}
}

// errorCode returns the error code; empty: no error.
func (c *modelCall) errorCode() string {
	var known *model.Error
	switch {
	case errors.As(c.err, &known):
		return string(known.Code)
	case c.ctx.Err() != nil:
		return orElse(string(perdure.CauseOf(c.ctx)), "canceled")
	case c.err != nil:
		return "_OTHER"
	case c.finish == "":
		return "broken_off"
	}
	return ""
}
