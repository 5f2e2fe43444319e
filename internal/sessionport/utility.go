package sessionport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Limits of a completion.
const (
	maxUtilityPrompt     = 1 << 20 // bytes of the prompt and the system text together
	defaultUtilityTokens = 1024    // of the answer, where the order sets no limit
	maxUtilityTokens     = 8192    // of the answer, where the host sets no limit
	utilityTokenBytes    = 64      // bytes that a token may have; stops a model that ignores its limit
	utilityTimeout       = 2 * time.Minute
	utilityBillTimeout   = 30 * time.Second
)

// Utility is the small model that tools use for their own work. The zero value is none.
type Utility struct {
	Model     model.Model // nil: none, and tools that need it report so
	Name      string      // name of a model that Model serves; empty: its default
	MaxTokens int         // limit of an answer, whatever an order requests; 0: 8,192
}

// utility implements tool.Utility for one call.
type utility struct {
	binding
	cfg   Utility
	meter *meter.Meter // nil: its cost is not counted
	log   *slog.Logger
}

var _ tool.Utility = utility{}

// errRefused reports that the model declined to answer.
var errRefused = &model.Error{Code: model.Processing, Text: "the utility model refused to answer"}

// Complete answers a prompt. Its usage is committed to the session's journal before it returns,
// also where there is no answer: a usage that cannot be billed is an error. It makes one request;
// every further call is billed again.
//
// Invalid: the prompt is empty, or the token limit is negative. Limit: the prompt is over 1 MiB, or
// a budget refuses. Lost: the call belongs to an attempt that a newer one has replaced. A
// *model.Error: the model failed. The cause of ctx: the call ended.
func (p utility) Complete(ctx context.Context, o tool.UtilityRequest) (string, error) {
	req, err := p.request(o)
	if err != nil {
		return "", fmt.Errorf("ask the utility model: %w", err)
	}
	work := budget.CallWork(p.call.ID) + " utility " + string(newID[perdure.EventID]())
	uses := meter.WorkUsage{
		Model: p.cfg.Name, Usage: perdure.Usage{
			InputTokens: int64((len(o.System) + len(o.Prompt)) / bytesPerToken), OutputTokens: int64(req.MaxTokens),
		},
	}
	if err := p.reserve(ctx, work, uses); err != nil {
		return "", fmt.Errorf("ask the utility model: %w", err)
	}
	start := time.Now()
	answer, failed := p.ask(ctx, req)
	text := answer.Message.Text()
	switch {
	case failed != nil:
	case answer.Finish == model.FinishRefusal:
		failed = errRefused
	case strings.TrimSpace(text) == "":
		failed = &model.Error{Code: perdure.CodeEmptyAnswer, Text: "the utility model returned an empty answer"}
	}
	bill := perdure.Generation{
		Model: cmp.Or(answer.Model, p.cfg.Name), Usage: answer.Usage, DurationMS: time.Since(start).Milliseconds(),
		FinishReason: string(answer.Finish),
		// never empty: only a generation with a tool name may be recorded outside a turn
		Error: codeOf(ctx, failed), Tool: cmp.Or(p.call.Tool, "runtime"),
	}
	uses.Duration = time.Since(start)
	overtaken, unbilled := p.bill(ctx, work, uses, bill)
	switch {
	case unbilled != nil:
		p.log.Warn("utility model usage not recorded", "session", p.session, "call", p.call.ID, "error", unbilled)
	case overtaken != nil:
		p.log.Warn("utility model answered a superseded attempt",
			"session", p.session, "call", p.call.ID, "error", overtaken)
	}
	if unbilled = errors.Join(unbilled, overtaken); failed == nil && unbilled != nil {
		return "", fmt.Errorf("record utility model usage: %w", unbilled)
	}
	if failed == nil {
		return text, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", fmt.Errorf("ask the utility model: %w", failed)
}

// request builds the model request. It has no tools.
func (p utility) request(o tool.UtilityRequest) (model.Request, error) {
	size := len(o.System) + len(o.Prompt)
	switch {
	case strings.TrimSpace(o.Prompt) == "":
		return model.Request{}, fmt.Errorf("%w: the prompt is empty", perdure.Invalid)
	case o.MaxTokens < 0:
		return model.Request{}, fmt.Errorf("%w: an answer of %d tokens; use 1 or more, or 0 for the default of %d",
			perdure.Invalid, o.MaxTokens, defaultUtilityTokens)
	case size > maxUtilityPrompt:
		return model.Request{}, fmt.Errorf("%w: the prompt has %d bytes; the limit is %d",
			perdure.Limit, size, maxUtilityPrompt)
	}
	limit := cmp.Or(max(p.cfg.MaxTokens, 0), maxUtilityTokens)
	return model.Request{
		Session: p.session, Model: p.cfg.Name, System: o.System, Messages: []perdure.Message{perdure.Text(o.Prompt)},
		MaxTokens: min(cmp.Or(o.MaxTokens, defaultUtilityTokens), limit), Attempt: 1,
	}, nil
}

// ask streams the answer. It ends with ctx, after utilityTimeout, and when the answer grows far
// beyond the requested limit. A panic of the model is returned as an error.
func (p utility) ask(ctx context.Context, req model.Request) (answer model.Answer, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer func() {
		if cause := recover(); cause != nil {
			p.log.Error("utility model panicked",
				"session", p.session, "call", p.call.ID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			answer, err = model.Answer{}, &model.Error{Code: model.Processing, Text: "the utility model failed"}
		}
	}()
	late := time.AfterFunc(utilityTimeout,
		func() { end(&model.Error{Code: model.Stalled, Text: "no answer for " + utilityTimeout.String()}) })
	defer late.Stop()
	left := req.MaxTokens * utilityTokenBytes
	answer, err = model.Collect(p.cfg.Model.Stream(ctx, req), func(d model.Delta) {
		if left -= len(d.Text) + len(d.Thinking); left < 0 {
			end(&model.Error{Code: model.Processing, Text: fmt.Sprintf("the answer exceeds the limit of %d tokens",
				req.MaxTokens)})
		}
	})
	var why *model.Error
	if errors.As(context.Cause(ctx), &why) { // also where the model finished anyway
		return answer, why
	}
	return answer, err
}

// bill appends the model's usage to the journal. It runs to its end when the call is canceled, and
// also for an attempt that a newer one has replaced, because the usage has been spent; overtaken is
// the error that says so.
func (p utility) bill(ctx context.Context, work string, uses meter.WorkUsage, g perdure.Generation) (overtaken, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), utilityBillTimeout)
	defer cancel()
	err = p.store.InTx(ctx, func(tx store.Tx) error {
		_, err := p.current(tx)
		if overtaken = nil; errors.Is(err, perdure.Lost) {
			overtaken, err = err, nil
		}
		if err != nil {
			return err
		}
		if err := p.appendFact(tx, g); err != nil {
			return err
		}
		uses.Model = p.pricedModel(g.Model, tx.Now())
		return p.pay(tx, work, uses, g)
	})
	return overtaken, err
}

// pricedModel returns the name under which the price list has the model that answered.
func (p utility) pricedModel(reported string, at time.Time) string {
	if p.meter == nil {
		return reported
	}
	return p.meter.Priced(reported, p.cfg.Name, at)
}

// codeOf returns the error code of a bill; empty where there is no error.
func codeOf(ctx context.Context, err error) string {
	var known *model.Error
	switch {
	case err == nil:
		return ""
	case ctx.Err() != nil:
		return perdure.CodeInterrupted
	case errors.As(err, &known):
		return string(known.Code)
	}
	return perdure.CodeProcessing
}
