package remote_test

import (
	"context"
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// words is what most of the fixture tools are given.
type words struct {
	Text string `json:"text,omitempty"`
}

type answer = map[string]string

var errSecret = errors.New("secret cause")

// tools are the tools that enginetest's Setup names.
func (w *world) tools() []tool.Tool {
	return append(w.foreground(), w.background()...)
}

func spec(name string, class perdure.EffectClass) tool.Spec {
	return tool.Spec{Name: name, Description: "A fixture.", Class: class}
}

// foreground makes the fixtures that answer in the turn.
func (w *world) foreground() []tool.Tool {
	say := func(_ context.Context, in words, _ tool.Env) (answer, error) { return answer{"said": in.Text}, nil }
	serial := spec("serial", perdure.Pure)
	serial.Concurrency = "one"
	held := func(name string, effect bool) func(context.Context, words, tool.Env) (answer, error) {
		return func(ctx context.Context, in words, env tool.Env) (answer, error) {
			if effect {
				w.effect(name, env.Call.Key)
			}
			return answer{"held": in.Text}, w.hold(ctx, name)
		}
	}
	done := func(name, verb string) func(context.Context, words, tool.Env) (answer, error) {
		return func(_ context.Context, in words, env tool.Env) (answer, error) {
			w.effect(name, env.Call.Key)
			return answer{verb: in.Text}, nil
		}
	}
	return []tool.Tool{
		tool.New(spec("echo", perdure.Pure), say),
		tool.New(serial, say),
		tool.New(spec("note", perdure.Idempotent), done("note", "noted")),
		tool.New(spec("charge", perdure.AtMostOnce), done("charge", "charged")),
		tool.New(spec("hold", perdure.Pure), held("hold", false)),
		tool.New(spec("hold_note", perdure.Idempotent), held("hold_note", true)),
		tool.New(spec("hold_charge", perdure.AtMostOnce), held("hold_charge", true)),
		tool.New(spec("fail", perdure.Pure), func(context.Context, words, tool.Env) (answer, error) { return nil, tool.Errorf("boom") }),
		tool.New(spec("break", perdure.Pure), func(context.Context, words, tool.Env) (answer, error) { return nil, errSecret }),
		tool.New(spec("panic", perdure.Pure), func(context.Context, words, tool.Env) (answer, error) { panic("secret cause") }),
		tool.New(spec("read_log", perdure.Pure), readLog),
		&guarded{w: w, Tool: tool.New(spec("guarded", perdure.AtMostOnce), held("guarded", true))},
	}
}

// background makes the fixtures that can outlive a turn.
func (w *world) background() []tool.Tool {
	held := func(name string, effect bool) func(context.Context, words, tool.Env) (answer, error) {
		return func(ctx context.Context, _ words, env tool.Env) (answer, error) {
			_ = env.Sink.Output("stdout", []byte("working\n"))
			if effect {
				w.effect(name, env.Call.Key)
			}
			return answer{"status": "ok"}, w.hold(ctx, name)
		}
	}
	return []tool.Tool{
		tool.NewBackground(spec("stream", perdure.Pure), func(_ context.Context, _ words, env tool.Env) (answer, error) {
			for _, line := range []string{"one\n", "two\n", "three\n"} {
				_ = env.Sink.Output("stdout", []byte(line))
			}
			return answer{"status": "ok"}, nil
		}),
		tool.NewBackground(spec("flood", perdure.Pure), func(_ context.Context, _ words, env tool.Env) (answer, error) {
			for range 5 {
				_ = env.Sink.Output("stdout", []byte(strings.Repeat("x", 100_000)))
			}
			return answer{"status": "ok"}, nil
		}),
		tool.NewBackground(spec("bg_fail", perdure.Pure), func(_ context.Context, _ words, env tool.Env) (answer, error) {
			_ = env.Sink.Output("stderr", []byte("background failed\n"))
			return nil, tool.Errorf("boom")
		}),
		tool.NewBackground(spec("bg_break", perdure.Pure), func(context.Context, words, tool.Env) (answer, error) { return nil, errSecret }),
		tool.NewBackground(spec("bg_talk", perdure.Idempotent), func(ctx context.Context, _ words, env tool.Env) (answer, error) {
			for _, line := range talk(env.Call.Execution) {
				_ = env.Sink.Output("stdout", line)
			}
			return answer{"status": "ok"}, w.hold(ctx, "bg_talk")
		}),
		tool.NewBackground(spec("bg_hold", perdure.Idempotent), held("bg_hold", false)),
		tool.NewBackground(spec("bg_charge", perdure.AtMostOnce), held("bg_charge", true)),
		tool.NewBackground(spec("bg_stubborn", perdure.Pure), func(ctx context.Context, _ words, _ tool.Env) (answer, error) {
			return answer{"status": "ok"}, w.hold(context.WithoutCancel(ctx), "bg_stubborn")
		}),
	}
}

// readLog tells the length and the end of a file.
func readLog(ctx context.Context, in struct {
	Path string `json:"path"`
}, env tool.Env) (map[string]any, error) {
	file, err := env.Files.Read(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	text := string(file.Content)
	return map[string]any{"chars": len(text), "end": text[max(len(text)-100, 0):]}, nil
}

// guarded is a tool that knows whether it happened.
type guarded struct {
	tool.Tool
	w *world
}

// Reconcile looks into the world.
func (g *guarded) Reconcile(context.Context, tool.Call, tool.Env) (tool.Reconciled, error) {
	happened := len(g.w.Effects("guarded")) > 0
	return tool.Reconciled{Happened: happened, DidNotHappen: !happened, Result: tool.Success(answer{"held": "reconciled"})}, nil
}
