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

// The bounds of a completion.
const (
	maxUtilityPrompt     = 1 << 20 // bytes of the prompt, with what the system is told
	defaultUtilityTokens = 1024    // of the answer, where the order names no limit
	maxUtilityTokens     = 8192    // of the answer, where the host names no limit
	utilityTokenBytes    = 64      // that a token may have: a model that keeps to no limit is stopped by it
	utilityTime          = 2 * time.Minute
	utilityBillTime      = 30 * time.Second
)

// Utility is the small model that tools ask for their inner work. The zero value is none.
type Utility struct {
	Model     model.Model // nil: there is none, and tools that need it say so
	Name      string      // of a model that Model knows; empty: its default
	MaxTokens int         // of an answer, whatever an order asks for; 0: 8,192
}

// utility is the model of one call.
type utility struct {
	binding
	cfg   Utility
	meter *meter.Meter // nil: nobody counts what it costs
	log   *slog.Logger
}

var _ tool.Utility = utility{}

// errRefused is an answer that the model did not want to give.
var errRefused = &model.Error{Code: model.Processing, Text: "the utility model refused to answer"}

// Complete answers a prompt. What it used is in the session's journal before the answer is given, and also where there is
// none: an answer that nobody can bill is an error. It asks once; whoever asks again is billed again.
//
// Invalid: there is no prompt, or less than no limit. Limit: the prompt is over 1 MiB. Lost: the call is of an attempt that
// was overtaken. A *model.Error: what the model said. The cause of ctx: the call ended.
func (p utility) Complete(ctx context.Context, o tool.UtilityOrder) (string, error) {
	req, err := p.request(o)
	if err != nil {
		return "", fmt.Errorf("ask the utility model: %w", err)
	}
	work := budget.WorkOfCall(p.call.ID) + " utility " + string(newID[perdure.EventID]())
	uses := meter.Uses{Model: p.cfg.Name, Usage: perdure.Usage{InputTokens: int64((len(o.System) + len(o.Prompt)) / bytesPerToken), OutputTokens: int64(req.MaxTokens)}}
	if err := p.reserve(ctx, work, uses); err != nil {
		return "", fmt.Errorf("ask the utility model: %w", err)
	}
	begun := time.Now()
	answer, failed := p.ask(ctx, req)
	text := answer.Message.Text()
	switch {
	case failed != nil:
	case answer.Finish == model.FinishRefusal:
		failed = errRefused
	case strings.TrimSpace(text) == "":
		failed = &model.Error{Code: perdure.CodeEmptyAnswer, Text: "the utility model answered nothing"}
	}
	bill := perdure.Generation{
		Model: cmp.Or(answer.Model, p.cfg.Name), Usage: answer.Usage, DurationMS: time.Since(begun).Milliseconds(), FinishReason: string(answer.Finish),
		Error: codeOf(ctx, failed), Tool: cmp.Or(p.call.Tool, "runtime"), // with a name, since only then it may stand outside of a turn
	}
	uses.Took = time.Since(begun)
	overtaken, unbilled := p.bill(ctx, work, uses, bill)
	switch {
	case unbilled != nil:
		p.log.Warn("what a utility model used is not in the journal", "session", p.session, "call", p.call.ID, "error", unbilled)
	case overtaken != nil:
		p.log.Warn("a utility model answered an attempt that was overtaken", "session", p.session, "call", p.call.ID, "error", overtaken)
	}
	if unbilled = errors.Join(unbilled, overtaken); failed == nil && unbilled != nil {
		return "", fmt.Errorf("record what the utility model used: %w", unbilled)
	}
	if failed == nil {
		return text, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", fmt.Errorf("ask the utility model: %w", failed)
}

// request is the question. It has no tools.
func (p utility) request(o tool.UtilityOrder) (model.Request, error) {
	size := len(o.System) + len(o.Prompt)
	switch {
	case strings.TrimSpace(o.Prompt) == "":
		return model.Request{}, fmt.Errorf("%w: the prompt is empty", perdure.Invalid)
	case o.MaxTokens < 0:
		return model.Request{}, fmt.Errorf("%w: an answer of %d tokens; give 1 or more, or 0 for %d", perdure.Invalid, o.MaxTokens, defaultUtilityTokens)
	case size > maxUtilityPrompt:
		return model.Request{}, fmt.Errorf("%w: the prompt has %d bytes, give at most %d", perdure.Limit, size, maxUtilityPrompt)
	}
	most := cmp.Or(max(p.cfg.MaxTokens, 0), maxUtilityTokens)
	return model.Request{
		Session: p.session, Model: p.cfg.Name, System: o.System, Messages: []perdure.Message{perdure.Text(o.Prompt)},
		MaxTokens: min(cmp.Or(o.MaxTokens, defaultUtilityTokens), most), Attempt: 1,
	}, nil
}

// ask streams the answer. It ends with ctx, after its time, and where the model goes far beyond the limit that it was given. A
// model that panics has answered nothing.
func (p utility) ask(ctx context.Context, req model.Request) (answer model.Answer, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer func() {
		if cause := recover(); cause != nil {
			p.log.Error("the utility model panicked", "session", p.session, "call", p.call.ID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			answer, err = model.Answer{}, &model.Error{Code: model.Processing, Text: "the utility model failed"}
		}
	}()
	late := time.AfterFunc(utilityTime, func() { end(&model.Error{Code: model.Stalled, Text: "no answer for " + utilityTime.String()}) })
	defer late.Stop()
	left := req.MaxTokens * utilityTokenBytes
	answer, err = model.Collect(p.cfg.Model.Stream(ctx, req), func(d model.Delta) {
		if left -= len(d.Text) + len(d.Thinking); left < 0 {
			end(&model.Error{Code: model.Processing, Text: fmt.Sprintf("the answer goes on beyond the %d tokens that were asked for", req.MaxTokens)})
		}
	})
	var why *model.Error
	if errors.As(context.Cause(ctx), &why) { // also where the model ended all the same
		return answer, why
	}
	return answer, err
}

// bill appends what the model used. It outlives the call, and is written for an attempt that was overtaken, too: what was used
// was used. overtaken says so.
func (p utility) bill(ctx context.Context, work string, uses meter.Uses, g perdure.Generation) (overtaken, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), utilityBillTime)
	defer cancel()
	err = p.store.InTx(ctx, func(tx store.Tx) error {
		_, err := p.current(tx)
		if overtaken = nil; errors.Is(err, perdure.Lost) {
			overtaken, err = err, nil
		}
		if err != nil {
			return err
		}
		if err := p.tell(tx, g); err != nil {
			return err
		}
		uses.Model = p.priced(g.Model, tx.Now())
		return p.pay(tx, work, uses, g)
	})
	return overtaken, err
}

// priced is the name of the model that answered, as the prices call it.
func (p utility) priced(reported string, at time.Time) string {
	if p.meter == nil {
		return reported
	}
	return p.meter.Priced(reported, p.cfg.Name, at)
}

// codeOf is what a bill says of an error; empty: there was none.
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
