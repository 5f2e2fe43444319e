package enginerig

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// number is the schema of the answer that ask_number expects.
const number = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

// dialogTools returns the tools that use their dialog.
func (o *Outside) dialogTools() []tool.Tool {
	ask := func(ctx context.Context, env tool.Env, q tool.Question) (string, error) {
		o.enter("asks")
		reply, err := env.Dialog.Ask(ctx, q)
		if err != nil {
			return "", err
		}
		return reply.Text + string(reply.Data), nil
	}
	once := func(name string, q tool.Question) work {
		return func(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
			o.enter(name)
			heard, err := ask(ctx, env, q)
			if err != nil {
				return nil, err
			}
			return answer{"heard": heard}, o.Hold(ctx, name+"_after")
		}
	}
	late := Spec("ask_late", perdure.Idempotent)
	late.Deadline, late.SoftBudget = shortDeadline, tool.Never
	return []tool.Tool{
		tool.NewBackground(late, func(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
			_ = env.Sink.Output("stdout", []byte("asking\n"))
			heard, err := ask(ctx, env, tool.Question{Prompt: "when?"})
			return answer{"heard": heard}, err
		}),
		tool.NewBackground(Spec("ask", perdure.Idempotent), once("ask", tool.Question{Prompt: "which one?"})),
		tool.NewBackground(Spec("ask_once", perdure.AtMostOnce), once("ask_once", tool.Question{Prompt: "really?"})),
		tool.NewBackground(Spec("ask_number", perdure.Idempotent), once("ask_number", tool.Question{
			Prompt: "how many?", Expected: []byte(number),
		})),
		tool.NewBackground(Spec("ask_twice", perdure.Idempotent),
			func(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
				first, err := ask(ctx, env, tool.Question{Prompt: "first?"})
				if err != nil {
					return nil, err
				}
				second, err := ask(ctx, env, tool.Question{Prompt: "second?"})
				return answer{"heard": first + " " + second}, err
			}),
		tool.New(Spec("permit", perdure.Idempotent), o.permit),
		tool.NewBackground(Spec("inbox", perdure.Pure),
			func(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
				o.enter("inbox")
				messages, err := env.Dialog.Inbox(ctx, "", 0)
				if err != nil || len(messages) == 0 {
					return nil, context.Cause(ctx)
				}
				return answer{"heard": messages[0].PlainText()}, nil
			}),
	}
}

// permit requests an approval while it runs.
func (o *Outside) permit(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
	o.enter("permit")
	reply, err := env.Dialog.Ask(ctx, tool.Question{
		Prompt: "May I?", Permissions: []perdure.Permission{{Kind: "command", Target: "rm -r /"}},
	})
	switch {
	case err != nil:
		return nil, err
	case !reply.Approved:
		return nil, tool.Errorf("not allowed")
	}
	o.Effect("permit", env.Call.Key)
	return answer{"allowed": reply.By}, nil
}
