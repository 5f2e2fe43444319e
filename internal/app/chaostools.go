package app

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/tool"
)

// chaosOrder is the input of the tools of chaos.
type chaosOrder struct {
	Order string `json:"order" jsonschema:"which order"`
}

// chaosDone is their output.
type chaosDone struct {
	Did string `json:"did"`
}

// chaosSpan is the range of the time that a tool of chaos takes before its effect, and again after
// it.
type chaosSpan struct{ least, most time.Duration }

// of returns the time for an order, which is always the same.
func (s chaosSpan) of(order string) time.Duration {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(order)) // never fails
	return s.least + time.Duration(sum.Sum64()%uint64(s.most-s.least))
}

// chaosTools returns tools of all three effect classes that write to the external ledger before
// they return. sabotage makes them violate their class (see chaosChild).
func chaosTools(ledger, sabotage string) []tool.Tool {
	short, long := chaosSpan{5 * time.Millisecond, 300 * time.Millisecond},
		chaosSpan{300 * time.Millisecond, 1200 * time.Millisecond}
	var all []tool.Tool
	for _, one := range []struct {
		spec tool.Spec
		span chaosSpan
	}{
		{tool.Spec{Name: "chaos_look", Description: "Looks.", Class: perdure.Pure}, short},
		{tool.Spec{Name: "chaos_label", Description: "Writes a label. Safe to repeat.", Class: perdure.Idempotent},
			short},
		{tool.Spec{Name: "chaos_charge", Description: "Charges. Must not run twice.", Class: perdure.AtMostOnce},
			short},
		{tool.Spec{Name: "chaos_slow", Description: "Charges, slowly.", Class: perdure.AtMostOnce,
			SoftBudget: 250 * time.Millisecond}, long},
		{tool.Spec{Name: "chaos_review", Description: "Charges after an approval.", Class: perdure.AtMostOnce,
			Policy: tool.PolicyRequiresApproval}, short},
	} {
		class := one.spec.Class // the real class; under sabotage the runtime gets another one
		if sabotage == sabotageClaim && class == perdure.AtMostOnce {
			one.spec.Class = perdure.Idempotent
		}
		all = append(all, tool.NewBackground(one.spec,
			func(ctx context.Context, in chaosOrder, env tool.Env) (chaosDone, error) {
				return chaosEffect(ctx, chaosWork{ledger: ledger, class: class, span: one.span.of(in.Order)}, in, env)
			}))
	}
	ask := tool.Spec{Name: "chaos_ask", Description: "Asks before it writes a label.", Class: perdure.Idempotent}
	return append(all, tool.NewBackground(ask,
		func(ctx context.Context, in chaosOrder, env tool.Env) (chaosDone, error) {
			if env.Dialog == nil {
				return chaosDone{}, tool.Errorf("questions are not supported here")
			}
			if _, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "Continue with " + in.Order + "?"}); err != nil {
				return chaosDone{}, err
			}
			return chaosEffect(ctx, chaosWork{ledger: ledger, class: perdure.Idempotent, span: short.of(in.Order)}, in, env)
		}))
}

// chaosWork describes one effect.
type chaosWork struct {
	ledger string // address of the ledger
	class  perdure.EffectClass
	span   time.Duration
}

// chaosEffect waits, does the effect, and waits again, like a remote service.
func chaosEffect(ctx context.Context, w chaosWork, in chaosOrder, env tool.Env) (chaosDone, error) {
	env.Sink.Output("stdout", fmt.Appendf(nil, "begins %s\n", in.Order))
	if !pause(ctx, w.span) {
		return chaosDone{}, context.Cause(ctx)
	}
	call := env.Call
	err := chaos.AppendLine(context.WithoutCancel(ctx), w.ledger, chaos.Line{
		Effect: chaos.EffectOf(call.Tool, perdure.CallKey{Session: call.Session, Call: call.ID}),
		Class:  string(w.class), Key: call.Key, PID: os.Getpid(), Call: string(call.ID), Attempt: call.Execution,
		Session: call.Session, Task: call.Task,
	})
	if err != nil {
		return chaosDone{}, err
	}
	env.Sink.Output("stdout", fmt.Appendf(nil, "did %s\n", in.Order))
	if !pause(ctx, w.span) {
		return chaosDone{}, context.Cause(ctx)
	}
	return chaosDone{Did: in.Order}, nil
}
